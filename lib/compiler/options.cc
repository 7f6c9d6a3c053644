#include "compiler/options.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <sstream>

#include "artifact/program.h"
#include "artifact/sharding.h"
#include "base/file.h"
#include "base/json.h"
#include "base/nearest.h"

namespace rbln {
namespace {

// Beyond this eager attention is no longer a sensible form.
constexpr int kEagerLimit = 32768;
constexpr int kDefaultPartition = 16384;
// A default is not smaller than this: partitions are attended to one by one.
constexpr int kLeastDefaultPartition = 1024;
// Far more than a CPU gains from; tiles are measured for each size.
constexpr int kMaxBatchSize = 1024;
constexpr int kPrefillUnit = 64;
constexpr int kMaxPrefillChunk = 4096;
constexpr int kBlockUnit = 16;

// Sampling defaults that a config may set, under the names of README.md.
constexpr const char* kSamplingKeys[] = {"n",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "seed",
                                         "max_tokens",
                                         "min_tokens",
                                         "stop",
                                         "stop_token_ids",
                                         "ignore_eos",
                                         "include_stop_str_in_output",
                                         "skip_special_tokens",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "repetition_penalty",
                                         "logit_bias",
                                         "logprobs",
                                         "prompt_logprobs",
                                         "bad_words",
                                         "truncate_prompt_tokens",
                                         "echo"};

std::vector<std::string> KnownKeys() {
  std::vector<std::string> keys;
  for (const CompileConfig::Key& key : CompileConfig::Keys()) {
    keys.push_back(key.name);
  }
  for (const char* key : kSamplingKeys) {
    keys.push_back(std::string("sampling.") + key);
  }
  return keys;
}

// The key without the prefix `rbln_`; throws for one that is not known.
std::string CheckedKey(std::string key, const std::string& origin) {
  const std::string given = key;
  if (key.starts_with("rbln_")) key.erase(0, 5);
  const std::vector<std::string> known = KnownKeys();
  if (std::find(known.begin(), known.end(), key) != known.end()) return key;
  const auto nearest = std::min_element(
      known.begin(), known.end(), [&](const auto& a, const auto& b) {
        return EditDistance(a, key) < EditDistance(b, key);
      });
  throw UsageError("{}: unknown key '{}'; the nearest known one is '{}'",
                   origin, given, *nearest);
}

// A YAML scalar as JSON: numbers and truth values plain, all else a string.
Json ScalarToJson(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // it was quoted
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  int64_t whole = 0;
  const char* end = text.data() + text.size();
  if (auto [at, error] = std::from_chars(text.data(), end, whole);
      error == std::errc() && at == end) {
    return whole;
  }
  // JSON has no infinity and no NaN; a word like that is a string.
  double number = 0;
  if (auto [at, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && at == end && std::isfinite(number)) {
    return number;
  }
  return text;
}

// A scalar, or a list or map of scalars. No key takes anything deeper, and an
// alias may make a node hold itself.
Json ToJson(const YAML::Node& node, const std::string& origin) {
  const auto scalar = [&](const YAML::Node& item) -> Json {
    if (item.IsNull()) return nullptr;
    if (item.IsScalar()) return ScalarToJson(item);
    throw UsageError(
        "{}: expected a value, or one list or map of values, "
        "found another level below it",
        origin);
  };
  if (node.IsSequence()) {
    Json array = Json::array();
    for (const YAML::Node& item : node) array.push_back(scalar(item));
    return array;
  }
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& item : node) {
      object[item.first.Scalar()] = scalar(item.second);
    }
    return object;
  }
  return scalar(node);
}

std::string JsonText(const std::string& key, const YAML::Node& node,
                     const std::string& origin) {
  try {
    return ToJson(node, origin).dump();
  } catch (const Json::exception&) {
    throw UsageError("{}: {}: the value is not UTF-8", origin, key);
  }
}

// The text under which a value is kept: JSON for sampling and for the one list,
// other scalars as they are.
std::string ValueText(const std::string& key, const YAML::Node& node,
                      const std::string& origin) {
  const bool sampling = key.starts_with("sampling.");
  if (node.IsScalar() && !sampling) return node.Scalar();
  const std::string text = JsonText(key, node, origin);
  if (!sampling && !(node.IsSequence() && key == "decoder_batch_sizes")) {
    throw UsageError("{}: {}: expected one value, found {}", origin, key, text);
  }
  return text;
}

// Where documents begin; all else is passed over.
class DocumentStarts : public YAML::EventHandler {
 public:
  int line() const { return line_; }  // of the latest, from 1

  void OnDocumentStart(const YAML::Mark& mark) override {
    line_ = mark.line + 1;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  int line_ = 0;
};

// The line on which a second YAML document begins, or what follows the end of
// the first, which YAML::Load would pass over; 0 where there is none.
int SecondDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  parser.HandleNextDocument(starts);
  return parser.HandleNextDocument(starts) ? starts.line() : 0;
}

// Reads keys of a config by the types that the rules give them.
class Reader {
 public:
  explicit Reader(const CompileConfig& config) : config_(config) {}

  // Where a key was set; empty where it was not.
  std::string Origin(const std::string& key) const {
    const ConfigValue* value = config_.Find(key);
    return value != nullptr ? value->origin : "";
  }
  // For a key that was not set, the rule speaks of what stands in its place.
  [[noreturn]] void Fail(const std::string& key,
                         const std::string& rule) const {
    const ConfigValue* value = config_.Find(key);
    if (value == nullptr) throw UsageError("{}: {}", key, rule);
    throw UsageError("{}: {}: {}: {}", value->origin, key, value->text, rule);
  }
  std::optional<std::string> Text(const std::string& key) const {
    const ConfigValue* value = config_.Find(key);
    if (value == nullptr) return std::nullopt;
    return value->text;
  }
  std::optional<int> Integer(const std::string& key, int least) const {
    const std::optional<std::string> text = Text(key);
    if (!text) return std::nullopt;
    const std::optional<int> value = ParseInteger(*text);
    if (!value || *value < least) {
      Fail(key, fmt::format("expected a whole number of at least {}", least));
    }
    return value;
  }
  static std::optional<int> ParseInteger(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    int value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || at != end) return std::nullopt;
    return value;
  }
  // "[8, 4, 1]", "8,4,1" or "8".
  std::optional<std::vector<int>> Integers(const std::string& key) const {
    std::optional<std::string> text = Text(key);
    if (!text) return std::nullopt;
    std::string_view list = *text;
    if (list.starts_with('[') && list.ends_with(']')) {
      list = list.substr(1, list.size() - 2);
    }
    std::vector<int> values;
    while (!list.empty()) {
      const size_t comma = list.find(',');
      const std::optional<int> value = ParseInteger(list.substr(0, comma));
      if (!value) Fail(key, "expected whole numbers, as in 8,4,1");
      values.push_back(*value);
      if (comma == std::string_view::npos) break;
      list.remove_prefix(comma + 1);
    }
    return values;
  }
  // The value that goes with the text, out of those in `choices`.
  template <typename T>
  std::optional<T> Choice(
      const std::string& key,
      std::initializer_list<std::pair<const char*, T>> choices) const {
    const std::optional<std::string> text = Text(key);
    if (!text) return std::nullopt;
    std::string names;
    for (const auto& [name, value] : choices) {
      if (*text == name) return value;
      names += names.empty() ? name : std::string(", ") + name;
    }
    Fail(key, "expected one of: " + names);
  }

 private:
  const CompileConfig& config_;
};

void ResolveBatchSizes(const Reader& read, CompileOptions* options) {
  options->batch_size = read.Integer("batch_size", 1).value_or(1);
  if (options->batch_size > kMaxBatchSize) {
    read.Fail("batch_size", fmt::format("expected at most {}", kMaxBatchSize));
  }
  std::vector<int> sizes = read.Integers("decoder_batch_sizes")
                               .value_or(std::vector<int>{options->batch_size});
  if (sizes.empty()) {
    read.Fail("decoder_batch_sizes", "expected at least one size");
  }
  for (const int size : sizes) {
    if (size < 1 || size > options->batch_size) {
      read.Fail("decoder_batch_sizes",
                fmt::format("{} is not between 1 and batch_size, which is {}",
                            size, options->batch_size));
    }
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const size_t given = sizes.size();
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() != given) {
    options->warnings.push_back(
        read.Origin("decoder_batch_sizes") +
        ": decoder_batch_sizes: sizes given twice are compiled once");
  }
  if (sizes.front() != options->batch_size) {
    sizes.insert(sizes.begin(), options->batch_size);
    options->warnings.push_back(
        fmt::format("{}: decoder_batch_sizes: {} added, since batch_size is {}",
                    read.Origin("decoder_batch_sizes"), options->batch_size,
                    options->batch_size));
  }
  options->decoder_batch_sizes = std::move(sizes);
}

void ResolveAttention(const Reader& read, const ModelDescription& model,
                      CompileOptions* options) {
  const std::optional<int> asked = read.Integer("max_seq_len", 1);
  options->max_seq_len = asked.value_or(model.max_position_embeddings);
  if (const int longest = model.LongestSequence();
      options->max_seq_len > longest) {
    read.Fail("max_seq_len",
              fmt::format(
                  "the model's own limit (max_position_embeddings) is "
                  "{}{}",
                  model.max_position_embeddings,
                  longest > model.max_position_embeddings
                      ? fmt::format(", and its RoPE scaling covers {}", longest)
                      : ""));
  }
  const std::optional<int> partition = read.Integer("kvcache_partition_len", 1);
  std::optional<AttnImpl> impl = read.Choice<AttnImpl>(
      "attn_impl",
      {{"eager", AttnImpl::kEager}, {"flash_attn", AttnImpl::kFlashAttn}});
  if (partition && impl == AttnImpl::kEager) {
    options->warnings.push_back(
        read.Origin("attn_impl") +
        ": attn_impl: flash_attn is used, since kvcache_partition_len is set");
    impl = AttnImpl::kFlashAttn;
  }
  int& length = options->max_seq_len;
  options->attn_impl =
      impl.value_or(partition || length > kEagerLimit ? AttnImpl::kFlashAttn
                                                      : AttnImpl::kEager);
  const std::optional<int> block = read.Integer("kvcache_block_size", 1);
  if (options->attn_impl == AttnImpl::kEager) {
    if (length > kEagerLimit) {
      read.Fail(
          "attn_impl",
          fmt::format("eager attention goes up to {}, and max_seq_len is "
                      "{}{}; leave attn_impl out, or set it to flash_attn",
                      kEagerLimit, length,
                      asked ? "" : ", the model's own limit"));
    }
    if (block && *block != length) {
      read.Fail("kvcache_block_size",
                fmt::format("with eager attention it equals max_seq_len, which "
                            "is {}; smaller blocks need attn_impl: flash_attn",
                            length));
    }
    options->kvcache_block_size = length;
  } else {
    if (partition && *partition % kBlockUnit != 0) {
      read.Fail("kvcache_partition_len",
                fmt::format("expected a multiple of {}", kBlockUnit));
    }
    int size = partition.value_or(kDefaultPartition);
    if (!partition && (!asked || length < size)) {
      const int least = !asked && length > kLeastDefaultPartition
                            ? kLeastDefaultPartition
                            : kBlockUnit;
      while (size > least && length % size != 0) size /= 2;
    }
    if (!partition && !asked && length > size && length % size != 0) {
      options->warnings.push_back(fmt::format(
          "max_seq_len: {} of the model's own {}: the most that is a multiple "
          "of a partition of {}",
          length / size * size, length, size));
      length = length / size * size;
    }
    if (length % size != 0) {
      const int below = length / size * size;
      const std::string key =
          partition ? "kvcache_partition_len" : "max_seq_len";
      read.Fail(key, fmt::format(
                         "max_seq_len is {}{}, which is not a multiple of the "
                         "partition length {}; the nearest that are: {}{}",
                         length, asked ? "" : ", the model's own limit", size,
                         below > 0 ? fmt::format("{} and ", below) : "",
                         below + size));
    }
    options->kvcache_partition_len = size;
    options->kvcache_block_size = block.value_or(size);
    if (size % options->kvcache_block_size != 0 ||
        (options->kvcache_block_size != size &&
         options->kvcache_block_size % kBlockUnit != 0)) {
      read.Fail("kvcache_block_size",
                fmt::format("it must divide the partition length {} and be a "
                            "multiple of {}",
                            size, kBlockUnit));
    }
  }
  const int sequence_blocks =
      (length + options->kvcache_block_size - 1) / options->kvcache_block_size;
  options->kvcache_num_blocks =
      read.Integer("kvcache_num_blocks", 1).value_or(0);
  if (options->kvcache_num_blocks > 0 &&
      options->kvcache_num_blocks < sequence_blocks) {
    read.Fail(
        "kvcache_num_blocks",
        fmt::format("one full sequence takes {} blocks", sequence_blocks));
  }
  if (options->kvcache_num_blocks > 0 &&
      options->kvcache_num_blocks <
          int64_t{sequence_blocks} * options->batch_size) {
    options->warnings.push_back(fmt::format(
        "{}: kvcache_num_blocks: {} blocks are fewer than the {} that {} full "
        "sequences take; long ones will wait for each other",
        read.Origin("kvcache_num_blocks"), options->kvcache_num_blocks,
        int64_t{sequence_blocks} * options->batch_size, options->batch_size));
  }
}

void ResolveFormats(const Reader& read, const ModelDescription& model,
                    CompileOptions* options) {
  const WeightFormat dtype =
      read.Choice<WeightFormat>("dtype",
                                {{"float32", WeightFormat::kFloat32},
                                 {"bfloat16", WeightFormat::kBFloat16}})
          .value_or(model.dtype == DType::kFloat32 ? WeightFormat::kFloat32
                                                   : WeightFormat::kBFloat16);
  const bool wide = dtype == WeightFormat::kFloat32;
  options->weights = read.Choice<WeightFormat>("quantization.weights",
                                               {{"int8", WeightFormat::kInt8},
                                                {"int4", WeightFormat::kInt4}})
                         .value_or(dtype);
  const bool quantized = options->weights != dtype;
  options->activations =
      read.Choice<ActivationFormat>("quantization.activations",
                                    {{"float32", ActivationFormat::kFloat32},
                                     {"bfloat16", ActivationFormat::kBFloat16},
                                     {"int8", ActivationFormat::kInt8}})
          .value_or(quantized ? ActivationFormat::kInt8
                    : wide    ? ActivationFormat::kFloat32
                              : ActivationFormat::kBFloat16);
  options->kv_caches =
      read.Choice<KvFormat>("quantization.kv_caches",
                            {{"float32", KvFormat::kFloat32},
                             {"bfloat16", KvFormat::kBFloat16},
                             {"int8", KvFormat::kInt8}})
          .value_or(wide ? KvFormat::kFloat32 : KvFormat::kBFloat16);
  const ActivationFormat taken = quantized ? ActivationFormat::kInt8
                                 : wide    ? ActivationFormat::kFloat32
                                           : ActivationFormat::kBFloat16;
  if (options->activations != taken) {
    read.Fail("quantization.activations",
              fmt::format("expected {}, which is what weights in {} are "
                          "multiplied by",
                          quantized ? "int8"
                          : wide    ? "float32"
                                    : "bfloat16",
                          quantized ? "int8 and int4"
                          : wide    ? "float32"
                                    : "bfloat16"));
  }
  options->group_size =
      read.Integer("quantization.group_size", 1).value_or(kGroupSize);
  if (options->group_size != kGroupSize) {
    read.Fail("quantization.group_size", "expected 32");
  }
}

}  // namespace

const std::vector<CompileConfig::Key>& CompileConfig::Keys() {
  static const std::vector<Key> keys = {
      {"model", "DIR|ID",
       "Checkpoint directory, or a hub id in the local Hugging Face cache"},
      {"output", "DIR", "Directory to write; default the model's name + .rbln"},
      {"batch_size", "N", "The most sequences decoded together; default 1"},
      {"decoder_batch_sizes", "N,N,...",
       "One decoder is compiled for each; default batch_size alone"},
      {"max_seq_len", "N", "Longest sequence; default the model's limit"},
      {"tensor_parallel_size", "N", "Ranks to shard over; default 1"},
      {"attn_impl", "NAME",
       "eager, up to 32768, or flash_attn; default what max_seq_len needs"},
      {"kvcache_partition_len", "N",
       "Positions of one attention partition; selects flash_attn"},
      {"kvcache_block_size", "N",
       "Positions of one KV cache block; default the partition length"},
      {"kvcache_num_blocks", "N", "KV cache blocks; default what fits"},
      {"prefill_chunk_size", "N",
       "Most prompt tokens of one step, a multiple of 64; default 128"},
      {"dtype", "NAME",
       "float32 or bfloat16: of activations and unquantized weights; default "
       "as the checkpoint"},
      {"quantization.weights", "NAME", "int8 or int4"},
      {"quantization.activations", "NAME", "float32, bfloat16 or int8"},
      {"quantization.kv_caches", "NAME", "float32, bfloat16 or int8"},
      {"quantization.group_size", "N", "Inputs that share a scale; default 32"},
      {"target", "ISA",
       "native (default: this machine's best, its tiles measured), scalar, "
       "avx2, avxvnni or avx512 (tiles by the record, the same bytes "
       "everywhere)"},
      {"load_format", "NAME",
       "auto, or dummy: reproducible random weights from config.json alone"},
  };
  return keys;
}

CompileConfig CompileConfig::FromFile(const std::string& path) {
  std::string text = ReadFile(path, ErrorKind::kUsage, 1 << 20);
  // The parser takes a line's end at the end of the file for the end of a
  // quoted value, too.
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  CompileConfig config;
  try {
    if (const int line = SecondDocument(text); line > 0) {
      throw UsageError(
          "{}:{}: expected one document, found more behind its end", path,
          line);
    }
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return config;
    if (!root.IsMap()) {
      throw UsageError("{}: expected 'key: value' lines", path);
    }
    const auto put = [&](const std::string& given, const YAML::Node& node,
                         int line) {
      const std::string origin = fmt::format("{}:{}", path, line);
      const std::string key = CheckedKey(given, origin);
      if (node.IsNull()) return;  // as if it were not there
      if (config.values_.contains(key)) {
        throw UsageError("{}: '{}' is set twice, first at {}", origin, key,
                         config.values_[key].origin);
      }
      config.values_[key] = {ValueText(key, node, origin), origin};
    };
    for (const auto& item : root) {
      std::string key = item.first.Scalar();
      const int line = item.first.Mark().line + 1;
      const std::string bare = key.starts_with("rbln_") ? key.substr(5) : key;
      if (bare != "quantization" && bare != "sampling") {
        put(key, item.second, line);
        continue;
      }
      if (item.second.IsNull()) continue;
      if (!item.second.IsMap()) {
        const std::string origin = fmt::format("{}:{}", path, line);
        throw UsageError("{}: {}: expected keys below it, found {}", origin,
                         key, JsonText(key, item.second, origin));
      }
      for (const auto& nested : item.second) {
        put(bare + "." + nested.first.Scalar(), nested.second,
            nested.first.Mark().line + 1);
      }
    }
  } catch (const YAML::Exception& error) {
    throw UsageError("{}:{}:{}: not YAML: {}", path, error.mark.line + 1,
                     error.mark.column + 1, error.msg);
  }
  return config;
}

void CompileConfig::SetFlag(const std::string& key, const std::string& value) {
  std::string origin = "--" + key;
  std::replace(origin.begin(), origin.end(), '_', '-');
  const std::string known = CheckedKey(key, origin);
  if (!known.starts_with("sampling.")) {
    values_[known] = {value, origin};
    return;
  }
  try {
    values_[known] = {ValueText(known, YAML::Load(value), origin), origin};
  } catch (const YAML::Exception& error) {
    throw UsageError("{}: {}: {}: not YAML: {}", origin, known, value,
                     error.msg);
  }
}

const ConfigValue* CompileConfig::Find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

CompileOptions ResolveOptions(const CompileConfig& config,
                              const ModelDescription& model) {
  const Reader read(config);
  CompileOptions options;
  const std::optional<std::string> source = read.Text("model");
  if (!source || source->empty()) {
    read.Fail("model", "name a checkpoint directory or a hub id");
  }
  options.model = *source;
  if (const std::optional<std::string> output = read.Text("output")) {
    if (output->empty()) read.Fail("output", "name a directory");
    if (output->starts_with('~')) {
      read.Fail("output", "'~' is not expanded here; write the whole path");
    }
    options.output = *output;
  } else {
    // Made absolute, since "." and ".." say no name.
    std::filesystem::path name =
        std::filesystem::absolute(options.model).lexically_normal();
    if (!name.has_filename()) name = name.parent_path();
    options.output = name.filename().string() + ".rbln";
  }
  while (options.output.size() > 1 &&
         (options.output.back() == '/' || options.output.ends_with("/."))) {
    options.output.pop_back();
  }
  ResolveBatchSizes(read, &options);
  ResolveAttention(read, model, &options);
  ResolveFormats(read, model, &options);

  options.prefill_chunk_size =
      read.Integer("prefill_chunk_size", 1).value_or(128);
  if (options.prefill_chunk_size % kPrefillUnit != 0 ||
      options.prefill_chunk_size > kMaxPrefillChunk) {
    read.Fail("prefill_chunk_size",
              fmt::format("expected a multiple of {}, at most {}", kPrefillUnit,
                          kMaxPrefillChunk));
  }
  const int ranks = read.Integer("tensor_parallel_size", 1).value_or(1);
  const std::string why =
      WhyNotSharded(model.num_heads, model.num_kv_heads,
                    model.intermediate_size, model.vocab_size, ranks);
  if (!why.empty()) read.Fail("tensor_parallel_size", why);
  options.tensor_parallel_size = ranks;
  options.target = read.Choice<const char*>("target", {{"native", "native"},
                                                       {"scalar", "scalar"},
                                                       {"avx2", "avx2"},
                                                       {"avxvnni", "avxvnni"},
                                                       {"avx512", "avx512"}})
                       .value_or("native");
  options.dummy_weights =
      read.Choice<bool>("load_format", {{"auto", false}, {"dummy", true}})
          .value_or(false);
  for (const char* key : kSamplingKeys) {
    if (const auto text = read.Text(std::string("sampling.") + key)) {
      options.sampling.values[key] = *text;
    }
  }
  return options;
}

}  // namespace rbln
