// config.json -> ModelDescription, with the defaults of transformers.
#include <fmt/format.h>

#include <algorithm>
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
    throw UsageError("{}: architecture {} is not supported; supported are: {}",
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

void ReadYarn(const Reader& rope, RopeScaling* scaling) {
  scaling->beta_fast = rope.Number("beta_fast", 32.0);
  scaling->beta_slow = rope.Number("beta_slow", 1.0);
  scaling->truncate = rope.Flag("truncate", true);
}

void ReadLongrope(const Reader& rope, int head_dim, RopeScaling* scaling) {
  const auto read = [&](const char* key) {
    const Json* list = rope.Find(key);
    std::vector<float> factors;
    if (list != nullptr && list->is_array()) {
      for (const Json& factor : *list) {
        if (factor.is_number() && factor.get<float>() > 0) {
          factors.push_back(factor.get<float>());
        }
      }
    }
    if (list == nullptr || factors.size() != list->size() ||
        factors.size() != static_cast<size_t>(head_dim / 2)) {
      throw UsageError("{}: '{}' is {}, expected a list of {} positive numbers",
                       rope.name(), key,
                       list == nullptr ? "missing" : Reader::Short(*list),
                       head_dim / 2);
    }
    return factors;
  };
  scaling->short_factor = read("short_factor");
  scaling->long_factor = read("long_factor");
}

// As the papers of YaRN and LongRoPE suggest.
double DefaultAttentionFactor(const Reader& rope, const RopeScaling& scaling) {
  const double factor = scaling.factor;
  if (factor <= 1) return 1.0;
  if (scaling.kind == RopeScaling::Kind::kYarn) {
    const auto mscale = [&](double scale) {
      return 0.1 * scale * std::log(factor) + 1.0;
    };
    const bool both = rope.Find("mscale") != nullptr &&
                      rope.Find("mscale_all_dim") != nullptr;
    return both ? mscale(rope.Number("mscale", 1)) /
                      mscale(rope.Number("mscale_all_dim", 1))
                : mscale(1.0);
  }
  if (scaling.kind == RopeScaling::Kind::kLongrope) {
    return std::sqrt(1 +
                     std::log(factor) /
                         std::log(scaling.original_max_position_embeddings));
  }
  return 1.0;
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
  if (rope.Number("partial_rotary_factor", 1.0) != 1.0) {
    throw UsageError(
        "{}: 'partial_rotary_factor' other than 1 is not supported",
        rope.name());
  }
  const std::string type = rope.Text("rope_type", rope.Text("type", "default"));
  RopeScaling& result = model->rope_scaling;
  if (type == "default") return;
  // Some files have it beside the other limits, and then it counts.
  result.original_max_position_embeddings =
      config.Integer("original_max_position_embeddings",
                     rope.Integer("original_max_position_embeddings",
                                  model->max_position_embeddings));
  const double ratio = static_cast<double>(model->max_position_embeddings) /
                       result.original_max_position_embeddings;
  bool needs_factor = true;
  if (type == "linear") {
    result.kind = RopeScaling::Kind::kLinear;
  } else if (type == "dynamic") {
    result.kind = RopeScaling::Kind::kDynamic;
  } else if (type == "yarn") {
    result.kind = RopeScaling::Kind::kYarn;
    result.factor = ratio;
    needs_factor = false;
    ReadYarn(rope, &result);
  } else if (type == "longrope") {
    result.kind = RopeScaling::Kind::kLongrope;
    result.factor = ratio;
    needs_factor = false;
    ReadLongrope(rope, model->head_dim, &result);
  } else if (type == "llama3") {
    result.kind = RopeScaling::Kind::kLlama3;
    result.low_freq_factor = rope.Number("low_freq_factor", 1.0);
    result.high_freq_factor = rope.Number("high_freq_factor", 4.0);
    if (!(result.high_freq_factor > result.low_freq_factor)) {
      throw UsageError(
          "{}: 'high_freq_factor' is {}, expected more than 'low_freq_factor', "
          "which is {}",
          rope.name(), result.high_freq_factor, result.low_freq_factor);
    }
  } else {
    throw UsageError(
        "{}: rope type '{}' is not supported; supported are: default, linear, "
        "llama3, dynamic, yarn, longrope",
        rope.name(), type);
  }
  if (needs_factor && rope.Find("factor") == nullptr) {
    throw UsageError("{}: 'factor' is missing", rope.name());
  }
  result.factor = rope.Number("factor", result.factor);
  // yarn and longrope have it depend on the factor, unless it is given.
  result.attention_factor =
      rope.Number("attention_factor", DefaultAttentionFactor(rope, result));
  for (const float frequency :
       model->Rotary(model->max_position_embeddings).inverse_frequencies) {
    if (!(frequency > 0) || !std::isfinite(frequency)) {
      throw UsageError(
          "{}: gives a rotary frequency of {}, expected positive "
          "numbers",
          rope.name(), frequency);
    }
  }
}

// The tokens that end a text: one id, or a list. Generate reads them, from the
// compiled directory; here they are only checked.
void CheckEos(const Reader& config) {
  const Json* eos = config.Find("eos_token_id");
  if (eos == nullptr) return;
  const auto is_id = [](const Json& id) { return id.is_number_integer(); };
  if (eos->is_array() ? std::all_of(eos->begin(), eos->end(), is_id)
                      : is_id(*eos)) {
    return;
  }
  throw UsageError(
      "{}: 'eos_token_id' is {}, expected a token id or a list of "
      "them",
      config.name(), Reader::Short(*eos));
}

// Which layers attend to a window only.
void ReadWindows(const Reader& config, ModelDescription* model) {
  model->sliding_window.assign(model->num_layers, 0);
  config.Integer("sliding_window", 0, 0);  // checked where it is not used, too
  const bool mistral = model->architecture == "MistralForCausalLM";
  const bool qwen = model->architecture.starts_with("Qwen");
  if (!mistral && !(qwen && config.Flag("use_sliding_window", false))) return;
  // An explicit null means none; an absent key means the default.
  if (config.IsNull("sliding_window")) return;
  const int window = config.Integer("sliding_window", 4096);
  const int first = mistral ? 0 : config.Integer("max_window_layers", 28, 0);
  const Json* types = config.Find("layer_types");
  if (types != nullptr &&
      (!types->is_array() || types->size() != model->sliding_window.size())) {
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

std::span<const char* const> SupportedArchitectures() { return kArchitectures; }

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
    throw UsageError("{}: {} layers of {} with {} heads: larger than any model",
                     name, model.num_layers, model.hidden_size,
                     model.num_heads);
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
  if (model.head_dim < 2 || model.head_dim % 2 != 0 || model.head_dim > 1024) {
    throw UsageError(
        "{}: the head size is {}, expected an even number of at most 1024",
        name, model.head_dim);
  }
  model.max_position_embeddings =
      config.Integer("max_position_embeddings", mistral ? 131072
                                                : llama ? 2048
                                                        : 32768);
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
    throw UsageError(
        "{}: 'partial_rotary_factor' other than 1 is not supported", name);
  }
  ReadRope(config, &model);
  ReadWindows(config, &model);
  CheckEos(config);
  const std::string dtype =
      config.Text("dtype", config.Text("torch_dtype", "bfloat16"));
  model.dtype = dtype == "float32"   ? DType::kFloat32
                : dtype == "float16" ? DType::kFloat16
                                     : DType::kBFloat16;
  return model;
}

int ModelDescription::LongestSequence() const {
  const RopeScaling& scaling = rope_scaling;
  double longest = 0;
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      break;
    case RopeScaling::Kind::kLinear:
    case RopeScaling::Kind::kDynamic:
      longest = scaling.factor * max_position_embeddings;
      break;
    case RopeScaling::Kind::kLlama3:
    case RopeScaling::Kind::kYarn:
    case RopeScaling::Kind::kLongrope:
      longest = scaling.factor * scaling.original_max_position_embeddings;
      break;
  }
  return std::max(max_position_embeddings,
                  static_cast<int>(std::min<double>(longest, kMaxSize)));
}

// transformers.modeling_rope_utils, in its order of float32 operations.
RotaryConstants ModelDescription::Rotary(int max_seq_len) const {
  using Kind = RopeScaling::Kind;
  const RopeScaling& scaling = rope_scaling;
  const auto factor = static_cast<float>(scaling.factor);
  double base = rope_theta;
  if (scaling.kind == Kind::kDynamic) {
    const double length = std::max(max_seq_len, max_position_embeddings);
    base *= std::pow(scaling.factor * length / max_position_embeddings -
                         (scaling.factor - 1),
                     head_dim / (head_dim - 2.0));
  }
  // yarn: the dimensions between which it blends.
  double low = 0, high = 0;
  if (scaling.kind == Kind::kYarn) {
    const auto dimension = [&](double rotations) {
      return head_dim *
             std::log(scaling.original_max_position_embeddings /
                      (rotations * 2 * std::numbers::pi)) /
             (2 * std::log(base));
    };
    low = dimension(scaling.beta_fast);
    high = dimension(scaling.beta_slow);
    if (scaling.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, head_dim - 1.0);
    if (low == high) high += 0.001;
  }

  RotaryConstants result;
  result.attention_factor = static_cast<float>(scaling.attention_factor);
  for (int i = 0; i < head_dim / 2; ++i) {
    const float exponent =
        static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const auto power =
        static_cast<float>(std::pow(base, static_cast<double>(exponent)));
    float frequency = 1.0f / power;
    switch (scaling.kind) {
      case Kind::kNone:
      case Kind::kDynamic:
        break;
      case Kind::kLinear:
        frequency /= factor;
        break;
      case Kind::kLlama3: {
        const auto low_factor = static_cast<float>(scaling.low_freq_factor);
        const auto high_factor = static_cast<float>(scaling.high_freq_factor);
        const auto context =
            static_cast<float>(scaling.original_max_position_embeddings);
        const float wavelength = 2.0f * std::numbers::pi_v<float> / frequency;
        if (wavelength > context / low_factor) {
          frequency /= factor;
        } else if (wavelength >= context / high_factor) {
          const float smooth =
              (context / wavelength - low_factor) / (high_factor - low_factor);
          frequency = (1.0f - smooth) * frequency / factor + smooth * frequency;
        }
        break;
      }
      case Kind::kYarn: {
        const float ramp =
            std::clamp((static_cast<float>(i) - static_cast<float>(low)) /
                           static_cast<float>(high - low),
                       0.0f, 1.0f);
        const float kept = 1.0f - ramp;
        frequency = 1.0f / (factor * power) * (1.0f - kept) + frequency * kept;
        break;
      }
      case Kind::kLongrope: {
        const bool is_long =
            max_seq_len > scaling.original_max_position_embeddings;
        frequency =
            1.0f /
            ((is_long ? scaling.long_factor : scaling.short_factor)[i] * power);
        break;
      }
    }
    result.inverse_frequencies.push_back(frequency);
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
