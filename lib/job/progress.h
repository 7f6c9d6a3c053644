// How far a job is, for whoever watches it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rbln {

enum class ProgressMode {
  kNone,
  kTerminal,  // one line, rewritten in place and taken away by what follows
  kLog,       // a line every half minute
};

struct ProgressState {
  int64_t prompts = 0;
  int64_t tokens_in = 0;   // of prompts, computed
  int64_t tokens_out = 0;  // generated
  int running = 0;
  int waiting = 0;
  double fraction = 0;  // of the input that is done; 0 where not known
};

// Tokens a second, of both kinds.
struct TokenRates {
  double in = 0;
  double out = 0;
};

// Writes to standard error.
class Progress {
 public:
  explicit Progress(ProgressMode mode);
  ~Progress();  // clears the line
  // Cheap enough to be called at every step.
  void Update(const ProgressState& state);

 private:
  using Clock = std::chrono::steady_clock;

  const ProgressMode mode_;
  const Clock::time_point start_;
  Clock::time_point next_;
  Clock::time_point last_;
  ProgressState last_state_;
  TokenRates rates_;
};

// The line without colours or end: "12 prompts (34%), in 512.0, out ...".
std::string ProgressLine(const ProgressState& state, const TokenRates& rates,
                         double seconds);

}  // namespace rbln
