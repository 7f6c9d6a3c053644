// rbln_config.json: what a compiled directory is. Written last; a directory
// without it is not a compiled one. `checksum`, its last key, is over all the
// others: what is read is what compile wrote.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace rbln {

// Raised when a reader of the earlier number could not use the new files.
inline constexpr int kFormatVersion = 1;
inline constexpr char kManifestName[] = "rbln_config.json";

struct ManifestFile {
  uint64_t size = 0;
  std::string checksum;  // base/hash.h
};

// Flat; names and units are those of the config file (README.md).
struct Manifest {
  int format_version = kFormatVersion;
  std::string tool_version;
  // The model.
  std::string architecture;
  int vocab_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int hidden_size = 0;
  int64_t num_parameters = 0;
  // For each layer the last positions it attends to; 0 for all.
  std::vector<int> sliding_window;
  // The parameters, resolved.
  int batch_size = 1;
  std::vector<int> decoder_batch_sizes;  // descending
  int max_seq_len = 0;
  int tensor_parallel_size = 1;
  std::string attn_impl;  // "eager", "flash_attn"
  int kvcache_partition_len = 0;
  int kvcache_block_size = 0;
  int kvcache_num_blocks = 0;  // 0: what fits
  int prefill_chunk_size = 128;
  std::string weights;      // "float32", "bfloat16", "int8", "int4"
  std::string activations;  // "float32", "bfloat16", "int8"
  std::string kv_caches;    // "float32", "bfloat16", "int8"
  int group_size = 0;       // 0 where weights are not quantized
  std::string target;       // the ISA: "scalar", "avx2", "avxvnni", ...
  // Defaults for generate, name to value.
  Json sampling = Json::object();
  // The source.
  std::string source;              // as given to compile
  std::string source_fingerprint;  // of its config and weights
  // Every other file of the directory, by name.
  std::map<std::string, ManifestFile> files;

  // Bytes of the KV cache for one block, over all layers and ranks.
  uint64_t KvBytesPerBlock() const;
  // Bytes of the KV cache for one full sequence.
  uint64_t KvBytesPerSequence() const;

  std::string ToJson() const;
  // Throws Error(kModel) naming the item that is missing or wrong, or, for
  // another format version, saying which tool to use.
  static Manifest FromJson(const Json& json, const std::string& name);
  static Manifest Read(const std::string& directory);
};

}  // namespace rbln
