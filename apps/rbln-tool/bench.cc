// rbln-tool bench: how fast a compiled directory runs, beside what the machine
// can do.
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "base/json.h"
#include "base/region.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "rbln-tool/cluster.h"
#include "rbln-tool/commands.h"
#include "rbln-tool/values.h"
#include "runtime/cost.h"
#include "runtime/runtime.h"

namespace rbln {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  std::string model;
  std::vector<int> depths;
  std::vector<int> lengths;
  int repetitions = 5;
  int threads = 0;
  double rank_timeout = 60;
  bool profile = false;
  bool json = false;
};

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// Measures the limits, on as many threads as the model runs on.
class Probe {
 public:
  Probe(const KernelTable& kernels, int threads, Format weights)
      : kernels_(kernels),
        weights_(weights),
        team_(threads, /*pin=*/true),
        memory_(kBytes, "measuring memory") {
    // Small numbers, not pages of zeros.
    team_.Run([&](int thread) {
      const Range part = Part(thread);
      float* floats = reinterpret_cast<float*>(memory_.data());
      for (int64_t i = part.begin / 4; i < part.end / 4; ++i) {
        floats[i] = static_cast<float>(i % 1021);
      }
    });
  }

  Limits Measure() {
    Limits limits;
    limits.read = Rate([&](int thread) {
      const Range part = Part(thread);
      sink_[thread * 64] = kernels_.read_probe(memory_.data() + part.begin,
                                               part.end - part.begin);
      return part.end - part.begin;
    });
    limits.peak =
        Rate([&](int) { return kernels_.peak_probe(weights_, kRounds); });
    limits.float_peak =
        weights_ == Format::Float32 ? limits.peak : Rate([&](int) {
          return kernels_.peak_probe(Format::Float32, kRounds);
        });
    return limits;
  }

 private:
  static constexpr uint64_t kBytes = uint64_t{1} << 29;
  static constexpr int64_t kRounds = 300'000;

  Range Part(int thread) const {
    const Range pages = Share(kBytes >> 14, thread, team_.size());
    return {pages.begin << 14, pages.end << 14};
  }
  // What all threads do together, a second.
  template <typename F>
  double Rate(F&& work) {
    std::vector<int64_t> done(team_.size());
    const Clock::time_point start = Clock::now();
    team_.Run([&](int thread) { done[thread] = work(thread); });
    const double seconds = Seconds(start);
    double total = 0;
    for (const int64_t one : done) total += static_cast<double>(one);
    return total / seconds;
  }

  const KernelTable& kernels_;
  Format weights_;
  ThreadTeam team_;
  Region memory_;
  std::vector<float> sink_ = std::vector<float>(64 * 1024);
};

// One line of the result.
struct Measurement {
  std::string phase;
  std::string program;
  int rows = 0;
  int depth = 0;
  int tokens = 0;  // of a prefill
  Work work;
  Limits limits;                // medians
  std::vector<double> seconds;  // of a step, or of a whole prefill
  std::vector<double> fractions;

  double time() const { return Median(seconds); }
  double tokens_per_second() const {
    return (phase == "prefill" ? tokens : rows) / time();
  }
};

class Bench {
 public:
  // `cluster` must outlive this object. On processes that only follow, the
  // constructor returns when there is nothing more to do.
  Bench(const BenchFlags& flags, const std::string& directory, Cluster& cluster)
      : flags_(flags), directory_(directory) {
    RuntimeOptions options;
    options.threads = flags.threads;
    executor_ = cluster.Load(directory, options);
    cluster.Together([&] {
      if (cluster.replicas() == 1) return;
      throw UsageError(
          "bench measures one replica of {} ranks; start {} "
          "processes, or one",
          cluster.ranks(), cluster.ranks());
    });
    if (!cluster.leads()) {
      cluster.Alone([&] { executor_->Follow(); });
      throw Ended{};
    }
    // Of other processes' ranks only what they send is counted.
    ranks_here_ =
        cluster.world() != nullptr ? 1 : manifest().tensor_parallel_size;
    for (const int rows : manifest().decoder_batch_sizes) {
      Add(rows, rows);
    }
    Add(manifest().prefill_chunk_size, 0);
    const KernelTable& kernels = std::getenv("RBLN_ISA") != nullptr
                                     ? NativeKernels()
                                     : *FindKernels(manifest().target);
    const Format weights = manifest().weights == "float32"    ? Format::Float32
                           : manifest().weights == "bfloat16" ? Format::BFloat16
                                                              : Format::Int8;
    probe_ = std::make_unique<Probe>(kernels, executor_->threads(), weights);
    manifest().kvcache_block_size;
  }

  const Manifest& manifest() const { return executor_->manifest(); }
  int threads() const { return executor_->threads(); }

  Measurement Prefill(int length) {
    Measurement result;
    result.phase = result.program = "prefill";
    result.tokens = length;
    result.rows = std::min(length, manifest().prefill_chunk_size);
    for (int at = 0; at < length; at += result.rows) {
      const int rows = std::min(result.rows, length - at);
      for (const Work& work : PrefillWork(at, rows, at + rows == length)) {
        result.work += work;
      }
    }
    Repeat(&result, [&] { Fill(length); });
    return result;
  }

  Measurement Decode(int rows, int depth) {
    Measurement result;
    result.phase = "decode";
    result.program = fmt::format("decoder_batch_{}", rows);
    result.rows = rows;
    result.depth = depth;
    for (const Work& work : DecodeWork(rows, depth)) result.work += work;
    Prepare(rows, depth);
    Repeat(&result, [&] { Step(rows, depth); });
    return result;
  }

  // The seconds of each operation of a step, medians over the repetitions.
  std::vector<double> ProfileDecode(int rows, int depth) {
    Prepare(rows, depth);
    return Profile(rows, [&] { Step(rows, depth); });
  }
  std::vector<double> ProfilePrefill(int rows) {
    return Profile(manifest().prefill_chunk_size, [&] { Fill(rows); });
  }
  std::vector<Work> DecodeWork(int rows, int depth) const {
    return CountRanks(rows, rows, rows, DecodeContext(rows, depth));
  }
  std::vector<Work> PrefillWork(int at, int rows, bool last) const {
    return CountRanks(manifest().prefill_chunk_size, rows, last ? 1 : 0,
                      PrefillContext(at, rows));
  }
  const ProgramT& program(int rows) const { return programs_.at(rows)[0]; }
  Limits Measure() { return probe_->Measure(); }

 private:
  // Reads a program of all ranks; `file_rows` is 0 for prefill.
  void Add(int rows, int file_rows) {
    const int ranks = manifest().tensor_parallel_size;
    for (int rank = 0; rank < ranks_here_; ++rank) {
      programs_[rows].push_back(ReadProgram(
          directory_ + "/" + ProgramFileName(file_rows, rank, ranks)));
    }
  }

  // What the ranks in this process do together.
  std::vector<Work> CountRanks(int program_rows, int rows, int logits,
                               const Context& context) const {
    std::vector<Work> works;
    for (const ProgramT& rank : programs_.at(program_rows)) {
      const std::vector<Work> more = CountWork(rank, rows, logits, context);
      works.resize(more.size());
      for (size_t i = 0; i < more.size(); ++i) works[i] += more[i];
    }
    return works;
  }

  // Sequence `sequence`'s blocks, one after the other. Where there are not
  // enough for all, sequences share.
  std::vector<int32_t> Blocks(int sequence, int positions) const {
    const int count = (positions + manifest().kvcache_block_size - 1) /
                      manifest().kvcache_block_size;
    std::vector<int32_t> blocks(count);
    for (int i = 0; i < count; ++i) {
      blocks[i] = (sequence * count + i) % executor_->num_blocks();
    }
    return blocks;
  }

  // Runs `length` random tokens through prefill, as the first sequence.
  void Fill(int length) {
    const int chunk = manifest().prefill_chunk_size;
    const std::vector<int32_t> blocks = Blocks(0, length);
    const BlockTable table = blocks;
    for (int at = 0; at < length; at += chunk) {
      std::vector<Row> rows;
      for (int i = at; i < std::min(length, at + chunk); ++i) {
        rows.push_back({Token(), i, 0, i + 1 == length});
      }
      executor_->Step(chunk, rows, std::span(&table, 1));
    }
  }

  static constexpr int kComputed = 4096;

  // Gives `rows` sequences `depth` tokens each: the first is computed, the
  // others are copies of it in memory of their own.
  void Prepare(int rows, int depth) {
    // What a long context takes to compute grows with its square, but what it
    // says does not matter here: blocks that were computed stand for others.
    const int size = manifest().kvcache_block_size;
    const int computed =
        depth <= kComputed ? depth : (kComputed + size - 1) / size * size;
    Fill(std::min(computed, depth));
    const std::vector<int32_t> first = Blocks(0, depth + 1);
    for (size_t i = computed / size; computed < depth && i < first.size();
         ++i) {
      executor_->CopyBlock(first[i % (computed / size)], first[i], size);
    }
    tables_.clear();
    for (int i = 0; i < rows; ++i) tables_.push_back(Blocks(i, depth + 1));
    for (int i = 1; i < rows; ++i) {
      for (size_t b = 0; b < tables_[i].size(); ++b) {
        if (tables_[i][b] != tables_[0][b]) {
          executor_->CopyBlock(tables_[0][b], tables_[i][b], size);
        }
      }
    }
  }
  void Step(int rows, int depth) {
    std::vector<Row> step;
    std::vector<BlockTable> tables;
    for (int i = 0; i < rows; ++i) {
      step.push_back({Token(), depth, i, true});
      tables.push_back(tables_[i]);
    }
    executor_->Step(rows, step, tables);
  }

  // Limits and work in turn, so that both are of the same moments.
  template <typename F>
  void Repeat(Measurement* result, F&& work) {
    work();  // warms up, and says how often one repetition must run it
    const Clock::time_point first = Clock::now();
    work();
    const int runs =
        std::clamp(static_cast<int>(0.1 / Seconds(first)), 1, 1000);
    std::vector<double> read, peak, float_peak;
    for (int i = 0; i < flags_.repetitions; ++i) {
      const Limits limits = probe_->Measure();
      const Clock::time_point start = Clock::now();
      for (int run = 0; run < runs; ++run) work();
      const double seconds = Seconds(start) / runs;
      result->seconds.push_back(seconds);
      result->fractions.push_back(limits.Floor(result->work) / seconds);
      read.push_back(limits.read);
      peak.push_back(limits.peak);
      float_peak.push_back(limits.float_peak);
    }
    result->limits = {Median(read), Median(peak), Median(float_peak)};
  }

  template <typename F>
  std::vector<double> Profile(int rows, F&& work) {
    std::vector<std::vector<double>> times(program(rows).ops.size());
    std::vector<double> seconds;
    work();
    for (int i = 0; i < std::max(9, flags_.repetitions); ++i) {
      executor_->Profile(&seconds);
      work();
      executor_->Profile(nullptr);
      for (size_t op = 0; op < times.size(); ++op) {
        times[op].push_back(seconds[op]);
      }
    }
    std::vector<double> medians;
    for (const std::vector<double>& one : times) {
      medians.push_back(Median(one));
    }
    return medians;
  }

  int32_t Token() {
    return static_cast<int32_t>(random_() % manifest().vocab_size);
  }

  const BenchFlags& flags_;
  std::string directory_;
  std::unique_ptr<Executor> executor_;
  std::map<int, std::vector<ProgramT>> programs_;  // by rank
  std::unique_ptr<Probe> probe_;
  int ranks_here_ = 1;
  std::vector<std::vector<int32_t>> tables_;
  std::mt19937 random_{1};
};

void PrintJson(const Measurement& m) {
  OrderedJson line = {{"phase", m.phase}, {"program", m.program}};
  if (m.phase == "prefill") {
    line["tokens"] = m.tokens;
  } else {
    line["rows"] = m.rows;
    line["depth"] = m.depth;
  }
  const auto [least, most] =
      std::minmax_element(m.seconds.begin(), m.seconds.end());
  line["tokens_per_s"] = m.tokens_per_second();
  line["ms_per_step"] = m.time() * 1e3;
  line["ms_per_step_min"] = *least * 1e3;
  line["ms_per_step_max"] = *most * 1e3;
  line["bytes_per_step"] = static_cast<int64_t>(m.work.bytes);
  line["ops_per_step"] = static_cast<int64_t>(m.work.ops + m.work.float_ops);
  line["gb_per_s"] = m.work.bytes / m.time() * 1e-9;
  line["read_gb_per_s"] = m.limits.read * 1e-9;
  line["gops"] = (m.work.ops + m.work.float_ops) / m.time() * 1e-9;
  line["peak_gops"] = m.limits.peak * 1e-9;
  line["fraction_of_limit"] = Median(m.fractions);
  fmt::print("{}\n", line.dump());
}

void PrintRow(const Measurement& m) {
  const auto [least, most] =
      std::minmax_element(m.seconds.begin(), m.seconds.end());
  fmt::print(
      "{:<18} {:>6} {:>10.1f} {:>9.2f} {:>17} {:>7.1f} {:>7.1f} "
      "{:>8.0f} {:>8.0f} {:>8.0f}%\n",
      m.program, m.phase == "prefill" ? m.tokens : m.depth,
      m.tokens_per_second(), m.time() * 1e3,
      fmt::format("{:.2f} to {:.2f}", *least * 1e3, *most * 1e3),
      m.work.bytes / m.time() * 1e-9, m.limits.read * 1e-9,
      (m.work.ops + m.work.float_ops) / m.time() * 1e-9, m.limits.peak * 1e-9,
      100 * Median(m.fractions));
  std::fflush(stdout);
}

// "layers.3.qkv" counts as "layers.*.qkv".
std::string KindOf(const std::string& name) {
  if (!name.starts_with("layers.")) return name;
  const size_t dot = name.find('.', 7);
  return dot == std::string::npos ? name : "layers.*" + name.substr(dot);
}

void PrintProfile(const std::string& title, const ProgramT& program,
                  const std::vector<double>& seconds,
                  const std::vector<Work>& works, const Limits& limits,
                  bool json) {
  struct Sum {
    int count = 0;
    double seconds = 0;
    Work work;
  };
  std::vector<std::string> order;
  std::map<std::string, Sum> sums;
  double total = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const std::string kind = KindOf(program.ops[i]->name);
    if (!sums.contains(kind)) order.push_back(kind);
    Sum& sum = sums[kind];
    ++sum.count;
    sum.seconds += seconds[i];
    sum.work += works[i];
    total += seconds[i];
  }
  if (!json) {
    fmt::print(
        "\n{}: {:.3f} ms in operations\n"
        "{:<26} {:>5} {:>9} {:>6} {:>10} {:>8} {:>9} {:>9}\n",
        title, total * 1e3, "operation", "count", "ms", "part", "MB", "GB/s",
        "Gop/s", "of limit");
  }
  for (const std::string& kind : order) {
    const Sum& sum = sums[kind];
    const double floor = limits.Floor(sum.work);
    const double ops = sum.work.ops + sum.work.float_ops;
    if (json) {
      const OrderedJson line = {{"phase", "profile"},
                                {"program", title},
                                {"operation", kind},
                                {"count", sum.count},
                                {"ms", sum.seconds * 1e3},
                                {"bytes", static_cast<int64_t>(sum.work.bytes)},
                                {"ops", static_cast<int64_t>(ops)},
                                {"fraction_of_limit", floor / sum.seconds}};
      fmt::print("{}\n", line.dump());
      continue;
    }
    fmt::print(
        "{:<26} {:>5} {:>9.3f} {:>5.1f}% {:>10.2f} {:>8.1f} {:>9.0f} "
        "{:>9}\n",
        kind, sum.count, sum.seconds * 1e3, 100 * sum.seconds / total,
        sum.work.bytes * 1e-6, sum.work.bytes / sum.seconds * 1e-9,
        ops / sum.seconds * 1e-9,
        floor > 0 ? fmt::format("{:.0f}%", 100 * floor / sum.seconds) : "");
  }
}

// What was asked for, or `standard`, as far as it fits under `most`.
std::vector<int> Sizes(const std::vector<int>& asked, const char* flag,
                       std::vector<int> standard, int most) {
  for (const int size : asked) {
    if (size > most) {
      throw UsageError("{}: {} is more than this directory has room for, {}",
                       flag, size, most);
    }
  }
  if (!asked.empty()) return asked;
  std::erase_if(standard, [most](int size) { return size > most; });
  if (standard.empty()) standard.push_back(most);
  return standard;
}

void RunBench(const BenchFlags& flags, const CommonFlags& common) {
  Cluster cluster(flags.rank_timeout);
  Bench bench(flags, flags.model, cluster);
  const Manifest& manifest = bench.manifest();
  const std::vector<int> lengths =
      Sizes(flags.lengths, "--lengths", {128, 512}, manifest.max_seq_len);
  const std::vector<int> depths =
      Sizes(flags.depths, "--depths", {128, 1024}, manifest.max_seq_len - 1);
  if (!flags.json) {
    fmt::print(
        "{}: {}, {} weights, {} KV cache, {}, {} threads ({}); medians "
        "of {}\n\n{:<18} {:>6} {:>10} {:>9} {:>17} {:>7} {:>7} {:>8} "
        "{:>8} {:>9}\n",
        flags.model, manifest.architecture, manifest.weights,
        manifest.kv_caches, manifest.target, bench.threads(),
        cluster.ThreadsReason(flags.threads), flags.repetitions, "program",
        "depth", "tokens/s", "ms", "least to most", "GB/s", "of", "Gop/s", "of",
        "limit");
  }
  const auto print = [&](const Measurement& m) {
    flags.json ? PrintJson(m) : PrintRow(m);
  };
  for (const int length : lengths) print(bench.Prefill(length));
  for (const int depth : depths) {
    for (const int rows : manifest.decoder_batch_sizes) {
      print(bench.Decode(rows, depth));
    }
  }
  if (!flags.profile) return;
  const Limits limits = bench.Measure();
  for (const int rows : manifest.decoder_batch_sizes) {
    PrintProfile(fmt::format("decoder_batch_{} at depth {}", rows, depths[0]),
                 bench.program(rows), bench.ProfileDecode(rows, depths[0]),
                 bench.DecodeWork(rows, depths[0]), limits, flags.json);
  }
  const int rows = std::min(manifest.prefill_chunk_size, manifest.max_seq_len);
  PrintProfile(fmt::format("prefill of {} tokens", rows),
               bench.program(manifest.prefill_chunk_size),
               bench.ProfilePrefill(rows), bench.PrefillWork(0, rows, true),
               limits, flags.json);
}

}  // namespace

void AddBenchCommand(CLI::App& app, const CommonFlags& common, int& exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand(
      "bench",
      "Measure prefill and each decoder, beside the read bandwidth and the "
      "peak of this machine, measured in turn with them.");
  command->add_option("DIR", flags->model,
                      "Compiled directory; else RBLN_MODEL, else the output of "
                      "./rbln.yaml");
  command
      ->add_option("--lengths", flags->lengths,
                   "Prompt lengths to prefill; default 128,512")
      ->delimiter(',')
      ->check(WholeNumber(1))
      ->type_name("N,N,...");
  command
      ->add_option("--depths", flags->depths,
                   "Tokens of context to decode at; default 128,1024")
      ->delimiter(',')
      ->check(WholeNumber(1))
      ->type_name("N,N,...");
  command
      ->add_option("--repetitions", flags->repetitions,
                   "Of each measurement; the median counts")
      ->check(WholeNumber(1))
      ->capture_default_str();
  command
      ->add_option("--threads", flags->threads,
                   "Default: what affinity and cgroup grant")
      ->check(WholeNumber(1))
      ->type_name("N");
  command
      ->add_option("--rank-timeout", flags->rank_timeout,
                   "Under mpirun: seconds after which a process that does not "
                   "answer ends the run")
      ->check(PositiveNumber())
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_flag("--profile", flags->profile,
                    "Also the operations of one step of each program");
  command->add_flag("--json", flags->json, "Print JSON, one object a line");
  command->callback([flags, &common, &exit_code] {
    flags->model = ModelDirectory(flags->model);
    RunBench(*flags, common);
    exit_code = 0;
  });
}

}  // namespace rbln
