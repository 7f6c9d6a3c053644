// config.json -> ModelDescription, with the defaults of transformers.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <optional>

#include "base/json.h"
#include "checkpoint/checkpoint.h"

namespace rbln {
namespace {

constexpr const char* kArchitectures[] = {
    "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
    "Qwen3ForCausalLM"};
// Far beyond any model; keeps products of sizes inside 63 bits.
constexpr int64_t kMaxSize = 1 << 24;

// Reads keys of one JSON object; complaints name the key and the value.
class Reader {
 public:
  Reader(const Json& json, std::string name)
      : json_(json), name_(std::move(name)) {}

  // The value of a key; null where it is absent or null.
  const Json* Find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  bool IsNull(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_null();
  }
  int Integer(const char* key, std::optional<int64_t> fallback,
              int64_t least = 1) const {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (!fallback) throw UsageError("{}: '{}' is missing", name_, key);
      return static_cast<int>(*fallback);
    }
    if (!value->is_number_integer() || value->get<int64_t>() < least ||
        value->get<int64_t>() > kMaxSize) {
      throw UsageError("{}: '{}' is {}, expected a whole number from {} to {}",
                       name_, key, Short(*value), least, kMaxSize);
    }
    return value->get<int>();
  }
  double Number(const char* key, double fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    const double number =
        value->is_number() ? value->get<double>() : std::nan("");
    if (!(number > 0) || !std::isfinite(number)) {
      throw UsageError("{}: '{}' is {}, expected a positive number", name_, key,
                       Short(*value));
    }
    return number;
  }
  bool Flag(const char* key, bool fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) {
      throw UsageError("{}: '{}' is {}, expected true or false", name_, key,
                       Short(*value));
    }
    return value->get<bool>();
  }
  std::string Text(const char* key, const std::string& fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) {
      throw UsageError("{}: '{}' is {}, expected a string", name_, key,
                       Short(*value));
    }
    return value->get<std::string>();
  }
  static std::string Short(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace)
        .substr(0, 60);
  }
  const std::string& name() const { return name_; }

 private:
  const Json& json_;
  std::string name_;
};

std::string Architecture(const Reader& config) {
  const std::string known =
      fmt::format("{}", fmt::join(SupportedArchitectures(), ", "));
  const Json* list = config.Find("architectures");
  if (list != nullptr && list->is_array() && !list->empty() &&
      list->front().is_string()) {
    const std::string architecture = list->front();
    for (const char* supported : kArchitectures) {
      if (architecture == supported) return architecture;
    }
    throw UsageError(
        "{}: architecture {} is not supported; supported are: {}",
        config.name(), architecture, known);
  }
  // Some files name only the model type.
  const std::string type = config.Text("model_type", "");
  const std::pair<const char*, const char*> types[] = {
      {"llama", kArchitectures[0]},
      {"mistral", kArchitectures[1]},
      {"qwen2", kArchitectures[2]},
      {"qwen3", kArchitectures[3]}};
  for (const auto& [name, architecture] : types) {
    if (type == name) return architecture;
  }
  throw UsageError(
      "{}: neither 'architectures' nor 'model_type' ({}) names a model that is "
      "supported; supported are: {}",
      config.name(), type.empty() ? "absent" : type, known);
}

void ReadRope(const Reader& config, ModelDescription* model) {
  model->rope_theta = config.Number("rope_theta", 10000.0);
  const Json* scaling = config.Find("rope_parameters");
  const char* key = "rope_parameters";
  if (scaling == nullptr) {
    scaling = config.Find("rope_scaling");
    key = "rope_scaling";
  }
  if (scaling == nullptr) return;
  if (!scaling->is_object()) {
    throw UsageError("{}: '{}' is {}, expected an object", config.name(), key,
                     Reader::Short(*scaling));
  }
  const Reader rope(*scaling, config.name() + ": " + key);
  model->rope_theta = rope.Number("rope_theta", model->rope_theta);
  const std::string type =
      rope.Text("rope_type", rope.Text("type", "default"));
  RopeScaling& result = model->rope_scaling;
  if (type == "default") return;
  if (type == "linear") {
    result.kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    result.kind = RopeScaling::Kind::kLlama3;
    result.low_freq_factor = rope.Number("low_freq_factor", 1.0);
    result.high_freq_factor = rope.Number("high_freq_factor", 4.0);
    result.original_max_position_embeddings =
        rope.Integer("original_max_position_embeddings", 8192);
    if (!(result.high_freq_factor > result.low_freq_factor)) {
      throw UsageError(
          "{}: 'high_freq_factor' is {}, expected more than 'low_freq_factor', "
          "which is {}",
          rope.name(), result.high_freq_factor, result.low_freq_factor);
    }
  } else {
    throw UsageError(
        "{}: rope type '{}' is not supported; supported are: default, linear, "
        "llama3",
        rope.name(), type);
  }
  if (rope.Find("factor") == nullptr) {
    throw UsageError("{}: 'factor' is missing", rope.name());
  }
  result.factor = rope.Number("factor", 1.0);
}

// Which layers attend to a window only.
void ReadWindows(const Reader& config, ModelDescription* model) {
  model->sliding_window.assign(model->num_layers, 0);
  const bool mistral = model->architecture == "MistralForCausalLM";
  const bool qwen = model->architecture.starts_with("Qwen");
  if (!mistral && !(qwen && config.Flag("use_sliding_window", false))) return;
  // An explicit null means none; an absent key means the default.
  if (config.IsNull("sliding_window")) return;
  const int window = config.Integer("sliding_window", 4096);
  const int first = mistral ? 0 : config.Integer("max_window_layers", 28, 0);
  const Json* types = config.Find("layer_types");
  if (types != nullptr && (!types->is_array() ||
                           types->size() != model->sliding_window.size())) {
    throw UsageError("{}: 'layer_types' is {}, expected {} entries",
                     config.name(), Reader::Short(*types), model->num_layers);
  }
  for (int layer = 0; layer < model->num_layers; ++layer) {
    const bool slides = types != nullptr
                            ? (*types)[layer] == "sliding_attention"
                            : layer >= first;
    if (slides) model->sliding_window[layer] = window;
  }
}

}  // namespace

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
  }
  return "?";
}

std::span<const char* const> SupportedArchitectures() {
  return kArchitectures;
}

ModelDescription ParseModelConfig(std::string_view config_json,
                                  std::string_view name) {
  const Json json = ParseJson(config_json, name, ErrorKind::kUsage);
  if (!json.is_object()) throw UsageError("{}: not a JSON object", name);
  const Reader config(json, std::string(name));
  ModelDescription model;
  model.architecture = Architecture(config);
  const bool llama = model.architecture == "LlamaForCausalLM";
  const bool mistral = model.architecture == "MistralForCausalLM";
  const bool qwen2 = model.architecture == "Qwen2ForCausalLM";
  const bool qwen3 = model.architecture == "Qwen3ForCausalLM";
  if (const Json* quantized = config.Find("quantization_config")) {
    throw UsageError(
        "{}: the weights are quantized already ('quantization_config': {}); "
        "give the checkpoint in float32, float16 or bfloat16",
        name, Reader::Short(*quantized));
  }
  model.vocab_size = config.Integer("vocab_size", std::nullopt);
  model.hidden_size = config.Integer("hidden_size", std::nullopt);
  model.intermediate_size = config.Integer("intermediate_size", std::nullopt);
  model.num_layers = config.Integer("num_hidden_layers", std::nullopt);
  model.num_heads = config.Integer("num_attention_heads", std::nullopt);
  if (model.num_layers > 4096 || model.hidden_size > 1 << 20 ||
      model.intermediate_size > 1 << 22 || model.num_heads > 1 << 16) {
    throw UsageError(
        "{}: {} layers of {} with {} heads: larger than any model", name,
        model.num_layers, model.hidden_size, model.num_heads);
  }
  model.num_kv_heads =
      config.Integer("num_key_value_heads", mistral ? 8 : model.num_heads);
  if (model.num_heads % model.num_kv_heads != 0) {
    throw UsageError(
        "{}: 'num_key_value_heads' is {}, which does not divide "
        "'num_attention_heads', {}",
        name, model.num_kv_heads, model.num_heads);
  }
  model.head_dim = config.Integer(
      "head_dim", qwen3 ? 128 : model.hidden_size / model.num_heads);
  if (model.head_dim < 2 || model.head_dim % 2 != 0 || model.head_dim > 4096) {
    throw UsageError("{}: the head size is {}, expected an even number", name,
                     model.head_dim);
  }
  model.max_position_embeddings = config.Integer(
      "max_position_embeddings", mistral ? 131072 : llama ? 2048 : 32768);
  model.rms_norm_eps = config.Number("rms_norm_eps", 1e-6);
  model.tie_word_embeddings = config.Flag("tie_word_embeddings", false);
  const bool attention_bias =
      (llama || qwen3) && config.Flag("attention_bias", false);
  model.qkv_bias = qwen2 || attention_bias;
  model.o_bias = attention_bias;
  model.mlp_bias = llama && config.Flag("mlp_bias", false);
  model.qk_norm = qwen3;
  if (const std::string act = config.Text("hidden_act", "silu");
      act != "silu" && act != "swish") {
    throw UsageError("{}: 'hidden_act' is {}, supported is: silu", name, act);
  }
  if (config.Number("partial_rotary_factor", 1.0) != 1.0) {
    throw UsageError("{}: 'partial_rotary_factor' other than 1 is not supported",
                     name);
  }
  ReadRope(config, &model);
  ReadWindows(config, &model);
  const std::string dtype =
      config.Text("dtype", config.Text("torch_dtype", "bfloat16"));
  model.dtype = dtype == "float32"   ? DType::kFloat32
                : dtype == "float16" ? DType::kFloat16
                                     : DType::kBFloat16;
  return model;
}

std::vector<float> ModelDescription::InverseFrequencies() const {
  std::vector<float> result(head_dim / 2);
  for (int i = 0; i < head_dim / 2; ++i) {
    const float exponent =
        static_cast<float>(2 * i) / static_cast<float>(head_dim);
    float frequency =
        1.0f / static_cast<float>(
                   std::pow(rope_theta, static_cast<double>(exponent)));
    const auto factor = static_cast<float>(rope_scaling.factor);
    if (rope_scaling.kind == RopeScaling::Kind::kLinear) {
      frequency /= factor;
    } else if (rope_scaling.kind == RopeScaling::Kind::kLlama3) {
      // transformers.modeling_rope_utils._compute_llama3_parameters
      const auto low = static_cast<float>(rope_scaling.low_freq_factor);
      const auto high = static_cast<float>(rope_scaling.high_freq_factor);
      const auto context =
          static_cast<float>(rope_scaling.original_max_position_embeddings);
      const float wavelength =
          2.0f * std::numbers::pi_v<float> / frequency;
      if (wavelength > context / low) {
        frequency /= factor;
      } else if (wavelength >= context / high) {
        const float smooth = (context / wavelength - low) / (high - low);
        frequency =
            (1.0f - smooth) * frequency / factor + smooth * frequency;
      }
    }
    result[i] = frequency;
  }
  return result;
}

int64_t ModelDescription::NumParameters() const {
  int64_t count = 0;
  for (const TensorSpec& tensor : ExpectedTensors(*this)) {
    int64_t elements = 1;
    for (const int64_t dimension : tensor.shape) elements *= dimension;
    count += elements;
  }
  return count;
}

std::vector<TensorSpec> ExpectedTensors(const ModelDescription& model) {
  const int64_t hidden = model.hidden_size;
  const int64_t q = int64_t{model.num_heads} * model.head_dim;
  const int64_t kv = int64_t{model.num_kv_heads} * model.head_dim;
  const int64_t ffn = model.intermediate_size;
  std::vector<TensorSpec> tensors;
  const auto linear = [&](const std::string& name, int64_t outputs,
                          int64_t inputs, bool bias) {
    tensors.push_back({name + ".weight", {outputs, inputs}});
    if (bias) tensors.push_back({name + ".bias", {outputs}});
  };
  tensors.push_back({"model.embed_tokens.weight", {model.vocab_size, hidden}});
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    tensors.push_back({at + "input_layernorm.weight", {hidden}});
    linear(at + "self_attn.q_proj", q, hidden, model.qkv_bias);
    linear(at + "self_attn.k_proj", kv, hidden, model.qkv_bias);
    linear(at + "self_attn.v_proj", kv, hidden, model.qkv_bias);
    if (model.qk_norm) {
      tensors.push_back({at + "self_attn.q_norm.weight", {model.head_dim}});
      tensors.push_back({at + "self_attn.k_norm.weight", {model.head_dim}});
    }
    linear(at + "self_attn.o_proj", hidden, q, model.o_bias);
    tensors.push_back({at + "post_attention_layernorm.weight", {hidden}});
    linear(at + "mlp.gate_proj", ffn, hidden, model.mlp_bias);
    linear(at + "mlp.up_proj", ffn, hidden, model.mlp_bias);
    linear(at + "mlp.down_proj", hidden, ffn, model.mlp_bias);
  }
  tensors.push_back({"model.norm.weight", {hidden}});
  if (!model.tie_word_embeddings) {
    tensors.push_back({"lm_head.weight", {model.vocab_size, hidden}});
  }
  return tensors;
}

}  // namespace rbln
