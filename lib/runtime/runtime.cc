#include "runtime/runtime.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

#include "artifact/sharding.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/region.h"
#include "base/units.h"
#include "runtime/program.h"

namespace rbln {
namespace {

// The programs of a rank by their rows, and their files.
std::vector<std::pair<int, std::string>> ProgramFiles(const Manifest& manifest,
                                                      int rank) {
  const int ranks = manifest.tensor_parallel_size;
  std::vector<std::pair<int, std::string>> files;
  files.emplace_back(manifest.prefill_chunk_size,
                     ProgramFileName(0, rank, ranks));
  for (const int size : manifest.decoder_batch_sizes) {
    files.emplace_back(size, ProgramFileName(size, rank, ranks));
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

// Raised when the bytes of a KV cache block mean something else: blocks may be
// kept on disk.
constexpr int kKvLayoutVersion = 3;

// What one rank has.
struct RankFiles {
  int rank = 0;
  std::string weights;             // file name
  std::vector<ProgramT> programs;  // as ProgramFiles
};

struct LoadedFiles {
  Manifest manifest;
  std::vector<RankFiles> ranks;  // those of this process
};

RankFiles LoadRank(const std::string& directory, const Manifest& manifest,
                   int rank, bool verify) {
  const int ranks = manifest.tensor_parallel_size;
  RankFiles loaded;
  loaded.rank = rank;
  for (const auto& [rows, name] : ProgramFiles(manifest, rank)) {
    CheckFile(directory, name, manifest, /*verify=*/true);
    ProgramT program = ReadProgram(directory + "/" + name);
    if (program.rows != rows || program.vocab_size != manifest.vocab_size ||
        program.rank != rank || program.ranks != ranks ||
        program.num_layers != manifest.num_layers ||
        program.num_heads !=
            HeadShard(manifest.num_heads, rank, ranks).size() ||
        program.num_kv_heads !=
            KvHeadShard(manifest.num_kv_heads, rank, ranks).size() ||
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
  // Weights are not read to start: their size and header are checked, their
  // content where asked for.
  loaded.weights = WeightsFileName(rank, ranks);
  CheckFile(directory, loaded.weights, manifest, verify);
  return loaded;
}

LoadedFiles LoadFiles(const std::string& directory,
                      const RuntimeOptions& options) {
  LoadedFiles loaded;
  loaded.manifest = Manifest::Read(directory);
  const int ranks = loaded.manifest.tensor_parallel_size;
  if (options.transport != nullptr) {
    if (options.transport->ranks() != ranks) {
      throw std::logic_error("the transport has other ranks than the model");
    }
    loaded.ranks.push_back(LoadRank(directory, loaded.manifest,
                                    options.transport->rank(), options.verify));
  } else {
    for (int rank = 0; rank < ranks; ++rank) {
      loaded.ranks.push_back(
          LoadRank(directory, loaded.manifest, rank, options.verify));
    }
  }
  // The tokenizer and what else the answers come from.
  for (const auto& [name, entry] : loaded.manifest.files) {
    if (name.starts_with("weights.") || name.ends_with(".rbln")) continue;
    CheckFile(directory, name, loaded.manifest, /*verify=*/true);
  }
  return loaded;
}

// Of all ranks here: at least one each.
int Threads(const RuntimeOptions& options, const LoadedFiles& loaded) {
  return std::max(options.threads > 0 ? options.threads : GrantedCpus().threads,
                  static_cast<int>(loaded.ranks.size()));
}

uint64_t ScratchBytes(const RankFiles& rank) {
  int64_t scratch = 0;
  for (const ProgramT& program : rank.programs) {
    scratch = std::max(scratch, BoundProgram::ScratchFloats(program));
  }
  return AlignUp(scratch * sizeof(float), kAlignment);
}

uint64_t ArenaBytes(const RankFiles& rank) {
  uint64_t arena = 0;
  for (const ProgramT& program : rank.programs) {
    arena = std::max(arena, program.arena_bytes);
  }
  return AlignUp(arena, kAlignment);
}

// For what comes from each other rank, where those are in other processes.
uint64_t InboxBytes(const RankFiles& rank) {
  uint64_t most = 0;
  for (const ProgramT& program : rank.programs) {
    most = std::max(most, BoundProgram::ExchangeBytes(program));
  }
  return AlignUp(most, kAlignment);
}

KvLayout KvLayoutOf(const RankFiles& rank) {
  const ProgramT& program = rank.programs[0];
  return KvLayout::Make(program.kv_format, program.head_dim,
                        program.num_kv_heads, program.num_layers,
                        program.kvcache_block_size);
}

MemoryPlan Plan(const std::string& directory, const LoadedFiles& loaded,
                const RuntimeOptions& options) {
  const Manifest& manifest = loaded.manifest;
  MemoryPlan plan;
  for (const RankFiles& rank : loaded.ranks) {
    plan.weights_bytes += manifest.files.at(rank.weights).size;
    plan.kv_block_bytes += KvLayoutOf(rank).block_bytes;
    plan.arena_bytes += ArenaBytes(rank);
    if (options.transport != nullptr) {
      plan.arena_bytes += InboxBytes(rank) * options.transport->ranks();
    }
  }
  plan.arena_bytes += ScratchBytes(loaded.ranks[0]) * Threads(options, loaded);

  if (options.memory_limit > 0) {
    plan.available_bytes = options.memory_limit;
    plan.available_reason = "the limit asked for";
  } else {
    const MemoryGrant grant = AvailableMemory();
    plan.available_bytes = grant.bytes / options.processes;
    plan.available_reason = options.processes == 1
                                ? grant.reason
                                : fmt::format("{}, for each of {} processes",
                                              grant.reason, options.processes);
  }
  const uint64_t sequence_blocks =
      manifest.KvBytesPerSequence() / manifest.KvBytesPerBlock();
  plan.wanted_blocks = static_cast<int>(
      std::min<uint64_t>(sequence_blocks * manifest.batch_size, 1 << 30));
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
    plan.num_blocks = fits ? plan.wanted_blocks : static_cast<int>(fitting);
    plan.blocks_reason =
        fits
            ? wanted
            : fmt::format(
                  "what fits, ({} usable - {} weights - {} working "
                  "memory) / {} a block; {} would be {}",
                  FormatBytes(usable), FormatBytes(plan.weights_bytes),
                  FormatBytes(plan.arena_bytes),
                  FormatBytes(plan.kv_block_bytes), wanted, plan.wanted_blocks);
  }
  if (static_cast<uint64_t>(plan.num_blocks) > fitting ||
      plan.num_blocks == 0) {
    const int blocks = std::max(plan.num_blocks, 1);
    const uint64_t needed = fixed + blocks * plan.kv_block_bytes;
    // What to change, the least first.
    std::string advice = "compile with quantized weights";
    if (options.num_blocks > 0 && fitting > 0) {
      advice = fmt::format("--kvcache-num-blocks of at most {} fits", fitting);
    } else if (options.memory_limit > 0) {
      advice = fmt::format("--memory-limit of {} is needed",
                           FormatBytes(needed + needed / 9 + 1));
    } else if (manifest.kvcache_num_blocks > 0 && fitting > 0) {
      advice = fmt::format(
          "compile with kvcache_num_blocks of at most {}, or "
          "pass --kvcache-num-blocks",
          fitting);
    }
    throw ResourceError(
        "{}: not enough memory: weights take {}, working memory {} and {} KV "
        "cache block{} {}, but only {} can be used ({}, less a tenth); {}",
        directory, FormatBytes(plan.weights_bytes),
        FormatBytes(plan.arena_bytes), blocks, blocks == 1 ? "" : "s",
        FormatBytes(blocks * plan.kv_block_bytes), FormatBytes(usable),
        plan.available_reason, advice);
  }
  return plan;
}

// A step as rank 0 tells others of it.
std::vector<std::byte> StepMessage(int program_rows, std::span<const Row> rows,
                                   std::span<const BlockTable> tables) {
  std::vector<std::byte> message;
  const auto put = [&message](std::span<const std::byte> bytes) {
    const size_t at = message.size();
    message.resize(at + bytes.size());
    std::memcpy(message.data() + at, bytes.data(), bytes.size());
  };
  const auto number = [&put](size_t value) {
    const int32_t narrow = static_cast<int32_t>(value);
    put(std::as_bytes(std::span(&narrow, 1)));
  };
  number(program_rows);
  number(rows.size());
  put(std::as_bytes(rows));
  number(tables.size());
  for (const BlockTable& table : tables) {
    number(table.size());
    put(std::as_bytes(table));
  }
  return message;
}

// The reverse.
class StepReader {
 public:
  explicit StepReader(std::span<const std::byte> message) : left_(message) {
    program_rows = Number();
    rows.resize(Number());
    Take(rows.data(), rows.size() * sizeof(Row));
    storage_.resize(Number());
    for (std::vector<int32_t>& table : storage_) {
      table.resize(Number());
      Take(table.data(), table.size() * sizeof(int32_t));
      tables.emplace_back(table);
    }
  }

  int program_rows;
  std::vector<Row> rows;
  std::vector<BlockTable> tables;

 private:
  void Take(void* to, size_t bytes) {
    if (bytes > left_.size()) throw std::logic_error("a step was cut short");
    std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
  }
  int Number() {
    int32_t value = 0;
    Take(&value, sizeof(value));
    return value;
  }

  std::span<const std::byte> left_;
  std::vector<std::vector<int32_t>> storage_;
};

// Reads a byte of every `stride`, so that the pages are there, until `stop`.
void TouchPages(std::span<const std::byte> bytes, size_t stride,
                const std::atomic<bool>& stop) {
  for (size_t at = 0; at < bytes.size(); at += stride) {
    if (stop.load(std::memory_order_relaxed)) return;
    const volatile std::byte* byte = bytes.data() + at;
    static_cast<void>(*byte);
  }
}

// Touches files in the background, so that their pages are in the page table
// before a step needs them: Linux enters sixteen for one.
class PagesAhead {
 public:
  explicit PagesAhead(std::vector<std::span<const std::byte>> files)
      : thread_([this, files = std::move(files)] {
          BindTo(AllowedCpus());
          for (const std::span<const std::byte> file : files) {
            TouchPages(file, size_t{64} << 10, stop_);
          }
        }) {}
  ~PagesAhead() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  PagesAhead(const PagesAhead&) = delete;
  PagesAhead& operator=(const PagesAhead&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class ExecutorImpl : public Executor {
 public:
  ExecutorImpl(const std::string& directory, const LoadedFiles& loaded,
               const MemoryPlan& plan, const KernelTable& kernels,
               const RuntimeOptions& options)
      : manifest_(loaded.manifest),
        plan_(plan),
        isa_(kernels.isa),
        transport_(options.transport),
        nodes_(CpusByNode()),
        team_(Threads(options, loaded),
              PlaceThreads(Threads(options, loaded),
                           static_cast<int>(loaded.ranks.size()), nodes_)) {
    const int count = static_cast<int>(loaded.ranks.size());
    for (int i = 0; i < count; ++i) {
      ranks_.push_back(std::make_unique<Rank>(loaded.ranks[i], directory,
                                              Share(team_.size(), i, count),
                                              plan.num_blocks));
    }
    BindPrograms(loaded, kernels);
    // Weights in memory of their rank's node, where nobody read them before.
    if (count > 1 && nodes_.size() > 1) {
      team_.Run([&](int thread) { Touch(thread); });
    } else {
      std::vector<std::span<const std::byte>> files;
      for (const auto& rank : ranks_) files.push_back(rank->weights.file());
      pages_ahead_ = std::make_unique<PagesAhead>(std::move(files));
    }
  }
  ~ExecutorImpl() override {
    if (transport_ == nullptr || transport_->rank() != 0) return;
    std::vector<std::byte> end;
    transport_->Broadcast(&end);
  }

  const Manifest& manifest() const override { return manifest_; }
  int num_blocks() const override { return plan_.num_blocks; }
  int threads() const override { return team_.size(); }

  std::span<const float> Step(int program_rows, std::span<const Row> rows,
                              std::span<const BlockTable> tables) override {
    CheckStep(program_rows, rows, tables);
    if (transport_ != nullptr) {
      std::vector<std::byte> message = StepMessage(program_rows, rows, tables);
      transport_->Broadcast(&message);
    }
    const BoundProgram::Logits logits = RunStep(program_rows, rows, tables);
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

  void Follow() override {
    while (true) {
      std::vector<std::byte> message;
      transport_->Broadcast(&message);
      if (message.empty()) return;
      if (message.size() == sizeof(BlockCopy)) {
        BlockCopy copy;
        std::memcpy(&copy, message.data(), sizeof(copy));
        CopyHere(copy);
        continue;
      }
      const StepReader step(message);
      CheckStep(step.program_rows, step.rows, step.tables);
      RunStep(step.program_rows, step.rows, step.tables);
    }
  }

  void Profile(std::vector<double>* seconds) override { profile_ = seconds; }

  void CopyBlock(int from, int to, int tokens) override {
    const BlockCopy copy{from, to, tokens};
    if (transport_ != nullptr) {
      const auto bytes = std::as_bytes(std::span(&copy, 1));
      std::vector<std::byte> message(bytes.begin(), bytes.end());
      transport_->Broadcast(&message);
    }
    CopyHere(copy);
  }

  // What several ranks hold of a block is in several places.
  std::span<std::byte> BlockBytes(int block) override {
    if (manifest_.tensor_parallel_size > 1) return {};
    return {ranks_[0]->kv_cache.data() + block * plan_.kv_block_bytes,
            plan_.kv_block_bytes};
  }
  std::string kv_fingerprint() const override {
    if (manifest_.tensor_parallel_size > 1) return "";
    const auto checksum = [&](const char* name) {
      const auto found = manifest_.files.find(name);
      return found == manifest_.files.end() ? "" : found->second.checksum;
    };
    // Tiles and numbers of rows are left out: they change no bit.
    return fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {}", kKvLayoutVersion,
        manifest_.tool_version, isa_, checksum(WeightsFileName(0, 1).c_str()),
        checksum("config.json"), manifest_.weights, manifest_.activations,
        manifest_.kv_caches, manifest_.max_seq_len,
        manifest_.kvcache_block_size, manifest_.kvcache_partition_len);
  }

 private:
  struct BlockCopy {
    int32_t from;
    int32_t to;
    int32_t tokens;
  };
  // A tensor parallel rank: threads with weights and memory of their own.
  struct Rank {
    Rank(const RankFiles& files, const std::string& directory, Range seats,
         int num_blocks)
        : weights(directory + "/" + files.weights),
          threads(seats),
          kv(KvLayoutOf(files)),
          kv_cache(kv.block_bytes * num_blocks, "the KV cache"),
          barrier(static_cast<int>(seats.end - seats.begin)) {
      const uint64_t arena_bytes = ArenaBytes(files);
      const uint64_t scratch_bytes = ScratchBytes(files);
      const int count = static_cast<int>(seats.end - seats.begin);
      arena = Region(arena_bytes + scratch_bytes * count, "working memory");
      memory.arena = arena.data();
      memory.kv_cache = kv_cache.data();
      for (int i = 0; i < count; ++i) {
        memory.scratch.push_back(reinterpret_cast<float*>(
            arena.data() + arena_bytes + i * scratch_bytes));
      }
    }

    PackedWeights weights;
    Range threads;  // of the team
    const KvLayout kv;
    Region kv_cache;
    Region arena;
    StepMemory memory;
    Barrier barrier;
  };

  void BindPrograms(const LoadedFiles& loaded, const KernelTable& kernels) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      for (const ProgramT& program : loaded.ranks[i].programs) {
        programs_[program.rows].push_back(std::make_unique<BoundProgram>(
            program, ranks_[i]->weights, kernels, ranks_[i]->memory));
      }
    }
    if (transport_ != nullptr) {
      const uint64_t bytes = InboxBytes(loaded.ranks[0]);
      inbox_memory_ = Region(bytes * transport_->ranks(), "messages");
      for (int rank = 0; rank < transport_->ranks(); ++rank) {
        inbox_.push_back(inbox_memory_.data() + rank * bytes);
      }
    }
    for (auto& [rows, programs] : programs_) {
      if (transport_ != nullptr) {
        programs[0]->Connect(*transport_, inbox_);
      } else {
        // All before any, since they point to each other.
        for (const auto& program : programs) program->Connect(programs);
      }
    }
  }

  // The rank that a thread of the team works for.
  int RankOf(int thread) const {
    int rank = 0;
    while (thread >= ranks_[rank]->threads.end) ++rank;
    return rank;
  }

  BoundProgram::Logits RunStep(int program_rows, std::span<const Row> rows,
                               std::span<const BlockTable> tables) {
    const auto& programs = programs_.at(program_rows);
    for (size_t i = 0; i < programs.size(); ++i) {
      const Range threads = ranks_[i]->threads;
      programs[i]->Begin(rows, tables,
                         static_cast<int>(threads.end - threads.begin));
    }
    team_.Run([&](int thread) {
      const int rank = RankOf(thread);
      Rank& mine = *ranks_[rank];
      // One rank meets where the team does anyway.
      Barrier& own = ranks_.size() == 1 ? team_.barrier() : mine.barrier;
      programs[rank]->Run(static_cast<int>(thread - mine.threads.begin),
                          {&own, &team_.barrier()},
                          rank == 0 ? profile_ : nullptr);
    });
    return programs[0]->logits();
  }

  void CopyHere(const BlockCopy& copy) {
    for (const auto& rank : ranks_) {
      const KvLayout& kv = rank->kv;
      const uint64_t groups = (copy.tokens + kPanel - 1) / kPanel;
      std::byte* const to = rank->kv_cache.data() + copy.to * kv.block_bytes;
      const std::byte* const from =
          rank->kv_cache.data() + copy.from * kv.block_bytes;
      for (uint64_t at = 0; at < kv.block_bytes; at += kv.slice_bytes) {
        std::memcpy(to + at, from + at, groups * kv.group_bytes);
      }
    }
  }

  void Touch(int thread) {
    const Rank& rank = *ranks_[RankOf(thread)];
    const std::span<const std::byte> file = rank.weights.file();
    const Range share =
        Share(static_cast<int64_t>(file.size()),
              static_cast<int>(thread - rank.threads.begin),
              static_cast<int>(rank.threads.end - rank.threads.begin));
    TouchPages(file.subspan(share.begin, share.end - share.begin), 4096, false);
  }

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
      require(
          row.sequence >= 0 && row.sequence < static_cast<int>(tables.size()),
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
  Transport* const transport_;
  const std::vector<std::vector<int>> nodes_;
  ThreadTeam team_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<PagesAhead> pages_ahead_;  // of their weights
  Region inbox_memory_;
  std::vector<std::byte*> inbox_;  // by rank
  // By their rows: one for each rank.
  std::map<int, std::vector<std::unique_ptr<BoundProgram>>> programs_;
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
  return Plan(directory, LoadFiles(directory, options), options);
}

std::unique_ptr<Executor> LoadModel(
    const std::string& directory, const RuntimeOptions& options,
    const std::function<void(const MemoryPlan&)>& say) {
  const LoadedFiles loaded = LoadFiles(directory, options);
  const KernelTable& kernels = ChooseKernels(directory, loaded.manifest);
  const MemoryPlan plan = Plan(directory, loaded, options);
  if (say) say(plan);
  return std::make_unique<ExecutorImpl>(directory, loaded, plan, kernels,
                                        options);
}

}  // namespace rbln
