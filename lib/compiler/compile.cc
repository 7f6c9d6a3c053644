#include "compiler/compile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "artifact/manifest.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/units.h"
#include "compiler/lower.h"
#include "kernels/kernels.h"
#include "passes/passes.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

// Copied as they were, where the checkpoint has them.
constexpr const char* kCopiedFiles[] = {
    "config.json",           "generation_config.json",  "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
};

// Whether a compile writes files of this name.
bool IsOurName(const std::string& name) {
  if (name == kManifestName) return true;
  for (const char* copied : kCopiedFiles) {
    if (name == copied) return true;
  }
  return ((name.starts_with("prefill.") ||
           name.starts_with("decoder_batch_")) &&
          name.ends_with(".rbln")) ||
         (name.starts_with("weights.") && name.ends_with(".safetensors"));
}

// The directory is replaced or wiped as a whole: throws where it holds
// something that no compile has put there. `listed` are files of a manifest.
void CheckHoldsOnlyOurs(const std::string& directory,
                        const std::map<std::string, ManifestFile>& listed) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if ((IsOurName(name) || listed.contains(name)) && !entry.is_directory()) {
      continue;
    }
    throw UsageError(
        "output: {} holds '{}', which is not of a compile and would "
        "be lost; move it away, or choose another output",
        directory, name);
  }
}

Format ToFormat(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFloat32:
      return Format::Float32;
    case WeightFormat::kBFloat16:
      return Format::BFloat16;
    case WeightFormat::kInt8:
      return Format::Int8;
    case WeightFormat::kInt4:
      return Format::Int4;
  }
  return Format::Float32;
}
Format ToFormat(ActivationFormat format) {
  return format == ActivationFormat::kFloat32    ? Format::Float32
         : format == ActivationFormat::kBFloat16 ? Format::BFloat16
                                                 : Format::Int8;
}
Format ToFormat(KvFormat format) {
  return format == KvFormat::kFloat32    ? Format::Float32
         : format == KvFormat::kBFloat16 ? Format::BFloat16
                                         : Format::Int8;
}

// The instruction set to compile for.
std::string ResolveTarget(const std::string& target) {
  if (target == "native") return NativeKernels().isa;
  if (FindKernels(target) == nullptr) {
    throw UsageError("target: {} is not an instruction set of this build",
                     target);
  }
  return target;
}

Manifest DescribeModel(const ModelDescription& model,
                       const CompileOptions& options,
                       const std::string& target) {
  Manifest manifest;
  manifest.tool_version = RBLN_VERSION;
  manifest.architecture = model.architecture;
  manifest.vocab_size = model.vocab_size;
  manifest.num_layers = model.num_layers;
  manifest.num_heads = model.num_heads;
  manifest.num_kv_heads = model.num_kv_heads;
  manifest.head_dim = model.head_dim;
  manifest.hidden_size = model.hidden_size;
  manifest.num_parameters = model.NumParameters();
  manifest.sliding_window = model.sliding_window;
  manifest.batch_size = options.batch_size;
  manifest.decoder_batch_sizes = options.decoder_batch_sizes;
  manifest.max_seq_len = options.max_seq_len;
  manifest.tensor_parallel_size = options.tensor_parallel_size;
  manifest.attn_impl =
      options.attn_impl == AttnImpl::kEager ? "eager" : "flash_attn";
  manifest.kvcache_partition_len = options.kvcache_partition_len;
  manifest.kvcache_block_size = options.kvcache_block_size;
  manifest.kvcache_num_blocks = options.kvcache_num_blocks;
  manifest.prefill_chunk_size = options.prefill_chunk_size;
  manifest.weights = FormatName(ToFormat(options.weights));
  manifest.activations = FormatName(ToFormat(options.activations));
  manifest.kv_caches = FormatName(ToFormat(options.kv_caches));
  const bool quantized = options.weights == WeightFormat::kInt8 ||
                         options.weights == WeightFormat::kInt4;
  manifest.group_size = quantized ? options.group_size : 0;
  manifest.target = target;
  for (const auto& [name, value] : options.sampling.values) {
    manifest.sampling[name] = ParseJson(value, name, ErrorKind::kUsage);
  }
  manifest.source = options.model;
  return manifest;
}

// The directory in which the output is built, held against other compiles.
class Staging {
 public:
  explicit Staging(const std::string& output) : path_(output + ".partial") {
    std::error_code error;
    fs::create_directories(path_, error);
    // Not through a link, behind which somebody's directory would be wiped.
    fd_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd_ < 0) {
      throw ResourceError("{}: cannot create: {}", path_,
                          error ? error.message() : std::strerror(errno));
    }
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      close(fd_);
      throw ResourceError(
          "{}: another compile is writing there; wait for it, "
          "or choose another output",
          path_);
    }
    try {
      CheckHoldsOnlyOurs(path_, {});
    } catch (...) {
      close(fd_);
      throw;
    }
    // Left by a compile that was killed.
    for (const auto& entry : fs::directory_iterator(path_)) {
      fs::remove(entry.path());
    }
  }
  // Removes what was not moved to its place.
  ~Staging() {
    std::error_code ignored;
    if (!moved_) fs::remove_all(path_, ignored);
    close(fd_);
  }
  void MoveTo(const std::string& output) {
    SyncDirectory(path_);
    ReplaceDirectory(path_, output);
    moved_ = true;
  }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
  int fd_ = -1;
  bool moved_ = false;
};

void WriteNewFile(const std::string& path, std::string_view content) {
  FileWriter writer(path);
  writer.Write(content);
  writer.Sync();
  writer.Close();
}

void CheckDisk(const std::string& output, uint64_t bytes) {
  fs::path place = fs::absolute(output).parent_path();
  while (!fs::exists(place) && place.has_relative_path()) {
    place = place.parent_path();
  }
  struct statvfs info {};
  if (statvfs(place.c_str(), &info) != 0) return;
  const uint64_t left = uint64_t{info.f_bavail} * info.f_frsize;
  if (left < bytes) {
    throw ResourceError("{}: {} are needed, {} are free on that file system",
                        output, FormatBytes(bytes), FormatBytes(left));
  }
}

// The last compile's manifest, where there is a good one.
std::optional<Manifest> LastManifest(const std::string& output) {
  if (!FileExists(output + "/" + kManifestName)) return std::nullopt;
  try {
    return Manifest::Read(output);
  } catch (const Error&) {
    return std::nullopt;  // damaged or of another version: compiled over
  }
}

// Where `output` leads: a link stays, and what it names is compiled to.
std::string FollowLinks(const std::string& output) {
  fs::path path = output;
  std::error_code error;
  for (int links = 0; fs::is_symlink(path, error); ++links) {
    if (links == 40) {  // as many as Linux follows
      throw UsageError("output: {}: its links lead nowhere", output);
    }
    path = path.parent_path() / fs::read_symlink(path);
  }
  return path;
}

// Whether `output` may be replaced: it is not there, empty, or of our making.
void CheckOutput(const std::string& output) {
  std::error_code ignored;
  if (!fs::exists(output, ignored)) return;
  if (fs::equivalent(output, ".", ignored)) {
    throw UsageError(
        "output: {} is the current directory, which cannot be "
        "replaced; name another one",
        output);
  }
  if (!fs::is_directory(output, ignored)) {
    throw UsageError("output: {} is a file; name a directory", output);
  }
  if (fs::is_empty(output, ignored)) return;
  if (!FileExists(output + "/" + kManifestName)) {
    throw UsageError(
        "output: {} exists and is not a compiled directory (it has no {}); "
        "choose another, or remove it",
        output, kManifestName);
  }
  const std::optional<Manifest> last = LastManifest(output);
  CheckHoldsOnlyOurs(
      output, last ? last->files : std::map<std::string, ManifestFile>{});
}

}  // namespace

CompileReport Compile(const Checkpoint& checkpoint,
                      const CompileOptions& options,
                      const CompileSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  const std::string output = FollowLinks(options.output);
  CheckOutput(output);
  const ModelDescription& model = checkpoint.model();
  const std::string target = ResolveTarget(options.target);
  const int threads =
      settings.threads > 0 ? settings.threads : GrantedCpus().threads;

  const int ranks = options.tensor_parallel_size;
  std::vector<Graph> graphs;  // one a rank
  uint64_t packed = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    graphs.push_back(ImportModel(model, options.max_seq_len));
    RunPasses(graphs[rank], ToFormat(options.weights), rank, ranks,
              [&](const std::string& pass, const Graph& after) {
                // Ranks differ in sizes only.
                if (settings.dump && rank == 0) {
                  settings.dump(pass, DumpGraph(after));
                }
              });
    packed += PackedBytes(graphs[rank]);
  }

  Manifest manifest = DescribeModel(model, options, target);
  manifest.source_fingerprint = checkpoint.weights().Fingerprint();

  // Small files, by name, with their content.
  std::map<std::string, std::string> small;
  LowerOptions lower;
  lower.isa = target;
  lower.kv_format = ToFormat(options.kv_caches);
  lower.kvcache_block_size = options.kvcache_block_size;
  lower.partition_len = options.kvcache_partition_len > 0
                            ? options.kvcache_partition_len
                            : options.max_seq_len;
  // A target that was named is compiled for by the record, alike everywhere;
  // for this machine, its kernels are measured.
  std::optional<Tuner> tuner;
  if (options.target == "native") {
    tuner.emplace(NativeKernels(), std::max(1, threads / ranks),
                  PackedBytes(graphs[0]), Tuner::DefaultPath());
    lower.tuner = &*tuner;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto add_program = [&](const std::string& name, int rows) {
      lower.rows = rows;
      lower.logits_rows = rows;
      small[name] = SerializeProgram(LowerGraph(graphs[rank], model, lower));
    };
    add_program(ProgramFileName(0, rank, ranks), options.prefill_chunk_size);
    for (const int size : options.decoder_batch_sizes) {
      add_program(ProgramFileName(size, rank, ranks), size);
    }
  }
  if (tuner) tuner->Save();
  tuner.reset();  // its memory and threads
  for (const char* name : kCopiedFiles) {
    const std::string path = checkpoint.directory() + "/" + name;
    if (FileExists(path)) small[name] = ReadFile(path, ErrorKind::kUsage);
  }
  for (const auto& [name, content] : small) {
    manifest.files[name] = {content.size(), HashBytes(content)};
  }

  CompileReport report;
  report.output = options.output;
  report.target = target;
  std::vector<std::string> weights_names;
  for (int rank = 0; rank < ranks; ++rank) {
    weights_names.push_back(WeightsFileName(rank, ranks));
  }
  const std::optional<Manifest> last =
      settings.force ? std::nullopt : LastManifest(output);
  const auto unchanged = [&](const std::string& name) {
    if (!last) return false;
    const auto before = last->files.find(name);
    std::error_code error;
    return before != last->files.end() &&
           before->second.checksum == manifest.files[name].checksum &&
           fs::file_size(output + "/" + name, error) == before->second.size;
  };
  // Panels do not depend on the target, so that a compile for another one keeps
  // the weights too. Rotary frequencies may depend on the length.
  if (last && last->source_fingerprint == manifest.source_fingerprint &&
      last->weights == manifest.weights &&
      last->group_size == manifest.group_size &&
      last->tensor_parallel_size == ranks &&
      model.Rotary(last->max_seq_len).inverse_frequencies ==
          model.Rotary(manifest.max_seq_len).inverse_frequencies) {
    for (const std::string& name : weights_names) {
      const auto before = last->files.find(name);
      if (before != last->files.end()) manifest.files[name] = before->second;
    }
  }
  bool keep_weights = true;
  for (const std::string& name : weights_names) {
    keep_weights &= manifest.files.contains(name) && unchanged(name);
  }
  for (const auto& [name, content] : small) {
    (unchanged(name) ? report.kept : report.written).push_back(name);
  }
  for (const std::string& name : weights_names) {
    (keep_weights ? report.kept : report.written).push_back(name);
  }

  if (!report.written.empty() || !last || last->ToJson() != manifest.ToJson()) {
    if (!keep_weights) {
      CheckDisk(output, packed);
      if (settings.progress) settings.progress("pack", 0, packed);
    }
    Staging staging(output);
    std::atomic<uint64_t> done{0};
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string& name = weights_names[rank];
      if (keep_weights) {
        const std::string from = output + "/" + name;
        std::error_code error;
        fs::create_hard_link(from, staging / name, error);
        if (error) fs::copy_file(from, staging / name);
        continue;
      }
      manifest.files[name] =
          PackWeights(graphs[rank], checkpoint.weights(), threads,
                      staging / name, [&](uint64_t bytes) {
                        const uint64_t now = done.fetch_add(bytes) + bytes;
                        if (settings.progress)
                          settings.progress("pack", now, packed);
                      });
    }
    if (!keep_weights) report.source_bytes = checkpoint.weights().total_bytes();
    for (const auto& [name, content] : small) {
      WriteNewFile(staging / name, content);
    }
    WriteNewFile(staging / kManifestName, manifest.ToJson());
    CheckOutput(output);  // again: packing may have taken hours
    staging.MoveTo(output);
    if (report.written.empty()) report.written.push_back(kManifestName);
  }

  for (const auto& [name, file] : manifest.files) {
    report.output_bytes += file.size;
  }
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return report;
}

}  // namespace rbln
