#include "runtime/runtime.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

#include "base/cpu.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/region.h"
#include "runtime/program.h"

namespace rbln {
namespace {

// The file of the program of `rows` rows, by the manifest.
std::vector<std::pair<int, std::string>> ProgramFiles(
    const Manifest& manifest) {
  std::vector<std::pair<int, std::string>> files;
  files.emplace_back(manifest.prefill_chunk_size, "prefill.rbln");
  for (const int size : manifest.decoder_batch_sizes) {
    files.emplace_back(size, fmt::format("decoder_batch_{}.rbln", size));
  }
  return files;
}

// Checks a file's size, and its content where `verify` is set.
void CheckFile(const std::string& directory, const std::string& name,
               const Manifest& manifest, bool verify) {
  const std::string path = directory + "/" + name;
  const auto entry = manifest.files.find(name);
  if (entry == manifest.files.end()) {
    throw ModelError("{}: the manifest does not list {}; compile it again",
                     directory, name);
  }
  const MappedFile file(path, ErrorKind::kModel);
  if (file.bytes().size() != entry->second.size) {
    throw ModelError("{}: {} bytes, the manifest says {}; compile it again",
                     path, file.bytes().size(), entry->second.size);
  }
  if (verify && HashBytes(file.bytes()) != entry->second.checksum) {
    throw ModelError(
        "{}: the content is not what was compiled (checksum {}, the manifest "
        "says {}); compile it again",
        path, HashBytes(file.bytes()), entry->second.checksum);
  }
}

struct LoadedFiles {
  Manifest manifest;
  std::vector<ProgramT> programs;  // as ProgramFiles
};

LoadedFiles LoadFiles(const std::string& directory, bool verify) {
  LoadedFiles loaded;
  loaded.manifest = Manifest::Read(directory);
  const Manifest& manifest = loaded.manifest;
  if (manifest.tensor_parallel_size != 1) {
    throw ModelError(
        "{}: compiled for {} tensor parallel ranks, which this version cannot "
        "run; compile it with tensor_parallel_size 1",
        directory, manifest.tensor_parallel_size);
  }
  for (const auto& [rows, name] : ProgramFiles(manifest)) {
    CheckFile(directory, name, manifest, /*verify=*/true);
    ProgramT program = ReadProgram(directory + "/" + name);
    if (program.rows != rows || program.vocab_size != manifest.vocab_size ||
        program.num_layers != manifest.num_layers ||
        program.num_kv_heads != manifest.num_kv_heads ||
        program.head_dim != manifest.head_dim ||
        program.kvcache_block_size != manifest.kvcache_block_size ||
        FormatName(program.kv_format) != manifest.kv_caches ||
        program.isa != manifest.target) {
      throw ModelError(
          "{}/{}: the program is not the one the manifest describes; compile "
          "it again",
          directory, name);
    }
    loaded.programs.push_back(std::move(program));
  }
  // The tokenizer and what else the answers come from. Weights are not read to
  // start: their size and header are checked, their content where asked for.
  const std::string weights = WeightsFileName(0, 1);
  CheckFile(directory, weights, manifest, verify);
  for (const auto& [name, entry] : manifest.files) {
    if (name == weights || name.ends_with(".rbln")) continue;
    CheckFile(directory, name, manifest, /*verify=*/true);
  }
  return loaded;
}

int Threads(const RuntimeOptions& options) {
  return options.threads > 0 ? options.threads : GrantedCpus().threads;
}

MemoryPlan Plan(const std::string& directory, const LoadedFiles& loaded,
                const RuntimeOptions& options) {
  const Manifest& manifest = loaded.manifest;
  MemoryPlan plan;
  plan.weights_bytes = manifest.files.at(WeightsFileName(0, 1)).size;
  plan.kv_block_bytes = manifest.KvBytesPerBlock();
  uint64_t scratch = 0;
  for (const ProgramT& program : loaded.programs) {
    plan.arena_bytes = std::max(plan.arena_bytes, program.arena_bytes);
    scratch = std::max<uint64_t>(
        scratch, BoundProgram::ScratchFloats(program) * sizeof(float));
  }
  plan.arena_bytes += scratch * Threads(options);

  if (options.memory_limit > 0) {
    plan.available_bytes = options.memory_limit;
    plan.available_reason = "the limit asked for";
  } else {
    const MemoryGrant grant = AvailableMemory();
    plan.available_bytes = grant.bytes;
    plan.available_reason = grant.reason;
  }
  const uint64_t sequence_blocks =
      manifest.KvBytesPerSequence() / plan.kv_block_bytes;
  plan.wanted_blocks =
      static_cast<int>(std::min<uint64_t>(sequence_blocks * manifest.batch_size,
                                          1 << 30));
  const uint64_t fixed = plan.weights_bytes + plan.arena_bytes;
  // Some is left for the rest of the program and of the machine.
  const uint64_t usable = plan.available_bytes - plan.available_bytes / 10;
  const uint64_t fitting =
      usable > fixed ? (usable - fixed) / plan.kv_block_bytes : 0;
  if (options.num_blocks > 0) {
    plan.num_blocks = options.num_blocks;
    plan.blocks_reason = "asked for";
  } else if (manifest.kvcache_num_blocks > 0) {
    plan.num_blocks = manifest.kvcache_num_blocks;
    plan.blocks_reason = "as compiled";
  } else {
    const std::string wanted =
        fmt::format("{} full sequence{} of {} block{}", manifest.batch_size,
                    manifest.batch_size == 1 ? "" : "s", sequence_blocks,
                    sequence_blocks == 1 ? "" : "s");
    const bool fits = fitting >= static_cast<uint64_t>(plan.wanted_blocks);
    plan.num_blocks =
        fits ? plan.wanted_blocks : static_cast<int>(fitting);
    plan.blocks_reason =
        fits ? wanted
             : fmt::format("what fits, ({:.2f} GB usable - {:.2f} GB weights - "
                           "{:.2f} GB working memory) / {} bytes a block; {} "
                           "would be {}",
                           usable * 1e-9, plan.weights_bytes * 1e-9,
                           plan.arena_bytes * 1e-9, plan.kv_block_bytes,
                           wanted, plan.wanted_blocks);
  }
  if (static_cast<uint64_t>(plan.num_blocks) > fitting ||
      plan.num_blocks == 0) {
    throw ResourceError(
        "{}: not enough memory: weights take {:.2f} GB, working memory {:.2f} "
        "GB and {} KV cache blocks {:.2f} GB, but only {:.2f} GB can be used "
        "({}, less a tenth); compile with a smaller max_seq_len or "
        "kvcache_num_blocks, or with quantized weights",
        directory, plan.weights_bytes * 1e-9, plan.arena_bytes * 1e-9,
        std::max(plan.num_blocks, 1),
        std::max(plan.num_blocks, 1) * plan.kv_block_bytes * 1e-9,
        usable * 1e-9, plan.available_reason);
  }
  return plan;
}

class ExecutorImpl : public Executor {
 public:
  ExecutorImpl(const std::string& directory, const LoadedFiles& loaded,
               const MemoryPlan& plan, const KernelTable& kernels,
               const RuntimeOptions& options)
      : manifest_(loaded.manifest),
        plan_(plan),
        isa_(kernels.isa),
        weights_(directory + "/" + WeightsFileName(0, 1)),
        team_(Threads(options), /*pin=*/true) {
    uint64_t arena = 0;
    int64_t scratch = 0;
    for (const ProgramT& program : loaded.programs) {
      arena = std::max(arena, program.arena_bytes);
      scratch = std::max(scratch, BoundProgram::ScratchFloats(program));
    }
    const uint64_t scratch_bytes =
        AlignUp(scratch * sizeof(float), kAlignment);
    arena_ = Region(arena + scratch_bytes * team_.size(), "working memory");
    kv_cache_ = Region(plan.kv_bytes(), "the KV cache");
    memory_.arena = arena_.data();
    memory_.kv_cache = kv_cache_.data();
    for (int i = 0; i < team_.size(); ++i) {
      memory_.scratch.push_back(reinterpret_cast<float*>(
          arena_.data() + arena + i * scratch_bytes));
    }
    for (const ProgramT& program : loaded.programs) {
      programs_.emplace(program.rows, std::make_unique<BoundProgram>(
                                          program, weights_, kernels, memory_));
    }
  }

  const Manifest& manifest() const override { return manifest_; }
  int num_blocks() const override { return plan_.num_blocks; }
  int threads() const override { return team_.size(); }

  std::span<const float> Step(int program_rows, std::span<const Row> rows,
                              std::span<const BlockTable> tables) override {
    CheckStep(program_rows, rows, tables);
    const BoundProgram::Logits logits =
        programs_.at(program_rows)->Run(rows, tables, team_, profile_);
    // Rows are padded to whole panels in the arena, but not to the caller.
    const int64_t columns = manifest_.vocab_size;
    if (logits.stride != columns) {
      for (int row = 1; row < logits.count; ++row) {
        std::memmove(logits.data + row * columns,
                     logits.data + row * logits.stride,
                     columns * sizeof(float));
      }
    }
    return {logits.data, static_cast<size_t>(logits.count * columns)};
  }

  void Profile(std::vector<double>* seconds) override { profile_ = seconds; }

  void CopyBlock(int from, int to) override {
    std::memcpy(kv_cache_.data() + to * plan_.kv_block_bytes,
                kv_cache_.data() + from * plan_.kv_block_bytes,
                plan_.kv_block_bytes);
  }

  std::span<std::byte> BlockBytes(int block) override {
    return {kv_cache_.data() + block * plan_.kv_block_bytes,
            plan_.kv_block_bytes};
  }
  std::string kv_fingerprint() const override {
    const auto checksum = [&](const char* name) {
      const auto found = manifest_.files.find(name);
      return found == manifest_.files.end() ? "" : found->second.checksum;
    };
    // Tiles and numbers of rows are left out: they change no bit.
    return fmt::format(
        "{} {} {} {} {} {} {} {} {} {}", manifest_.tool_version, isa_,
        checksum(WeightsFileName(0, 1).c_str()), checksum("config.json"),
        manifest_.weights, manifest_.activations, manifest_.kv_caches,
        manifest_.max_seq_len, manifest_.kvcache_block_size,
        manifest_.kvcache_partition_len);
  }

 private:
  void CheckStep(int program_rows, std::span<const Row> rows,
                 std::span<const BlockTable> tables) const {
    const auto require = [](bool condition, const char* what) {
      if (!condition) throw std::logic_error(std::string("step: ") + what);
    };
    require(programs_.contains(program_rows), "no program of so many rows");
    require(!rows.empty() && rows.size() <= static_cast<size_t>(program_rows),
            "too many rows, or none");
    for (const Row& row : rows) {
      require(row.token >= 0 && row.token < manifest_.vocab_size,
              "token out of range");
      require(row.sequence >= 0 &&
                  row.sequence < static_cast<int>(tables.size()),
              "no such block table");
      const BlockTable table = tables[row.sequence];
      const int block = row.position / manifest_.kvcache_block_size;
      require(row.position >= 0 && row.position < manifest_.max_seq_len &&
                  block < static_cast<int>(table.size()),
              "position out of range");
      require(table[block] >= 0 && table[block] < plan_.num_blocks,
              "block out of range");
    }
  }

  Manifest manifest_;
  MemoryPlan plan_;
  const std::string isa_;
  PackedWeights weights_;
  ThreadTeam team_;
  Region arena_;
  Region kv_cache_;
  StepMemory memory_;
  std::map<int, std::unique_ptr<BoundProgram>> programs_;
  std::vector<double>* profile_ = nullptr;
};

// The kernels a directory runs with: those it was compiled for, or what
// RBLN_ISA names.
const KernelTable& ChooseKernels(const std::string& directory,
                                 const Manifest& manifest) {
  if (std::getenv("RBLN_ISA") != nullptr) return NativeKernels();
  const KernelTable* table = FindKernels(manifest.target);
  if (table == nullptr || !Supported(*table)) {
    throw ModelError(
        "{}: compiled for {}, which this machine {}; compile it with 'target: "
        "native' here, or set RBLN_ISA={} to run it slower",
        directory, manifest.target,
        table == nullptr ? "does not know" : "lacks", NativeKernels().isa);
  }
  return *table;
}

}  // namespace

MemoryPlan PlanMemory(const std::string& directory,
                      const RuntimeOptions& options) {
  return Plan(directory, LoadFiles(directory, options.verify), options);
}

std::unique_ptr<Executor> LoadModel(const std::string& directory,
                                    const RuntimeOptions& options) {
  const LoadedFiles loaded = LoadFiles(directory, options.verify);
  const KernelTable& kernels = ChooseKernels(directory, loaded.manifest);
  return std::make_unique<ExecutorImpl>(directory, loaded,
                                        Plan(directory, loaded, options),
                                        kernels, options);
}

}  // namespace rbln
