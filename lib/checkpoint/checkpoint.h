// Hugging Face checkpoints: config.json as a model description, and the named
// tensors of model.safetensors (or of its shards), read in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace rbln {

enum class DType { kFloat32, kFloat16, kBFloat16 };
const char* DTypeName(DType dtype);  // "float32", "float16", "bfloat16"

// How rotary frequencies are scaled beyond the trained length, under the names
// of config.json.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3, kDynamic, kYarn, kLongrope };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  int original_max_position_embeddings = 0;  // llama3, yarn, longrope
  double low_freq_factor = 1.0;              // llama3
  double high_freq_factor = 4.0;             // llama3
  double attention_factor = 1.0;             // yarn, longrope
  double beta_fast = 32.0;                   // yarn
  double beta_slow = 1.0;                    // yarn
  bool truncate = true;                      // yarn
  // longrope: divisors of the frequencies, head_dim / 2 of them, for lengths up
  // to the original one and for longer ones.
  std::vector<float> short_factor, long_factor;
};

// What rotary embeddings are computed from.
struct RotaryConstants {
  std::vector<float> inverse_frequencies;  // (head_dim / 2)
  float attention_factor = 1.0f;  // cosines and sines are multiplied by it
};

// What a decoder-only model is, by features rather than by family.
struct ModelDescription {
  std::string architecture;  // "LlamaForCausalLM"
  int vocab_size = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // q_proj, k_proj, v_proj have a bias
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm over each head of q and of k before RoPE
  // For each layer the number of last positions it attends to; 0 for all.
  std::vector<int> sliding_window;
  DType dtype = DType::kBFloat16;  // of the checkpoint's weights

  // What transformers.modeling_rope_utils computes for a sequence of
  // `max_seq_len` tokens. There, dynamic and longrope scaling change with the
  // length a sequence has grown to; here a token's keys never change, so that
  // the length compiled for decides, as in vLLM.
  RotaryConstants Rotary(int max_seq_len) const;
  // The longest sequence that the model, with its RoPE scaling, is made for; at
  // least max_position_embeddings.
  int LongestSequence() const;
  // Number of weights, tied ones counted once.
  int64_t NumParameters() const;
};

// Parses config.json. Throws UsageError naming the key: an architecture, an
// activation or a rope type that is not supported (listing those that are), a
// missing or nonsensical number.
ModelDescription ParseModelConfig(std::string_view config_json,
                                  std::string_view name);
// The architectures ParseModelConfig takes, in the order for messages.
std::span<const char* const> SupportedArchitectures();

// One tensor a model of this description must have.
struct TensorSpec {
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // (out_features, in_features)
};
std::vector<TensorSpec> ExpectedTensors(const ModelDescription& model);

// Where weights come from. Immutable; Read may be called from many threads.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Elements [offset, offset + out.size()) of a tensor, in row-major order, as
  // float32. The tensor is one of ExpectedTensors and the range is inside it.
  virtual void Read(const std::string& name, int64_t offset,
                    std::span<float> out) const = 0;
  // A checksum of everything that Read can return. Reads all of it.
  virtual std::string Fingerprint() const = 0;
  // Bytes of all tensors as stored; for progress and throughput.
  virtual uint64_t total_bytes() const = 0;
};

// A checkpoint on disk: config.json and safetensors. Opening reads headers
// only, and checks them against ExpectedTensors (missing tensor, wrong shape or
// type, offsets out of range or overlapping, shard paths that leave the
// directory), each with the message of what was wanted and found.
class Checkpoint {
 public:
  // `directory` is a path, or a hub id ("meta-llama/Llama-3.2-1B") looked up in
  // the local Hugging Face cache. Throws UsageError; for an id that is not
  // there, with the command that would fetch it. With `dummy`, only config.json
  // need exist, and weights are reproducible random numbers.
  static Checkpoint Open(const std::string& directory, bool dummy);

  const ModelDescription& model() const { return model_; }
  const WeightSource& weights() const { return *weights_; }
  // The directory that was opened (inside the cache, for a hub id).
  const std::string& directory() const { return directory_; }
  // What is odd about it and yet no error, for the log.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Checkpoint() = default;
  ModelDescription model_;
  std::unique_ptr<const WeightSource> weights_;
  std::string directory_;
  std::vector<std::string> warnings_;
};

}  // namespace rbln
