// What a job did, for people and for programs.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "engine/engine.h"
#include "job/parameters.h"

namespace rbln {

struct JobResult {
  int64_t prompts = 0;       // lines answered, those with an error among them
  int64_t errors = 0;        // lines answered with an error
  int64_t resumed = 0;       // of the prompts: answered by an earlier run
  int signal = 0;            // that ended the job early; 0: none
  bool out_of_time = false;  // --max-time ended it early
  bool too_many_errors = false;  // --max-errors did
  bool reader_gone = false;  // standard output was closed from the other side
  double seconds = 0;

  bool ended_early() const {
    return signal != 0 || out_of_time || too_many_errors || reader_gone;
  }
  // 0, 1, 4 where time ran out, or 128 + signal. A reader that went away has
  // what it wanted: that alone is 0.
  int exit_code() const;
};

// What went with the job: for the report.
struct JobFacts {
  std::string model;
  std::string input;
  int threads = 1;   // of one process
  int replicas = 1;  // of the model, each in processes of its own
  int ranks = 1;     // of tensor parallelism
  std::vector<int> decoder_batch_sizes;
  int prefill_chunk_size = 0;
  int num_blocks = 0;
  int block_size = 0;
  // Parameters of the first two line forms, with where they came from.
  OrderedJson sampling = OrderedJson::object();
};

OrderedJson ReportJson(const JobResult& result, const EngineStats& stats,
                       const JobFacts& facts);
// The same figures while the job runs, for node_exporter's textfile collector.
// Format: https://prometheus.io/docs/instrumenting/exposition_formats
struct JobGauges {
  int running = 0;
  int waiting = 0;
  bool ended = false;
};
std::string MetricsText(const JobResult& result, const EngineStats& stats,
                        const JobGauges& gauges);
// A few lines for a person, each with its end of line.
std::string ReportText(const JobResult& result, const EngineStats& stats,
                       const JobFacts& facts);

}  // namespace rbln
