// rbln-tool generate: answers a file of prompts with a compiled model.
#include <fmt/core.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/units.h"
#include "cluster/job_link.h"
#include "compiler/options.h"
#include "job/job.h"
#include "job/parameters.h"
#include "rbln-tool/cluster.h"
#include "rbln-tool/commands.h"
#include "rbln-tool/outputs.h"
#include "rbln-tool/values.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"

namespace rbln {
namespace {

struct GenerateFlags {
  std::string prompts;
  std::string model;
  std::string output;
  std::string report;
  std::string chat_template;
  std::string generation_config = "auto";
  std::optional<std::string> memory_limit;
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

// "I/N": the I-th of N, counted from 1.
void ParseShard(const std::string& text, int64_t* shard, int64_t* shards) {
  constexpr int64_t kMost = 1'000'000;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, *shard);
  const auto count =
      std::from_chars(std::min(index.ptr + 1, end), end, *shards);
  if (index.ec != std::errc() || index.ptr == end || *index.ptr != '/' ||
      count.ec != std::errc() || count.ptr != end || *shard < 1 ||
      *shard > *shards || *shards > kMost) {
    throw UsageError(
        "--shard: expected I/N with I from 1 to N, such as 2/8, "
        "got '{}'",
        text);
  }
}

bool ToFile(const GenerateFlags& flags) {
  return !flags.output.empty() && flags.output != "-";
}

// Whether the prompts are there for a later run, too. Standard input and a FIFO
// can be read once.
bool CanReadAgain(const GenerateFlags& flags) {
  std::error_code ignored;
  return flags.prompts != "-" &&
         std::filesystem::is_regular_file(flags.prompts, ignored);
}

// Checksum of a whole file; empty for what can be read only once.
std::string InputChecksum(const GenerateFlags& flags) {
  if (!CanReadAgain(flags)) return "";
  const std::string& path = flags.prompts;
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
                                      const std::string& model, const Job& job,
                                      int64_t shard, int64_t shards) {
  if (!ToFile(flags)) {
    return std::make_unique<StreamOutput>(flags.order == "input");
  }
  JobKey key;
  key.input = InputChecksum(flags);
  key.model =
      HashBytes(ReadFile(model + "/" + kManifestName, ErrorKind::kModel));
  key.parameters = job.Parameters();
  if (const char* isa = std::getenv("RBLN_ISA")) {
    key.parameters["RBLN_ISA"] = isa;
  }
  key.shard = shard;
  key.shards = shards;
  return std::make_unique<FileOutput>(flags.output, key, flags.resume,
                                      /*keep_journal=*/CanReadAgain(flags));
}

// What the command line asks for and cannot have together.
void CheckFlags(const GenerateFlags& flags) {
  if (flags.resume && !ToFile(flags)) {
    throw UsageError(
        "--resume: only a run with --output FILE leaves something "
        "to resume");
  }
  if (flags.order == "completion" && ToFile(flags)) {
    throw UsageError(
        "--order completion: a file is always in the order of the "
        "input; leave out --output");
  }
}

// What is quick to find wrong comes before what is slow to load.
std::unique_ptr<LineReader> OpenFiles(const GenerateFlags& flags,
                                      const std::string& model) {
  auto input = std::make_unique<LineReader>(flags.prompts, kMaxLineBytes);
  if (flags.resume && !CanReadAgain(flags)) {
    throw UsageError(
        "--resume: {} cannot be read again; put the prompts in a "
        "file",
        flags.prompts == "-" ? "standard input" : flags.prompts);
  }
  std::vector<NamedFile> inputs = {{"the prompts", flags.prompts}};
  if (!flags.chat_template.empty()) {
    inputs.push_back({"--chat-template", flags.chat_template});
  }
  std::vector<NamedFile> outputs;
  if (ToFile(flags)) {
    if (ResolveOutput(flags.output, ErrorKind::kUsage).direct) {
      throw UsageError(
          "--output {}: is no regular file, and cannot have a journal beside "
          "it; leave out --output to stream the answers to standard output",
          flags.output);
    }
    outputs.push_back({"--output", flags.output});
    outputs.push_back({"the journal of --output", JournalPath(flags.output)});
    if (!flags.shard.empty()) {
      outputs.push_back({"the .shard of --output", PartPath(flags.output)});
    }
  } else {
    inputs.push_back({"standard output", "/dev/stdout"});
  }
  for (const auto& [name, path] :
       {NamedFile{"--report", flags.report},
        NamedFile{"--metrics-file", flags.metrics_file},
        NamedFile{"--trace", flags.engine.trace}}) {
    if (!path.empty()) outputs.push_back({name, path});
  }
  CheckOutputs(outputs, inputs, model);
  return input;
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
      manifest.prefill_chunk_size, decoders, FormatBytes(plan.weights_bytes),
      FormatBytes(plan.kv_bytes()), plan.num_blocks,
      manifest.kvcache_block_size, FormatBytes(plan.kv_block_bytes),
      blocks_per_sequence, fmt::format("{} blocks", plan.num_blocks),
      plan.blocks_reason, FormatBytes(plan.arena_bytes),
      FormatBytes(plan.total_bytes()), FormatBytes(plan.available_bytes),
      plan.available_reason);
}

void SayPlan(const std::string& model, const MemoryPlan& plan) {
  spdlog::info(
      "{}: weights {}, KV cache {} in {} blocks, working memory {}; of {} "
      "({})",
      model, FormatBytes(plan.weights_bytes), FormatBytes(plan.kv_bytes()),
      plan.num_blocks, FormatBytes(plan.arena_bytes),
      FormatBytes(plan.available_bytes), plan.available_reason);
}

ProgressMode ProgressFor(const CommonFlags& common) {
  if (common.quiet) return ProgressMode::kNone;
  return isatty(STDERR_FILENO) != 0 ? ProgressMode::kTerminal
                                    : ProgressMode::kLog;
}

constexpr const char* kKept =
    "; what was answered is kept: go on with the same command and --resume";

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
  if (flags.memory_limit) {
    flags.runtime.memory_limit =
        ParseBytes("--memory-limit", *flags.memory_limit);
  }
  flags.engine.prefix_cache_bytes =
      ParseBytes("--prefix-cache-size", flags.prefix_cache_size);
  flags.engine.prefix_caching = !flags.no_prefix_caching;
  CheckFlags(flags);
  JobOptions options;
  int64_t shard = 0;  // counted from 1; 0 of 0: all
  int64_t shards = 0;
  if (!flags.shard.empty()) {
    ParseShard(flags.shard, &shard, &shards);
    options.shard = shard - 1;
    options.shards = shards;
  }
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
    OpenFiles(flags, model);
    DryRun(flags, model);
    return 0;
  }

  Cluster cluster(flags.rank_timeout);
  std::unique_ptr<LineReader> input;
  cluster.Together([&] {
    if (cluster.leads()) input = OpenFiles(flags, model);
  });
  CatchSignals();
  // Meanwhile; of a cluster, who needs it is not known yet.
  std::future<std::unique_ptr<const Tokenizer>> tokenizer;
  if (cluster.world() == nullptr) {
    tokenizer = std::async(std::launch::async, [&model] {
      return Tokenizer::Load(model, ErrorKind::kModel);
    });
  }
  const std::unique_ptr<Executor> executor =
      cluster.Load(model, flags.runtime, [&](const MemoryPlan& plan) {
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
    job = std::make_unique<Job>(*executor, model, std::move(options),
                                std::move(tokenizer));
    if (cluster.leads()) output = OpenOutput(flags, model, *job, shard, shards);
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
  const bool resumable = ToFile(flags) && CanReadAgain(flags);
  JobResult result;
  cluster.Alone([&] {
    try {
      result = job->Run(*input, *output, replicas.get());
    } catch (const Error& error) {
      if (!resumable) throw;
      throw Error(error.kind(), std::string(error.what()) + kKept);
    }
  });

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
    spdlog::log(result.reader_gone ? spdlog::level::info : spdlog::level::err,
                "{}, after {} prompts{}", EarlyEnd(result, flags.max_errors),
                result.prompts, resumable ? kKept : "");
  }
  return result.exit_code();
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
      ->check(PositiveNumber())
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
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run,
                    "Say what would run and how much memory it takes");
  command->add_flag("--json", flags->json, "Print --dry-run as JSON");

  const char* const kLimits = "Limits";
  command
      ->add_option("--threads", flags->runtime.threads,
                   "Default: what affinity and cgroup grant")
      ->check(WholeNumber(1))
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--max-num-seqs", flags->engine.max_num_seqs,
                   "Most sequences at once; default: as compiled")
      ->check(WholeNumber(1))
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--max-model-len", flags->engine.max_model_len,
                   "Most tokens of a sequence; default: as compiled")
      ->check(WholeNumber(1))
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--max-num-batched-tokens",
                   flags->engine.max_num_batched_tokens,
                   "Most tokens of a step; default: as compiled")
      ->check(WholeNumber(1))
      ->type_name("N")
      ->group(kLimits);
  command
      ->add_option("--kvcache-num-blocks", flags->runtime.num_blocks,
                   "KV cache blocks; default: as compiled, or what fits")
      ->check(WholeNumber(1))
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
      ->check(PositiveNumber(/*zero=*/true))
      ->type_name("SECONDS")
      ->group(kLimits);
  command
      ->add_option("--max-errors", flags->max_errors,
                   "End early when more lines than this carry an error")
      ->check(WholeNumber(0))
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
