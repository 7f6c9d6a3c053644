// Lines in work: from the text of a line, through the engine, to its answer.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "job/output.h"
#include "job/prompt_line.h"

namespace rbln {

// A line of the input, not yet looked at.
struct InputLine {
  int64_t index = 0;      // of the answer, from 0
  int64_t number = 0;     // of the line in the file, from 1
  bool too_long = false;  // and left out
  std::string text;
};

// Not thread safe.
class LineWork {
 public:
  // All must outlive this object. Lines beyond `max_line_bytes` are said to be
  // too long.
  LineWork(Engine& engine, const LineContext& context, size_t max_line_bytes)
      : engine_(engine), context_(context), max_line_bytes_(max_line_bytes) {}

  // Takes a line. One with an error is answered by the next Step.
  void Start(const InputLine& line);
  // Runs a step of the engine and appends what was answered. False when there
  // was nothing to do.
  bool Step(std::vector<Answer>& answers);

  // Lines not answered yet.
  int64_t size() const {
    return static_cast<int64_t>(work_.size() + answered_.size());
  }

 private:
  // A line whose prompts are in the engine.
  struct Work {
    PromptLine line;
    std::vector<Finished> results;
    size_t missing = 0;
  };

  void Take(Finished finished);
  void Write(const PromptLine& line, const std::vector<Finished>& results);

  Engine& engine_;
  const LineContext& context_;
  const size_t max_line_bytes_;
  int64_t next_request_ = 0;
  std::list<Work> work_;
  // Request to line and place in it.
  std::unordered_map<int64_t, std::pair<std::list<Work>::iterator, size_t>>
      requests_;
  std::vector<Answer> answered_;
};

}  // namespace rbln
