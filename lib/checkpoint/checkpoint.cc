#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "base/cpu.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/threads.h"
#include "checkpoint/safetensors.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
// Bytes that one thread hashes or converts at a time.
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa times 2^-24
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t bits = exponent == 31
                            ? 0x7f800000u | mantissa << 13
                            : (exponent + 112) << 23 | mantissa << 13;
  return std::bit_cast<float>(sign | bits);
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

// Weights in safetensors files.
class FileSource : public WeightSource {
 public:
  FileSource(const std::string& directory, const ModelDescription& model,
             const std::string& config) {
    config_ = config;
    OpenFiles(directory);
    for (const TensorSpec& spec : ExpectedTensors(model)) {
      Place(directory, spec);
    }
  }

  void Read(const std::string& name, int64_t offset,
            std::span<float> out) const override {
    const Tensor& tensor = tensors_.at(name);
    const RandomAccessFile& file = files_[tensor.file];
    if (tensor.dtype == DType::kFloat32) {
      file.Read(tensor.offset + offset * 4, std::as_writable_bytes(out));
      return;
    }
    thread_local std::vector<uint16_t> raw;
    raw.resize(out.size());
    file.Read(tensor.offset + offset * 2,
              std::as_writable_bytes(std::span(raw)));
    if (tensor.dtype == DType::kBFloat16) {
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(raw[i]) << 16);
      }
    } else {
      for (size_t i = 0; i < out.size(); ++i) out[i] = HalfToFloat(raw[i]);
    }
  }

  std::string Fingerprint() const override {
    // Every file in pieces of fixed size, so that the sum does not depend on
    // how many threads share them.
    struct Piece {
      size_t file;
      uint64_t offset;
    };
    std::vector<Piece> pieces;
    for (size_t file = 0; file < files_.size(); ++file) {
      for (uint64_t at = 0; at < files_[file].size(); at += kPieceBytes) {
        pieces.push_back({file, at});
      }
    }
    std::vector<std::string> sums(pieces.size());
    ParallelFor(
        GrantedCpus().threads, static_cast<int64_t>(pieces.size()),
        [&](int64_t i) {
          thread_local std::vector<std::byte> buffer;
          const RandomAccessFile& file = files_[pieces[i].file];
          buffer.resize(std::min(kPieceBytes, file.size() - pieces[i].offset));
          file.Read(pieces[i].offset, buffer);
          sums[i] = HashBytes(buffer);
        });
    Hasher hasher;
    hasher.Update(config_);
    for (const std::string& sum : sums) hasher.Update(sum);
    return hasher.Digest();
  }

  uint64_t total_bytes() const override { return total_bytes_; }

  // Tensors that no part of the model takes, but for those that others save
  // without a use: rotary frequencies, and an output matrix that is tied.
  std::vector<std::string> Surplus() const {
    std::vector<std::string> names;
    for (const auto& [name, found] : found_) {
      if (!tensors_.contains(name) && name != "lm_head.weight" &&
          !name.ends_with("rotary_emb.inv_freq")) {
        names.push_back(name);
      }
    }
    return names;
  }

 private:
  struct Tensor {
    size_t file;
    DType dtype;
    uint64_t offset;
  };
  struct Found {
    size_t file;
    SafetensorsEntry entry;
  };

  void OpenShard(const std::string& path) {
    files_.emplace_back(path, ErrorKind::kUsage);
    const RandomAccessFile& file = files_.back();
    unsigned char raw[kSafetensorsLengthBytes] = {};
    if (file.size() < sizeof raw) {
      throw UsageError("{}: {} bytes, too short for a safetensors file", path,
                       file.size());
    }
    file.Read(0, std::as_writable_bytes(std::span(raw)));
    uint64_t length = 0;
    for (size_t i = 0; i < sizeof raw; ++i) {
      length |= static_cast<uint64_t>(raw[i]) << (8 * i);
    }
    if (length > kSafetensorsMaxHeader || length > file.size() - sizeof raw) {
      throw UsageError(
          "{}: the header claims {} bytes of a file of {}; it is no "
          "safetensors "
          "file, or cut off",
          path, length, file.size());
    }
    std::string json(length, '\0');
    file.Read(sizeof raw, std::as_writable_bytes(std::span(json)));
    for (auto& [name, entry] :
         ParseSafetensorsHeader(json, sizeof raw + length, file.size(), path)) {
      found_[name] = {files_.size() - 1, std::move(entry)};
    }
  }

  void OpenFiles(const std::string& directory) {
    const std::string index = directory + "/" + kIndexFile;
    if (FileExists(directory + "/" + kSingleFile)) {
      OpenShard(directory + "/" + kSingleFile);
      return;
    }
    if (!FileExists(index)) {
      const bool pickled =
          FileExists(directory + "/pytorch_model.bin") ||
          FileExists(directory + "/pytorch_model.bin.index.json");
      throw UsageError("{}: has neither {} nor {}{}", directory, kSingleFile,
                       kIndexFile,
                       pickled ? "; pytorch_model.bin is not read: save the "
                                 "model again with safe_serialization=True"
                               : "");
    }
    const Json json = ReadJsonFile(index, ErrorKind::kUsage);
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object()) {
      throw UsageError("{}: 'weight_map' is missing", index);
    }
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : map->items()) {
      if (!shard.is_string()) {
        throw UsageError("{}: tensor '{}' names no file", index, tensor);
      }
      const std::string file = shard;
      // The index may come from anywhere; it must not lead out of the
      // directory.
      if (file.empty() || file == "." || file == ".." ||
          file.find('/') != std::string::npos ||
          file.find('\0') != std::string::npos) {
        throw UsageError(
            "{}: tensor '{}' is said to lie in '{}', which is not "
            "a file name",
            index, tensor, file);
      }
      shards.insert(file);
      shard_of_[tensor] = file;
    }
    for (const std::string& shard : shards) {
      OpenShard(directory + "/" + shard);
    }
  }

  void Place(const std::string& directory, const TensorSpec& spec) {
    const auto found = found_.find(spec.name);
    if (found == found_.end()) {
      const auto shard = shard_of_.find(spec.name);
      if (shard != shard_of_.end()) {
        throw UsageError("{}: tensor '{}' is not in {}, where {} says it is",
                         directory, spec.name, shard->second, kIndexFile);
      }
      throw UsageError("{}: tensor '{}' {} is missing", directory, spec.name,
                       ShapeText(spec.shape));
    }
    const SafetensorsEntry& entry = found->second.entry;
    if (entry.shape != spec.shape) {
      throw UsageError("{}: tensor '{}' has shape {}, config.json makes it {}",
                       directory, spec.name, ShapeText(entry.shape),
                       ShapeText(spec.shape));
    }
    DType dtype;
    if (entry.dtype == "F32") {
      dtype = DType::kFloat32;
    } else if (entry.dtype == "F16") {
      dtype = DType::kFloat16;
    } else if (entry.dtype == "BF16") {
      dtype = DType::kBFloat16;
    } else {
      throw UsageError(
          "{}: tensor '{}' is of type {}; read are: F32, F16, BF16", directory,
          spec.name, entry.dtype);
    }
    total_bytes_ += entry.bytes;
    tensors_[spec.name] = {found->second.file, dtype, entry.offset};
  }

  std::string config_;
  std::vector<RandomAccessFile> files_;
  std::map<std::string, Found> found_;
  std::map<std::string, std::string> shard_of_;
  std::map<std::string, Tensor> tensors_;
  uint64_t total_bytes_ = 0;
};

// Reproducible random weights: element i of a tensor is a hash of the tensor's
// name and i, so that any part can be read in any order.
class DummySource : public WeightSource {
 public:
  DummySource(const ModelDescription& model, std::string config)
      : config_(std::move(config)) {
    const uint64_t bytes = model.dtype == DType::kFloat32 ? 4 : 2;
    for (const TensorSpec& spec : ExpectedTensors(model)) {
      int64_t elements = 1;
      for (const int64_t dimension : spec.shape) elements *= dimension;
      total_bytes_ += bytes * elements;
      // A uniform distribution of unit variance reaches to sqrt(3).
      const bool matrix = spec.shape.size() > 1;
      const bool norm = spec.name.ends_with("norm.weight");
      const double spread =
          std::sqrt(3.0) *
          (matrix ? 1.0 / std::sqrt(static_cast<double>(spec.shape[1])) : 0.02);
      tensors_[spec.name] = {Hash64(spec.name), static_cast<float>(spread),
                             norm ? 1.0f : 0.0f};
    }
  }

  void Read(const std::string& name, int64_t offset,
            std::span<float> out) const override {
    const Tensor& tensor = tensors_.at(name);
    for (size_t i = 0; i < out.size(); ++i) {
      // splitmix64's finalizer (Steele, Lea, Flood 2014).
      uint64_t z = tensor.seed +
                   (static_cast<uint64_t>(offset) + i) * 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      const float unit =
          static_cast<float>(static_cast<int32_t>(z >> 32)) * 0x1p-31f;
      out[i] = tensor.center + tensor.spread * unit;
    }
  }
  std::string Fingerprint() const override {
    return HashBytes("dummy weights 1\n" + config_);
  }
  uint64_t total_bytes() const override { return total_bytes_; }

 private:
  struct Tensor {
    uint64_t seed;
    float spread;
    float center;
  };
  std::string config_;
  std::map<std::string, Tensor> tensors_;
  uint64_t total_bytes_ = 0;
};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Where the hub's client keeps what it fetched.
std::string HubCache() {
  if (const std::string cache = Environment("HF_HUB_CACHE"); !cache.empty()) {
    return cache;
  }
  if (const std::string home = Environment("HF_HOME"); !home.empty()) {
    return home + "/hub";
  }
  std::string cache = Environment("XDG_CACHE_HOME");
  if (cache.empty()) cache = Environment("HOME") + "/.cache";
  return cache + "/huggingface/hub";
}

// "org/name" or "org/name@revision" in the hub's cache.
std::string FindInHubCache(const std::string& id) {
  const size_t at = id.find('@');
  const std::string name = id.substr(0, at);
  const std::string revision =
      at == std::string::npos ? "main" : id.substr(at + 1);
  const size_t slash = name.find('/');
  const bool is_id = !name.empty() && name.front() != '/' &&
                     name.front() != '.' &&
                     (slash == std::string::npos ||
                      name.find('/', slash + 1) == std::string::npos) &&
                     revision.find("..") == std::string::npos;
  if (!is_id) {
    throw UsageError("model: {}: no such directory", id);
  }
  std::string folder = "models--" + name;
  if (slash != std::string::npos) {
    folder.replace(folder.find('/'), 1, "--");
  }
  const std::string root = HubCache() + "/" + folder;
  std::string commit = revision;
  if (FileExists(root + "/refs/" + revision)) {
    commit = ReadFile(root + "/refs/" + revision, ErrorKind::kUsage, 4096);
    commit.erase(commit.find_last_not_of(" \n\r\t") + 1);
  }
  const std::string snapshot = root + "/snapshots/" + commit;
  if (commit.find('/') != std::string::npos || !fs::is_directory(snapshot)) {
    throw UsageError(
        "model: {}: no such directory, and not in the Hugging Face cache {}; "
        "fetch it with 'hf download {}{}', or name a directory",
        id, HubCache(), name,
        at == std::string::npos ? "" : " --revision " + revision);
  }
  return snapshot;
}

}  // namespace

Checkpoint Checkpoint::Open(const std::string& directory, bool dummy) {
  Checkpoint checkpoint;
  checkpoint.directory_ =
      fs::is_directory(directory) ? directory : FindInHubCache(directory);
  const std::string path = checkpoint.directory_ + "/config.json";
  if (!FileExists(path)) {
    throw UsageError("{}: not a checkpoint: it has no config.json",
                     checkpoint.directory_);
  }
  const std::string config =
      ReadFile(path, ErrorKind::kUsage, size_t{16} << 20);
  checkpoint.model_ = ParseModelConfig(config, path);
  if (dummy) {
    checkpoint.weights_ =
        std::make_unique<DummySource>(checkpoint.model_, config);
  } else {
    auto source = std::make_unique<FileSource>(checkpoint.directory_,
                                               checkpoint.model_, config);
    if (const std::vector<std::string> surplus = source->Surplus();
        !surplus.empty()) {
      checkpoint.warnings_.push_back(fmt::format(
          "{}: {} tensors are not of the model that config.json describes, "
          "such as '{}'; they are left out",
          checkpoint.directory_, surplus.size(), surplus.front()));
    }
    checkpoint.weights_ = std::move(source);
  }
  return checkpoint;
}

}  // namespace rbln
