#include "job/progress.h"

#include <fmt/core.h>

#include "base/console.h"

namespace rbln {
namespace {

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

}  // namespace

std::string ProgressLine(const ProgressState& state, const TokenRates& rates,
                         double seconds) {
  std::string line = fmt::format("{} prompts", state.prompts);
  if (state.fraction > 0) {
    line += fmt::format(" ({:.0f}%)", 100 * state.fraction);
  }
  line +=
      fmt::format(", in {:.1f}, out {:.1f} tokens/s, {} running, {} waiting",
                  rates.in, rates.out, state.running, state.waiting);
  if (state.fraction > 0 && state.fraction < 1) {
    line += ", " + Duration(seconds * (1 - state.fraction) / state.fraction) +
            " left";
  }
  return line;
}

Progress::Progress(ProgressMode mode)
    : mode_(mode), start_(Clock::now()), last_(start_) {
  next_ = start_ + (mode == ProgressMode::kLog ? std::chrono::seconds(30)
                                               : std::chrono::seconds(0));
}

Progress::~Progress() { ClearStatus(); }

void Progress::Update(const ProgressState& state) {
  if (mode_ == ProgressMode::kNone) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + (mode_ == ProgressMode::kLog ? std::chrono::milliseconds(30000)
                                             : std::chrono::milliseconds(200));
  const double since = std::chrono::duration<double>(now - last_).count();
  if (since > 0) {
    const auto update = [since](int64_t tokens, double* rate) {
      const double latest = static_cast<double>(tokens) / since;
      // Smoothed, so that the figure can be read.
      *rate = *rate == 0 ? latest : 0.8 * *rate + 0.2 * latest;
    };
    update(state.tokens_in - last_state_.tokens_in, &rates_.in);
    update(state.tokens_out - last_state_.tokens_out, &rates_.out);
  }
  last_ = now;
  last_state_ = state;
  const std::string line = ProgressLine(
      state, rates_, std::chrono::duration<double>(now - start_).count());
  if (mode_ == ProgressMode::kTerminal) {
    ShowStatus(line);
  } else {
    Say("rbln-tool: " + line + "\n");
  }
}

}  // namespace rbln
