#include "job/job.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "job/answer.h"

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

Job::Job(Executor& executor, const std::string& directory, JobOptions options)
    : executor_(executor), options_(std::move(options)) {
  tokenizer_ = Tokenizer::Load(directory, ErrorKind::kModel);
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
  for (const ParameterInfo& parameter : Parameters()) {
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
  facts.decoder_batch_sizes = manifest.decoder_batch_sizes;
  facts.prefill_chunk_size = manifest.prefill_chunk_size;
  facts.num_blocks = executor_.num_blocks();
  facts.block_size = manifest.kvcache_block_size;
  facts.sampling = sampling_facts_;
  return facts;
}

std::string Job::ParametersText() const {
  const Json all = {{"flags", options_.parameters},
                    {"use_generation_config", options_.use_generation_config},
                    {"chat_template", options_.chat_template.empty()
                                          ? ""
                                          : HashBytes(ReadFile(
                                                options_.chat_template,
                                                ErrorKind::kUsage))},
                    {"seed", options_.seed},
                    {"shard", options_.shard},
                    {"shards", options_.shards},
                    {"max_model_len", engine_->limits().max_model_len}};
  return all.dump();
}

// One run.
class Job::Loop {
 public:
  Loop(Job& job, LineReader& input, JobOutput& output)
      : job_(job),
        engine_(*job.engine_),
        input_(input),
        output_(output),
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
      std::vector<Finished> finished;
      const bool worked = engine_.Step(finished);
      for (Finished& one : finished) Take(std::move(one));
      if (!output_.Flush()) {
        result_.reader_gone = true;
        break;
      }
      ShowProgress();
      if (!worked && at_end_) break;
    }
    progress_.Clear();
    WriteMetrics(/*ended=*/true);
    if (!result_.ended_early() && !result_.reader_gone) {
      // The lines below next_index_ that are ours.
      output_.Finish(OutputIndex(next_index_ - job_.options_.shard +
                                 job_.options_.shards - 1));
    }
    result_.seconds = seconds();
    return result_;
  }

 private:
  // A line whose prompts are in the engine.
  struct Work {
    PromptLine line;
    std::vector<Finished> results;
    size_t missing = 0;
  };

  // Of the lines that are this job's, which one a line of the input is.
  int64_t OutputIndex(int64_t index) const {
    return index / job_.options_.shards;
  }
  // Whether a line is to be answered, and was not before.
  bool Mine(int64_t index) const {
    return index % job_.options_.shards == job_.options_.shard &&
           !output_.Has(OutputIndex(index));
  }

  // Keeps enough waiting for the engine to choose from.
  void ReadAhead() {
    const int enough = 2 * engine_.limits().max_num_seqs + 16;
    while (!at_end_ && engine_.num_waiting() < enough &&
           output_.MayBegin(OutputIndex(next_index_))) {
      const bool idle = engine_.num_running() + engine_.num_waiting() == 0;
      std::string text;
      switch (input_.Next(idle, text)) {
        case LineReader::Result::kEnd:
          at_end_ = true;
          return;
        case LineReader::Result::kNotReady:
          return;
        case LineReader::Result::kTooLong:
          if (!Mine(next_index_)) {
            ++next_index_;
            break;
          }
          Start(BadPromptLine(
              next_index_++, input_.line_number(),
              fmt::format("longer than {} bytes", input_.max_line_bytes())));
          break;
        case LineReader::Result::kLine:
          if (IsBlank(text)) break;
          if (!Mine(next_index_)) {
            ++next_index_;
            break;
          }
          Start(ParsePromptLine(text, next_index_, input_.line_number(),
                                job_.context_));
          ++next_index_;
          break;
      }
      // Nobody waits for an answer longer than for the next step.
      if (idle && !output_.Flush()) return;
    }
  }

  void Start(PromptLine line) {
    std::vector<Request> requests;
    if (!line.error) {
      try {
        for (const std::vector<TokenId>& prompt : line.prompts) {
          Request request;
          request.prompt = prompt;
          request.params = line.params.sampling;
          // Prompts of one line differ by their place in it.
          request.seed = line.seed + requests.size();
          engine_.Check(request);
          requests.push_back(std::move(request));
        }
      } catch (const Error& error) {
        line.error = fmt::format("line {}: {}", line.number, error.what());
      }
    }
    if (line.error) return Write(line, {});
    Work work;
    work.missing = requests.size();
    work.results.resize(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].id = next_request_++;
      requests_[requests[i].id] = {line.index, i};
      engine_.Add(std::move(requests[i]));
    }
    // The engine has them now.
    line.prompts.clear();
    const int64_t index = line.index;
    work.line = std::move(line);
    work_.emplace(index, std::move(work));
  }

  void Take(Finished finished) {
    const auto request = requests_.find(finished.id);
    const auto [index, place] = request->second;
    requests_.erase(request);
    const auto at = work_.find(index);
    Work& work = at->second;
    work.results[place] = std::move(finished);
    if (--work.missing > 0) return;
    Write(work.line, work.results);
    work_.erase(at);
  }

  void Write(const PromptLine& line, const std::vector<Finished>& results) {
    ++result_.prompts;
    if (line.error) ++result_.errors;
    output_.Put({OutputIndex(line.index), line.error.has_value(),
                 FormatAnswer(line, results, *job_.tokenizer_)});
  }

  void WriteMetrics(bool ended) {
    if (job_.options_.metrics_file.empty()) return;
    const auto now = std::chrono::steady_clock::now();
    if (!ended && now < next_metrics_) return;
    next_metrics_ = now + std::chrono::seconds(10);
    WriteFileAtomically(
        job_.options_.metrics_file,
        MetricsText(result_, engine_.stats(),
                    {engine_.num_running(), engine_.num_waiting(), ended}));
  }

  void ShowProgress() {
    WriteMetrics(/*ended=*/false);
    ProgressState state;
    state.prompts = result_.prompts;
    // What was generated so far, of unfinished answers too.
    const EngineStats& stats = engine_.stats();
    state.tokens = stats.first_token.count() + stats.per_token.count();
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
  Progress progress_;
  JobResult result_;
  std::chrono::steady_clock::time_point next_metrics_;
  bool at_end_ = false;
  int64_t next_index_ = 0;
  int64_t next_request_ = 0;
  std::unordered_map<int64_t, Work> work_;
  // Request to line and place in it.
  std::unordered_map<int64_t, std::pair<int64_t, size_t>> requests_;
};

JobResult Job::Run(LineReader& input, JobOutput& output) {
  return Loop(*this, input, output).Run();
}

}  // namespace rbln
