// rbln-tool generate: answers a file of prompts with a compiled model.
#include <fmt/core.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "base/hash.h"
#include "compiler/options.h"
#include "job/job.h"
#include "job/parameters.h"
#include "cluster/job_link.h"
#include "rbln-tool/cluster.h"
#include "rbln-tool/commands.h"
#include "runtime/runtime.h"

namespace rbln {
namespace {

struct GenerateFlags {
  std::string prompts;
  std::string model;
  std::string output;
  std::string report;
  std::string chat_template;
  std::string generation_config = "auto";
  std::string memory_limit;
  std::string metrics_file;
  double rank_timeout = 60;
  std::string order = "input";
  std::string shard;
  double max_time = -1;
  int64_t max_errors = -1;
  bool resume = false;
  std::string prefix_cache_size = "8G";
  uint64_t seed = 0;
  bool no_prefix_caching = false;
  bool dry_run = false;
  bool json = false;
  EngineOptions engine;
  RuntimeOptions runtime;
  // By parameter: the texts of its flag.
  std::map<std::string, std::vector<std::string>> parameters;
  std::map<std::string, bool> switches;
};

std::atomic<int> last_signal{0};

// The first one lets the step end; the second one ends the process.
void OnSignal(int number) {
  if (last_signal.exchange(number) != 0) _exit(128 + number);
}

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  // No SA_RESTART: a read that waits for a pipe is to end.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

uint64_t ParseBytes(const char* flag, const std::string& text) {
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const std::string unit = text.substr(end);
  const std::map<std::string, double> kUnits = {
      {"", 1},          {"B", 1},           {"K", 1024.0}, {"KiB", 1024.0},
      {"M", 1048576.0}, {"MiB", 1048576.0}, {"G", 0x1p30}, {"GiB", 0x1p30},
      {"T", 0x1p40},    {"TiB", 0x1p40},    {"KB", 1e3},   {"MB", 1e6},
      {"GB", 1e9},      {"TB", 1e12}};
  const auto found = kUnits.find(unit);
  if (end == 0 || found == kUnits.end() || !(number > 0) ||
      number * found->second > 1e18) {
    throw UsageError("{}: a size such as 8G is wanted, got '{}'", flag, text);
  }
  return static_cast<uint64_t>(number * found->second);
}

// "I/N": the I-th of N, counted from 1.
void ParseShard(const std::string& text, JobOptions* options) {
  int64_t index = 0;
  int64_t count = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%" SCNd64 "/%" SCNd64 "%c", &index, &count,
                  &rest) != 2 ||
      index < 1 || index > count || count > 1'000'000) {
    throw UsageError("--shard: expected I/N with I from 1 to N, such as 2/8, "
                     "got '{}'",
                     text);
  }
  options->shard = index - 1;
  options->shards = count;
}

// Checksum of a whole file; empty for standard input.
std::string InputChecksum(const std::string& path) {
  if (path == "-") return "";
  const RandomAccessFile file(path, ErrorKind::kUsage);
  std::vector<std::byte> buffer(size_t{4} << 20);
  Hasher hasher;
  for (uint64_t at = 0; at < file.size(); at += buffer.size()) {
    const std::span<std::byte> piece = std::span(buffer).first(
        std::min<uint64_t>(buffer.size(), file.size() - at));
    file.Read(at, piece);
    hasher.Update(piece);
  }
  return hasher.Digest();
}

// Where the answers go.
std::unique_ptr<JobOutput> OpenOutput(const GenerateFlags& flags,
                                      const std::string& model,
                                      const Job& job) {
  if (flags.output.empty() || flags.output == "-") {
    return std::make_unique<StreamOutput>(flags.order == "input");
  }
  const char* isa = std::getenv("RBLN_ISA");
  return std::make_unique<FileOutput>(
      flags.output,
      JournalKey{InputChecksum(flags.prompts),
                 job.ParametersText() + (isa != nullptr ? isa : ""),
                 HashBytes(ReadFile(model + "/" + kManifestName,
                                    ErrorKind::kModel))},
      flags.resume, /*keep_journal=*/flags.prompts != "-");
}

// What the command line asks for and cannot have together.
void CheckFlags(const GenerateFlags& flags) {
  const bool to_file = !flags.output.empty() && flags.output != "-";
  if (flags.resume && !to_file) {
    throw UsageError("--resume: only a run with --output FILE leaves something "
                     "to resume");
  }
  if (flags.resume && flags.prompts == "-") {
    throw UsageError("--resume: standard input cannot be read again; put the "
                     "prompts in a file");
  }
  if (flags.order == "completion" && to_file) {
    throw UsageError("--order completion: a file is always in the order of the "
                     "input; leave out --output");
  }
}

Json FlagParameters(const GenerateFlags& flags) {
  Json values = Json::object();
  for (const ParameterInfo& parameter : Parameters()) {
    if (const auto on = flags.switches.find(parameter.name);
        on != flags.switches.end() && on->second) {
      values[parameter.name] = true;
    }
    const auto texts = flags.parameters.find(parameter.name);
    if (texts != flags.parameters.end() && !texts->second.empty()) {
      values[parameter.name] = FlagValue(parameter, texts->second);
    }
  }
  return values;
}

std::string Size(uint64_t bytes) {
  const double number = static_cast<double>(bytes);
  if (bytes < uint64_t{10} << 10) return fmt::format("{} B", bytes);
  if (bytes < uint64_t{10} << 20)
    return fmt::format("{:.1f} KiB", number / 1024);
  if (bytes < uint64_t{10} << 30) {
    return fmt::format("{:.1f} MiB", number / 0x1p20);
  }
  return fmt::format("{:.1f} GiB", number / 0x1p30);
}

// Says what would run, and what it takes.
void DryRun(const GenerateFlags& flags, const std::string& model) {
  const Manifest manifest = Manifest::Read(model);
  const MemoryPlan plan = PlanMemory(model, flags.runtime);
  const EngineLimits limits = ResolveLimits(manifest, flags.engine);
  const int blocks_per_sequence =
      (limits.max_model_len + manifest.kvcache_block_size - 1) /
      manifest.kvcache_block_size;
  if (flags.json) {
    const OrderedJson facts = {
        {"model", model},
        {"input", flags.prompts},
        {"max_num_seqs", limits.max_num_seqs},
        {"max_model_len", limits.max_model_len},
        {"decoder_batch_sizes", manifest.decoder_batch_sizes},
        {"prefill_chunk_size", manifest.prefill_chunk_size},
        {"weights_bytes", plan.weights_bytes},
        {"kv_block_bytes", plan.kv_block_bytes},
        {"kv_blocks", plan.num_blocks},
        {"kv_blocks_reason", plan.blocks_reason},
        {"kv_blocks_per_sequence", blocks_per_sequence},
        {"kv_bytes", plan.kv_bytes()},
        {"arena_bytes", plan.arena_bytes},
        {"total_bytes", plan.total_bytes()},
        {"available_bytes", plan.available_bytes},
        {"available_reason", plan.available_reason}};
    fmt::print("{}\n", facts.dump());
    return;
  }
  std::string decoders;
  for (const int rows : manifest.decoder_batch_sizes) {
    decoders += fmt::format("{}{}", decoders.empty() ? "" : ", ", rows);
  }
  fmt::print(
      "model       {} ({}, {} weights, {})\n"
      "prompts     {}\n"
      "sequences   {} at once, of at most {} tokens\n"
      "programs    prefill of {} rows; decoders of {}\n"
      "weights     {:>12}  mapped, shared between processes\n"
      "KV cache    {:>12}  {} blocks of {} tokens, {} each; a sequence takes "
      "up to {}\n"
      "            {:>12}  {}\n"
      "arena       {:>12}\n"
      "total       {:>12}\n"
      "available   {:>12}  {}\n",
      model, manifest.architecture, manifest.weights, manifest.target,
      flags.prompts, limits.max_num_seqs, limits.max_model_len,
      manifest.prefill_chunk_size, decoders, Size(plan.weights_bytes),
      Size(plan.kv_bytes()), plan.num_blocks, manifest.kvcache_block_size,
      Size(plan.kv_block_bytes), blocks_per_sequence,
      fmt::format("{} blocks", plan.num_blocks), plan.blocks_reason,
      Size(plan.arena_bytes),
      Size(plan.total_bytes()), Size(plan.available_bytes),
      plan.available_reason);
}

void SayPlan(const std::string& model, const MemoryPlan& plan) {
  spdlog::info(
      "{}: weights {}, KV cache {} in {} blocks, working memory {}; of {} "
      "({})",
      model, Size(plan.weights_bytes), Size(plan.kv_bytes()), plan.num_blocks,
      Size(plan.arena_bytes), Size(plan.available_bytes),
      plan.available_reason);
}

ProgressMode ProgressFor(const CommonFlags& common) {
  if (common.quiet) return ProgressMode::kNone;
  return isatty(STDERR_FILENO) != 0 ? ProgressMode::kTerminal
                                    : ProgressMode::kLog;
}

// Why a job did not answer everything.
std::string EarlyEnd(const JobResult& result, int64_t max_errors) {
  if (result.signal != 0) return "interrupted";
  if (result.out_of_time) return "--max-time is over";
  if (result.too_many_errors) {
    return fmt::format("{} lines with an error, more than --max-errors {}",
                       result.errors, max_errors);
  }
  return "ended early: the reader of standard output went away";
}

int Generate(GenerateFlags flags, const CommonFlags& common) {
  if (!flags.memory_limit.empty()) {
    flags.runtime.memory_limit =
        ParseBytes("--memory-limit", flags.memory_limit);
  }
  flags.engine.prefix_cache_bytes =
      ParseBytes("--prefix-cache-size", flags.prefix_cache_size);
  flags.engine.prefix_caching = !flags.no_prefix_caching;
  CheckFlags(flags);
  JobOptions options;
  if (!flags.shard.empty()) ParseShard(flags.shard, &options);
  options.metrics_file = flags.metrics_file;
  options.max_seconds = flags.max_time;
  options.max_errors = flags.max_errors;
  options.parameters = FlagParameters(flags);
  options.use_generation_config = flags.generation_config == "auto";
  options.chat_template = flags.chat_template;
  options.seed = flags.seed;
  options.engine = flags.engine;
  options.progress = ProgressFor(common);
  options.interrupted = [] { return last_signal.load(); };
  const std::string model = ModelDirectory(flags.model);
  if (flags.dry_run) {
    // What is said once is enough.
    if (World::LaunchedRank() > 0) return 0;
    const LineReader input(flags.prompts, kMaxLineBytes);
    DryRun(flags, model);
    return 0;
  }

  Cluster cluster(flags.rank_timeout);
  // What is quick to find wrong comes before what is slow to load.
  std::unique_ptr<LineReader> input;
  cluster.Together([&] {
    if (!cluster.leads()) return;
    input = std::make_unique<LineReader>(flags.prompts, kMaxLineBytes);
  });
  CatchSignals();
  const std::unique_ptr<Executor> executor = cluster.Load(
      model, flags.runtime, [&](const MemoryPlan& plan) {
        if (cluster.leads()) SayPlan(model, plan);
      });
  if (cluster.leads()) {
    spdlog::info("threads: {} ({})", executor->threads(),
                 cluster.ThreadsReason(flags.runtime.threads));
  }
  if (!cluster.leads_replica()) {
    cluster.Alone([&] { executor->Follow(); });
    return 0;
  }
  if (!cluster.leads()) {
    options.progress = ProgressMode::kNone;
    options.engine.trace.clear();
  }
  std::unique_ptr<Job> job;
  std::unique_ptr<JobOutput> output;
  // From here on, others wait for no more than what they are told to do.
  cluster.Alone([&] {
    job = std::make_unique<Job>(*executor, model, std::move(options));
    if (cluster.leads()) output = OpenOutput(flags, model, *job);
  });
  if (!cluster.leads()) {
    RemoteCoordinator coordinator(*cluster.world());
    cluster.Alone([&] { job->Serve(coordinator); });
    return 0;
  }
  std::unique_ptr<Replicas> replicas;
  if (cluster.replicas() > 1) {
    replicas =
        std::make_unique<RemoteReplicas>(*cluster.world(), cluster.ranks());
  }
  JobResult result;
  cluster.Alone([&] { result = job->Run(*input, *output, replicas.get()); });

  JobFacts facts = job->facts();
  facts.model = model;
  facts.input = flags.prompts;
  facts.replicas = cluster.replicas();
  const EngineStats& stats = job->stats();
  if (!flags.report.empty()) {
    WriteFileAtomically(flags.report,
                        ReportJson(result, stats, facts).dump(2) + "\n");
  }
  if (!common.quiet) {
    Say(ReportText(result, stats, facts));
  }
  if (result.ended_early()) {
    const bool resumable = !flags.output.empty() && flags.output != "-" &&
                           flags.prompts != "-";
    spdlog::log(
        result.reader_gone ? spdlog::level::info : spdlog::level::err,
        "{}, after {} prompts{}", EarlyEnd(result, flags.max_errors),
        result.prompts,
        resumable ? "; they are kept: go on with the same command and --resume"
                  : "");
  }
  return result.exit_code();
}

std::string FlagName(const std::string& parameter) {
  std::string flag = "--" + parameter;
  for (char& c : flag) {
    if (c == '_') c = '-';
  }
  return flag;
}

void AddParameterFlags(CLI::App& command, GenerateFlags& flags) {
  for (const ParameterInfo& parameter : Parameters()) {
    if (std::string(parameter.name) == "seed") continue;
    const std::string flag = FlagName(parameter.name);
    CLI::Option* option = nullptr;
    switch (parameter.kind) {
      case ParameterInfo::Kind::kBoolean:
        if (std::string(parameter.name) == "skip_special_tokens") {
          // On unless said otherwise: the flag takes a value.
          option = command.add_option(flag, flags.parameters[parameter.name],
                                      parameter.help);
          option->type_name("BOOL")->expected(1);
        } else {
          option = command.add_flag(flag, flags.switches[parameter.name],
                                    parameter.help);
        }
        break;
      case ParameterInfo::Kind::kStrings:
      case ParameterInfo::Kind::kIntegers:
        option = command.add_option(
            flag, flags.parameters[parameter.name],
            std::string(parameter.help) + " (may be repeated)");
        option->type_name(parameter.kind == ParameterInfo::Kind::kStrings
                              ? "TEXT"
                              : "ID,...");
        option->expected(1)->multi_option_policy(
            CLI::MultiOptionPolicy::TakeAll);
        break;
      default:
        option = command.add_option(flag, flags.parameters[parameter.name],
                                    parameter.help);
        option->type_name(parameter.kind == ParameterInfo::Kind::kInteger ? "N"
                          : parameter.kind == ParameterInfo::Kind::kNumber
                              ? "X"
                              : "JSON");
        option->expected(1);
        break;
    }
    option->group("Defaults for lines that say nothing");
  }
}

}  // namespace

std::string ModelDirectory(const std::string& named) {
  if (!named.empty()) return named;
  if (const char* from_environment = std::getenv("RBLN_MODEL");
      from_environment != nullptr && *from_environment != '\0') {
    return from_environment;
  }
  constexpr char kConfig[] = "rbln.yaml";
  if (FileExists(kConfig)) {
    const CompileConfig config = CompileConfig::FromFile(kConfig);
    if (const ConfigValue* output = config.Find("output")) {
      return output->text;
    }
    throw UsageError(
        "no model: rbln.yaml names no output; name a compiled directory with "
        "--model DIR");
  }
  throw UsageError(
      "no model: name a compiled directory with --model DIR or RBLN_MODEL, or "
      "run where there is an rbln.yaml");
}

void AddGenerateCommand(CLI::App& app, const CommonFlags& common,
                        int& exit_code) {
  CLI::App* const command = app.add_subcommand(
      "generate", "Answer a file of prompts, one JSON object a line");
  const auto flags = std::make_shared<GenerateFlags>();
  command
      ->add_option("PROMPTS", flags->prompts,
                   "JSONL file of prompts; '-' is standard input")
      ->required();
  command
      ->add_option("-m,--model", flags->model,
                   "Compiled directory; else RBLN_MODEL, else the output of "
                   "./rbln.yaml")
      ->type_name("DIR");
  command
      ->add_option("-o,--output", flags->output,
                   "File for the answers; default: standard output")
      ->type_name("FILE");
  command
      ->add_option("--order", flags->order,
                   "Of the answers on standard output: input, or completion")
      ->check(CLI::IsMember({"input", "completion"}))
      ->capture_default_str();
  command->add_flag("--resume", flags->resume,
                    "Go on with what an earlier run of the same command left; "
                    "begins anew where it left nothing");
  command
      ->add_option("--shard", flags->shard,
                   "Answer the I-th of N parts of the prompts; see merge")
      ->type_name("I/N");
  command
      ->add_option("--report", flags->report,
                   "Write the figures of the run there, as JSON")
      ->type_name("FILE");
  command
      ->add_option("--trace", flags->engine.trace,
                   "Write what ran when there, for Perfetto or "
                   "chrome://tracing")
      ->type_name("FILE");
  command
      ->add_option("--rank-timeout", flags->rank_timeout,
                   "Under mpirun: seconds after which a process that does not "
                   "answer ends the job")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS")
      ->capture_default_str();
  command
      ->add_option("--metrics-file", flags->metrics_file,
                   "Keep the figures of the run there, in the text form of "
                   "Prometheus")
      ->type_name("FILE");
  command
      ->add_option("--chat-template", flags->chat_template,
                   "Jinja template to use instead of the model's")
      ->type_name("FILE");
  command
      ->add_option("--generation-config", flags->generation_config,
                   "auto, or none: ignore the model's "
                   "generation_config.json")
      ->check(CLI::IsMember({"auto", "none"}))
      ->capture_default_str();
  command
      ->add_option("--seed", flags->seed,
                   "Of the random numbers; the same seed gives the same "
                   "bytes")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run,
                    "Say what would run and how much memory it takes");
  command->add_flag("--json", flags->json, "Print --dry-run as JSON");

  const char* const kLimits = "Limits";
  command
      ->add_option("--threads", flags->runtime.threads,
                   "Default: what affinity and cgroup grant")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--max-num-seqs", flags->engine.max_num_seqs,
                   "Most sequences at once; default: as compiled")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--max-model-len", flags->engine.max_model_len,
                   "Most tokens of a sequence; default: as compiled")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--max-num-batched-tokens",
                   flags->engine.max_num_batched_tokens,
                   "Most tokens of a step; default: as compiled")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--kvcache-num-blocks", flags->runtime.num_blocks,
                   "KV cache blocks; default: as compiled, or what fits")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--memory-limit", flags->memory_limit,
                   "Memory to stay under, such as 8G")
      ->type_name("SIZE")
      ->group(kLimits);
  CLI::Option* const no_prefix_caching =
      command
          ->add_flag("--no-prefix-caching", flags->no_prefix_caching,
                     "Compute every prompt from its start")
          ->group(kLimits);
  CLI::Option* const prefix_cache =
      command
          ->add_option("--prefix-cache", flags->engine.prefix_cache,
                       "Keep the KV cache blocks of prompts there between "
                       "runs")
          ->type_name("DIR")
          ->excludes(no_prefix_caching)
          ->group(kLimits);
  command
      ->add_option("--prefix-cache-size", flags->prefix_cache_size,
                   "The most that --prefix-cache keeps")
      ->type_name("SIZE")
      ->needs(prefix_cache)
      ->capture_default_str()
      ->group(kLimits);
  command
      ->add_option("--max-time", flags->max_time,
                   "End early, cleanly, after so many seconds")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS")
      ->group(kLimits);
  command
      ->add_option("--max-errors", flags->max_errors,
                   "End early when more lines than this carry an error")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_flag("--verify", flags->runtime.verify,
                 "Check every file of the model before running")
      ->group(kLimits);
  AddParameterFlags(*command, *flags);
  command->footer(R"(Each line of PROMPTS is one JSON object, any of:
  {"prompt": "Once upon a time"}
  {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20}
  {"custom_id": "a-1", "method": "POST", "url": "/v1/chat/completions",
   "body": {"messages": [{"role": "user", "content": "Hi"}]}}
and gets one line; the third form is on one line too. Beside the parameters that
are flags here, a line may say what its answer must match: guided_json,
guided_regex, guided_choice, response_format or structured_outputs.

Exit codes: 0 every prompt was answered; 1 some lines carry an error; 2 usage,
config or input file, nothing was run; 3 the model cannot be used; 4 memory, disk
or --max-time; 130, 143 interrupted: what was answered is kept, --resume goes on.)");
  command->callback(
      [flags, &common, &exit_code] { exit_code = Generate(*flags, common); });
}

}  // namespace rbln
