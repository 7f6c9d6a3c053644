// What the engine did when, as a trace that Perfetto and chrome://tracing show:
// one lane for each program with its steps, and counters over time.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace rbln {

// Writes as the job goes, whole events at a time: the format lets the closing
// bracket be missing, so that the trace of a killed job can be read too. Not
// thread safe.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  // `programs` are the rows of the decoders, descending, and `prefill_rows`
  // those of prefill. Throws Error(kResource) when the file cannot be written,
  // as Step does.
  Trace(const std::string& path, const std::vector<int>& decoders,
        int prefill_rows);
  // Ends the file as far as it can be written.
  ~Trace();

  struct StepEvent {
    int program_rows = 0;
    Clock::time_point begin, end;
    int decode_rows = 0;
    int prefill_rows = 0;
    // After the step:
    int running = 0;
    int waiting = 0;
    int free_blocks = 0;
    int64_t preemptions = 0;  // so far
  };
  void Step(const StepEvent& event);

 private:
  void Append(std::string_view event);
  void Flush();

  FileWriter file_;
  std::string buffer_;
  bool first_ = true;
  std::vector<int> decoders_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace rbln
