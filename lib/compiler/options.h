// What to compile: rbln.yaml and flags, resolved by the rules of README.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace rbln {

enum class AttnImpl { kEager, kFlashAttn };
enum class WeightFormat { kFloat32, kBFloat16, kInt8, kInt4 };
enum class ActivationFormat { kFloat32, kBFloat16, kInt8 };
enum class KvFormat { kFloat32, kBFloat16, kInt8 };

// Defaults for generate; unset means that rbln.yaml says nothing.
struct SamplingDefaults {
  // Name as in README.md ("temperature", "max_tokens", ...) to its value as
  // JSON text. Names were checked; values are for generate's rules, which the
  // running half has.
  std::map<std::string, std::string> values;
};

// One config value with where it came from ("rbln.yaml:4", "--batch-size").
struct ConfigValue {
  std::string text;  // YAML text of the value
  std::string origin;
};

// Raw settings before they meet the model: file first, flags over it.
class CompileConfig {
 public:
  // Parses a config file. Unknown keys are errors naming the nearest known one.
  static CompileConfig FromFile(const std::string& path);
  // Sets a key from a flag; `value` is the flag's text, read as YAML.
  void SetFlag(const std::string& key, const std::string& value);
  // The value of a key, prefix `rbln_` removed ("quantization.weights" for
  // nested ones); null where unset.
  const ConfigValue* Find(const std::string& key) const;
  // Every known key, dotted for nested ones, with one line of help each.
  struct Key {
    const char* name;
    const char* value_name;
    const char* help;
  };
  static const std::vector<Key>& Keys();

 private:
  std::map<std::string, ConfigValue> values_;
};

// Everything decided: what the manifest records.
struct CompileOptions {
  std::string model;   // directory or hub id, as given
  std::string output;  // directory
  int batch_size = 1;
  std::vector<int> decoder_batch_sizes;  // descending, ends where it ends
  int max_seq_len = 0;
  int tensor_parallel_size = 1;
  AttnImpl attn_impl = AttnImpl::kEager;
  int kvcache_partition_len = 0;  // 0 for eager
  int kvcache_block_size = 0;
  int kvcache_num_blocks = 0;  // 0: what fits, decided at run time
  int prefill_chunk_size = 128;
  WeightFormat weights = WeightFormat::kBFloat16;
  ActivationFormat activations = ActivationFormat::kBFloat16;
  KvFormat kv_caches = KvFormat::kBFloat16;
  int group_size = 32;
  std::string target = "native";
  SamplingDefaults sampling;
  bool dummy_weights = false;  // --load-format dummy
  // What was adjusted, for the log: "decoder_batch_sizes: 8 added ...".
  std::vector<std::string> warnings;
};

// Applies the rules. Throws UsageError naming key, value, rule and origin,
// before any other work is done.
CompileOptions ResolveOptions(const CompileConfig& config,
                              const ModelDescription& model);

}  // namespace rbln
