#include "artifact/manifest.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "artifact/program.h"
#include "artifact/sharding.h"
#include "base/file.h"
#include "base/hash.h"

namespace rbln {
namespace {

// Lists each field once, for writing and for reading.
template <typename M, typename F>
void EachField(M& manifest, F&& field) {
  field("format_version", manifest.format_version);
  field("tool_version", manifest.tool_version);
  field("architecture", manifest.architecture);
  field("vocab_size", manifest.vocab_size);
  field("num_layers", manifest.num_layers);
  field("num_heads", manifest.num_heads);
  field("num_kv_heads", manifest.num_kv_heads);
  field("head_dim", manifest.head_dim);
  field("hidden_size", manifest.hidden_size);
  field("num_parameters", manifest.num_parameters);
  field("sliding_window", manifest.sliding_window);
  field("batch_size", manifest.batch_size);
  field("decoder_batch_sizes", manifest.decoder_batch_sizes);
  field("max_seq_len", manifest.max_seq_len);
  field("tensor_parallel_size", manifest.tensor_parallel_size);
  field("attn_impl", manifest.attn_impl);
  field("kvcache_partition_len", manifest.kvcache_partition_len);
  field("kvcache_block_size", manifest.kvcache_block_size);
  field("kvcache_num_blocks", manifest.kvcache_num_blocks);
  field("prefill_chunk_size", manifest.prefill_chunk_size);
  field("weights", manifest.weights);
  field("activations", manifest.activations);
  field("kv_caches", manifest.kv_caches);
  field("group_size", manifest.group_size);
  field("target", manifest.target);
  field("sampling", manifest.sampling);
  field("source", manifest.source);
  field("source_fingerprint", manifest.source_fingerprint);
}

// The manifest does not say how wide the MLP is.
constexpr int kMaxColumns = 1 << 30;
constexpr char kChecksum[] = "checksum";

// Of all that a manifest says but the checksum itself, however it is spaced.
std::string Checksum(Json content) {
  content.erase(kChecksum);
  return HashBytes(content.dump());
}

// Numbers must be whole and fit, which get_to does not ask for.
template <typename T>
bool Take(const Json& json, T* value) {
  if constexpr (std::is_same_v<T, std::vector<int>>) {
    if (!json.is_array()) return false;
    value->resize(json.size());
    for (size_t i = 0; i < json.size(); ++i) {
      if (!Take(json[i], &(*value)[i])) return false;
    }
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    // None is negative.
    if (!json.is_number_unsigned() ||
        json.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<T>::max())) {
      return false;
    }
    *value = json.get<T>();
    return true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) return false;
    *value = json.get<std::string>();
    return true;
  } else {
    static_assert(std::is_same_v<T, Json>);
    *value = json;
    return json.is_object();
  }
}

int KvElementBytes(const std::string& format) {
  return format == "float32" ? 4 : format == "bfloat16" ? 2 : 1;
}

}  // namespace

uint64_t Manifest::KvBytesPerBlock() const {
  const uint64_t positions = AlignUp(kvcache_block_size, kPanel);
  // V rows are padded to whole vectors; K needs none, but for int8 fours.
  const uint64_t k_columns =
      kv_caches == "int8" ? AlignUp(head_dim, 4) : head_dim;
  const uint64_t v_columns = AlignUp(head_dim, kPanel);
  const uint64_t elements = positions * (k_columns + v_columns);
  // Where ranks are more than heads, several have the same one.
  const uint64_t heads = std::max(num_kv_heads, tensor_parallel_size);
  return num_layers * heads *
         (elements * KvElementBytes(kv_caches) +
          (kv_caches == "int8" ? positions * 2 * sizeof(float) : 0));
}

uint64_t Manifest::KvBytesPerSequence() const {
  const uint64_t blocks =
      (uint64_t(max_seq_len) + kvcache_block_size - 1) / kvcache_block_size;
  return blocks * KvBytesPerBlock();
}

std::string Manifest::ToJson() const {
  OrderedJson json;
  EachField(*this, [&json](const char* name, const auto& value) {
    json[name] = value;
  });
  for (const auto& [name, file] : files) {
    json["files"][name] = {{"size", file.size}, {"checksum", file.checksum}};
  }
  json[kChecksum] = Checksum(Json::parse(json.dump()));
  return json.dump(2) + "\n";
}

Manifest Manifest::FromJson(const Json& json, const std::string& name) {
  Manifest result;
  const std::string again =
      "; the directory is damaged or of another tool: compile it again";
  const auto read = [&](const char* key, auto& value) {
    const auto found = json.find(key);
    if (found == json.end()) {
      throw ModelError("{}: '{}' is missing{}", name, key, again);
    }
    if (!Take(*found, &value)) {
      throw ModelError("{}: '{}' is {}, which is of the wrong type{}", name,
                       key, found->dump().substr(0, 40), again);
    }
  };
  if (!json.is_object()) {
    throw ModelError("{}: not an object{}", name, again);
  }
  read("format_version", result.format_version);
  if (result.format_version != kFormatVersion) {
    throw ModelError(
        "{}: format version {}, this tool reads {}: compile it again with this "
        "version",
        name, result.format_version, kFormatVersion);
  }
  std::string checksum;
  read(kChecksum, checksum);
  if (const std::string found = Checksum(json); found != checksum) {
    throw ModelError(
        "{}: the content is not what compile wrote (checksum {}, it says {}){}",
        name, found, checksum, again);
  }
  EachField(result, read);
  const auto files = json.find("files");
  if (files == json.end() || !files->is_object()) {
    throw ModelError("{}: 'files' is missing{}", name, again);
  }
  for (const auto& [file, entry] : files->items()) {
    // Names come from a file that a stranger may have written.
    if (file.empty() || file.find('/') != std::string::npos || file == "..") {
      throw ModelError("{}: file name '{}' leaves the directory{}", name, file,
                       again);
    }
    ManifestFile& taken = result.files[file];
    if (!entry.is_object() || !entry.contains("size") ||
        !entry.contains("checksum") || !Take(entry["size"], &taken.size) ||
        !Take(entry["checksum"], &taken.checksum)) {
      throw ModelError("{}: entry of file '{}' is malformed{}", name, file,
                       again);
    }
  }

  // What the running half counts on.
  const auto positive = [&](const char* key, int value) {
    if (value >= 1) return;
    throw ModelError("{}: '{}' is {}, expected at least 1{}", name, key, value,
                     again);
  };
  positive("vocab_size", result.vocab_size);
  positive("num_layers", result.num_layers);
  positive("num_heads", result.num_heads);
  positive("num_kv_heads", result.num_kv_heads);
  positive("head_dim", result.head_dim);
  positive("batch_size", result.batch_size);
  positive("max_seq_len", result.max_seq_len);
  positive("tensor_parallel_size", result.tensor_parallel_size);
  positive("kvcache_block_size", result.kvcache_block_size);
  positive("prefill_chunk_size", result.prefill_chunk_size);
  // Bytes of the KV cache are a product of these.
  if (const std::string why =
          WhyNotSharded(result.num_heads, result.num_kv_heads, kMaxColumns,
                        result.vocab_size, result.tensor_parallel_size);
      !why.empty()) {
    throw ModelError("{}: tensor_parallel_size: {}: {}{}", name,
                     result.tensor_parallel_size, why, again);
  }
  if (16.0 * result.num_layers *
          std::max(result.num_kv_heads, result.tensor_parallel_size) *
          result.head_dim *
          (1.0 * result.max_seq_len + result.kvcache_block_size) >
      0x1p50) {
    throw ModelError("{}: the KV cache of one sequence is out of range{}", name,
                     again);
  }
  const std::vector<int>& sizes = result.decoder_batch_sizes;
  if (sizes.empty() || sizes.front() != result.batch_size || sizes.back() < 1 ||
      !std::is_sorted(sizes.rbegin(), sizes.rend())) {
    throw ModelError("{}: 'decoder_batch_sizes' is {}{}", name,
                     Json(sizes).dump(), again);
  }
  if (static_cast<int>(result.sliding_window.size()) != result.num_layers) {
    throw ModelError("{}: 'sliding_window' has {} entries for {} layers{}",
                     name, result.sliding_window.size(), result.num_layers,
                     again);
  }
  return result;
}

Manifest Manifest::Read(const std::string& directory) {
  const std::string path = directory + "/" + kManifestName;
  if (!FileExists(path)) {
    throw ModelError(
        "{}: not a compiled directory: it has no {}; make one with "
        "'rbln-tool compile'",
        directory, kManifestName);
  }
  return FromJson(ReadJsonFile(path, ErrorKind::kModel), path);
}

}  // namespace rbln
