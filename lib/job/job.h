// A whole job: a file of prompts in, a file of answers out.
//
// Lines stream: only those in work are held, and what is held of answers that
// wait for an earlier one is bounded. A line that cannot be run is answered
// with an error, and the rest goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "base/json.h"
#include "engine/engine.h"
#include "job/line_reader.h"
#include "job/output.h"
#include "job/progress.h"
#include "job/prompt_line.h"
#include "job/replicas.h"
#include "job/report.h"
#include "runtime/runtime.h"

namespace rbln {

inline constexpr size_t kMaxLineBytes = size_t{64} << 20;

struct JobOptions {
  Json parameters = Json::object();   // of flags: defaults for every line
  bool use_generation_config = true;  // the checkpoint's
  std::string chat_template;          // a file that overrides the model's
  uint64_t seed = 0;
  EngineOptions engine;  // eos_token_ids are filled in
  ProgressMode progress = ProgressMode::kNone;
  // Where the figures are written every ten seconds and at the end, for
  // Prometheus; empty for nowhere.
  std::string metrics_file;
  // Every `shards`-th line, from line `shard` on (counted from 0), is this
  // job's. Lines keep their index in the whole input.
  int64_t shard = 0;
  int64_t shards = 1;
  // The number of a signal that asks the job to end, or 0. Asked at each step.
  std::function<int()> interrupted = [] { return 0; };
  // Where the job ends early, cleanly: after so many seconds, or when more
  // lines than this carry an error. Negative: never.
  double max_seconds = -1;
  int64_t max_errors = -1;
};

// Of a model directory, what a job needs beside the programs.
class Job {
 public:
  // Loads tokenizer, chat template and generation_config.json of `directory`.
  // `executor` must outlive this object. Throws Error: kModel for files of the
  // directory, kUsage for options. `tokenizer`, where it is valid, is the
  // directory's: loading it takes as long as all else, and may begin before.
  Job(Executor& executor, const std::string& directory, JobOptions options,
      std::future<std::unique_ptr<const Tokenizer>> tokenizer = {});
  ~Job();

  // Answers every line that `output` does not have, together with `replicas`
  // where there are some. Does not end `output` when the job ended early.
  // Throws Error(kResource) when reading or writing fails.
  JobResult Run(LineReader& input, JobOutput& output,
                Replicas* replicas = nullptr);
  // Answers what `coordinator` hands out, until it ends.
  void Serve(Coordinator& coordinator);

  // After Run: what was done, by replicas too.
  const EngineStats& stats() const { return stats_; }
  // Everything that the answers depend on beside the input, the model and the
  // shard, by name.
  Json Parameters() const;
  // Facts for the report; `input` and `model` are the caller's to fill.
  JobFacts facts() const;

 private:
  class Loop;

  void LoadTemplates(const std::string& directory);
  void LoadDefaults(const std::string& directory);

  Executor& executor_;
  JobOptions options_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const ChatTemplate> chat_template_;
  std::unique_ptr<const ChatTemplate> tool_template_;  // where it is another
  LineContext context_;
  OrderedJson sampling_facts_ = OrderedJson::object();
  std::unique_ptr<Engine> engine_;
  EngineStats stats_;
};

}  // namespace rbln
