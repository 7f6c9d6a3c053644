#include "job/job.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/console.h"
#include "base/file.h"
#include "base/hash.h"
#include "job/line_work.h"

namespace rbln {
namespace {

constexpr int kDefaultMaxTokens = 256;
constexpr int kDefaultCompletionTokens = 16;

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r\f\v") == std::string::npos;
}

// Appends the ids of an eos_token_id, which is one or a list, without doubles.
void AddEos(const Json& config, std::vector<TokenId>& ids) {
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return;
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    if (!id.is_number_integer()) continue;
    const TokenId token = id.get<TokenId>();
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) {
      ids.push_back(token);
    }
  }
}

Json ReadOptional(const std::string& path) {
  return FileExists(path) ? ReadJsonFile(path, ErrorKind::kModel)
                          : Json::object();
}

}  // namespace

Job::Job(Executor& executor, const std::string& directory, JobOptions options,
         std::future<std::unique_ptr<const Tokenizer>> tokenizer)
    : executor_(executor), options_(std::move(options)) {
  tokenizer_ = tokenizer.valid()
                   ? tokenizer.get()
                   : Tokenizer::Load(directory, ErrorKind::kModel);
  LoadTemplates(directory);
  LoadDefaults(directory);
  engine_ = std::make_unique<Engine>(executor_, *tokenizer_, options_.engine);
  context_.tokenizer = tokenizer_.get();
  context_.max_model_len = engine_->limits().max_model_len;
  context_.seed = options_.seed;
}

Job::~Job() = default;

void Job::LoadTemplates(const std::string& directory) {
  if (!options_.chat_template.empty()) {
    chat_template_ =
        ChatTemplate::Parse(ReadFile(options_.chat_template, ErrorKind::kUsage),
                            options_.chat_template, ErrorKind::kUsage);
  } else {
    chat_template_ = ChatTemplate::Load(directory, false, ErrorKind::kModel);
    tool_template_ = ChatTemplate::Load(directory, true, ErrorKind::kModel);
  }
  context_.chat_template = chat_template_.get();
  context_.tool_template =
      tool_template_ != nullptr ? tool_template_.get() : chat_template_.get();
}

void Job::LoadDefaults(const std::string& directory) {
  const Json generation =
      options_.use_generation_config
          ? ReadOptional(directory + "/generation_config.json")
          : Json::object();
  std::vector<TokenId>& eos = options_.engine.eos_token_ids;
  if (eos.empty()) {
    if (tokenizer_->eos()) eos.push_back(*tokenizer_->eos());
    AddEos(generation, eos);
    if (eos.empty()) AddEos(ReadOptional(directory + "/config.json"), eos);
  }

  RequestParams plain;
  plain.sampling.temperature = 0;
  plain.sampling.max_tokens = kDefaultMaxTokens;
  ParameterDefaults defaults(plain);
  defaults.Apply(GenerationConfigValues(generation), "generation_config.json");
  defaults.Apply(executor_.manifest().sampling, "rbln.yaml");
  defaults.Apply(options_.parameters, "flag");
  context_.plain_defaults = defaults.params();

  RequestParams chat;
  chat.sampling.max_tokens.reset();
  ParameterDefaults chat_defaults(chat);
  chat_defaults.Apply(options_.parameters, "flag");
  context_.chat_defaults = chat_defaults.params();
  RequestParams completions;
  completions.sampling.max_tokens = kDefaultCompletionTokens;
  ParameterDefaults completions_defaults(completions);
  completions_defaults.Apply(options_.parameters, "flag");
  context_.completions_defaults = completions_defaults.params();

  // A value that no line could run with is better said once, and now.
  for (const RequestParams* params :
       {&context_.plain_defaults, &context_.chat_defaults,
        &context_.completions_defaults}) {
    SamplingParams copy = params->sampling;
    // Lines may still lower these two.
    copy.n = std::min(copy.n, 1);
    copy.min_tokens = std::min(copy.min_tokens, 0);
    Normalize(copy, executor_.manifest().vocab_size);
  }

  std::map<std::string, ParameterDefaults::Source> sources = {
      {"temperature", {0, "default"}},
      {"max_tokens", {kDefaultMaxTokens, "default"}}};
  for (const auto& [name, source] : defaults.sources()) sources[name] = source;
  for (const ParameterInfo& parameter : rbln::Parameters()) {
    const auto source = sources.find(parameter.name);
    if (source == sources.end()) continue;
    sampling_facts_[parameter.name] = {{"value", source->second.value},
                                       {"from", source->second.origin}};
  }
}

JobFacts Job::facts() const {
  const Manifest& manifest = executor_.manifest();
  JobFacts facts;
  facts.threads = executor_.threads();
  facts.ranks = manifest.tensor_parallel_size;
  facts.decoder_batch_sizes = manifest.decoder_batch_sizes;
  facts.prefill_chunk_size = manifest.prefill_chunk_size;
  facts.num_blocks = executor_.num_blocks();
  facts.block_size = manifest.kvcache_block_size;
  facts.sampling = sampling_facts_;
  return facts;
}

Json Job::Parameters() const {
  Json all = options_.parameters;
  all["generation_config"] = options_.use_generation_config ? "auto" : "none";
  if (!options_.chat_template.empty()) {
    all["chat_template"] =
        HashBytes(ReadFile(options_.chat_template, ErrorKind::kUsage));
  }
  all["seed"] = options_.seed;
  all["max_model_len"] = engine_->limits().max_model_len;
  return all;
}

// One run.
class Job::Loop {
 public:
  Loop(Job& job, LineReader& input, JobOutput& output, Replicas* replicas)
      : job_(job),
        engine_(*job.engine_),
        input_(input),
        output_(output),
        replicas_(replicas),
        work_(engine_, job.context_, input.max_line_bytes()),
        progress_(job.options_.progress) {}

  JobResult Run() {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [start] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                           start)
          .count();
    };
    const JobOptions& options = job_.options_;
    result_.prompts = result_.resumed = output_.num_resumed();
    result_.errors = output_.num_resumed_errors();
    while (true) {
      result_.signal = options.interrupted();
      result_.out_of_time =
          options.max_seconds >= 0 && seconds() >= options.max_seconds;
      result_.too_many_errors =
          options.max_errors >= 0 && result_.errors > options.max_errors;
      if (result_.ended_early()) break;
      ReadAhead();
      std::vector<Answer> answers;
      const bool worked = work_.Step(answers);
      if (replicas_ != nullptr) replicas_->Take(answers);
      for (Answer& answer : answers) Put(std::move(answer));
      if (!output_.Flush()) {
        result_.reader_gone = true;
        break;
      }
      ShowProgress();
      if (worked) continue;
      if (at_end_ && Idle()) break;
      // Others work, or the input has a pause.
      if (replicas_ != nullptr) std::this_thread::sleep_for(kPause);
    }
    ClearStatus();
    job_.stats_ = engine_.stats();
    if (replicas_ != nullptr) replicas_->Finish(&job_.stats_);
    WriteMetrics(job_.stats_, /*ended=*/true);
    if (!result_.ended_early()) {
      // The lines below next_index_ that are ours.
      output_.Finish(OutputIndex(next_index_ - job_.options_.shard +
                                 job_.options_.shards - 1));
    }
    result_.seconds = seconds();
    return result_;
  }

 private:
  static constexpr std::chrono::microseconds kPause{300};
  // For a line, where there is nothing else to do but to look at the time.
  static constexpr std::chrono::milliseconds kIdleWait{100};
  static constexpr int kHere = -1;
  static constexpr int kNowhere = -2;

  // Of the lines that are this job's, which one a line of the input is.
  int64_t OutputIndex(int64_t index) const {
    return index / job_.options_.shards;
  }
  // Whether a line is to be answered, and was not before.
  bool Mine(int64_t index) const {
    return index % job_.options_.shards == job_.options_.shard &&
           !output_.Has(OutputIndex(index));
  }

  bool Idle() const {
    if (work_.size() > 0) return false;
    for (int i = 0; replicas_ != nullptr && i < replicas_->count(); ++i) {
      if (replicas_->in_work(i) > 0) return false;
    }
    return true;
  }

  // Who takes the next line: a replica, or kHere or kNowhere.
  int Taker() const {
    const int batch = engine_.limits().max_num_seqs;
    if (replicas_ == nullptr) {
      // Enough for the engine to choose from.
      return engine_.num_waiting() < 2 * batch + 16 ? kHere : kNowhere;
    }
    // Who has least; little more than runs at once, so that all end together.
    int taker = kHere;
    int64_t least = work_.size();
    for (int i = 0; i < replicas_->count(); ++i) {
      if (replicas_->in_work(i) < least) {
        least = replicas_->in_work(i);
        taker = i;
      }
    }
    return least < batch + batch / 2 + 2 ? taker : kNowhere;
  }

  // Keeps enough lines in work.
  void ReadAhead() {
    while (!at_end_ && output_.MayBegin(OutputIndex(next_index_))) {
      const int taker = Taker();
      if (taker == kNowhere) return;
      InputLine line;
      const LineReader::Result result = input_.Next(
          Idle() ? kIdleWait : std::chrono::milliseconds(0), line.text);
      if (result == LineReader::Result::kNotReady) return;
      if (result == LineReader::Result::kEnd) {
        at_end_ = true;
        return;
      }
      line.too_long = result == LineReader::Result::kTooLong;
      if (!line.too_long && IsBlank(line.text)) continue;
      line.index = next_index_++;
      line.number = input_.line_number();
      if (!Mine(line.index)) continue;
      if (taker == kHere) {
        work_.Start(line);
      } else {
        replicas_->Give(taker, line);
      }
    }
  }

  void Put(Answer answer) {
    ++result_.prompts;
    if (answer.error) ++result_.errors;
    answer.index = OutputIndex(answer.index);
    output_.Put(std::move(answer));
  }

  void WriteMetrics(const EngineStats& stats, bool ended) {
    if (job_.options_.metrics_file.empty()) return;
    const auto now = std::chrono::steady_clock::now();
    if (!ended && now < next_metrics_) return;
    next_metrics_ = now + std::chrono::seconds(10);
    WriteFileAtomically(
        job_.options_.metrics_file,
        MetricsText(
            result_, stats,
            // What an early end left in the batch runs no more.
            ended ? JobGauges{.ended = true}
                  : JobGauges{engine_.num_running(), engine_.num_waiting()}));
  }

  void ShowProgress() {
    const EngineStats& stats = engine_.stats();
    WriteMetrics(stats, /*ended=*/false);
    ProgressState state;
    state.prompts = result_.prompts;
    state.tokens_in = stats.prefill_tokens;
    // What was generated so far, of unfinished answers too.
    state.tokens_out = stats.first_token.count() + stats.per_token.count();
    state.running = engine_.num_running();
    state.waiting = engine_.num_waiting();
    if (input_.total_bytes() > 0 && next_index_ > 0) {
      // Lines read but not answered count as not read.
      state.fraction = static_cast<double>(input_.bytes_read()) /
                       static_cast<double>(input_.total_bytes()) *
                       static_cast<double>(result_.prompts) /
                       static_cast<double>(next_index_);
    }
    progress_.Update(state);
  }

  Job& job_;
  Engine& engine_;
  LineReader& input_;
  JobOutput& output_;
  Replicas* const replicas_;
  LineWork work_;
  Progress progress_;
  JobResult result_;
  std::chrono::steady_clock::time_point next_metrics_;
  bool at_end_ = false;
  int64_t next_index_ = 0;
};

JobResult Job::Run(LineReader& input, JobOutput& output, Replicas* replicas) {
  return Loop(*this, input, output, replicas).Run();
}

void Job::Serve(Coordinator& coordinator) {
  LineWork work(*engine_, context_, kMaxLineBytes);
  while (!coordinator.ended()) {
    while (const std::optional<InputLine> line =
               coordinator.Next(/*wait=*/work.size() == 0)) {
      work.Start(*line);
    }
    std::vector<Answer> answers;
    work.Step(answers);
    for (const Answer& answer : answers) coordinator.Put(answer);
  }
  coordinator.Finish(engine_->stats());
}

}  // namespace rbln
