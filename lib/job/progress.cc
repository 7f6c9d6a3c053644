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

std::string ProgressLine(const ProgressState& state, double tokens_per_s,
                         double seconds) {
  std::string line = fmt::format("{} prompts", state.prompts);
  if (state.fraction > 0) {
    line += fmt::format(" ({:.0f}%)", 100 * state.fraction);
  }
  line += fmt::format(", {:.1f} tokens/s, {} running, {} waiting", tokens_per_s,
                      state.running, state.waiting);
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
    const double latest =
        static_cast<double>(state.tokens - last_tokens_) / since;
    // Smoothed, so that the figure can be read.
    rate_ = rate_ == 0 ? latest : 0.8 * rate_ + 0.2 * latest;
  }
  last_ = now;
  last_tokens_ = state.tokens;
  const std::string line = ProgressLine(
      state, rate_, std::chrono::duration<double>(now - start_).count());
  if (mode_ == ProgressMode::kTerminal) {
    ShowStatus(line);
  } else {
    Say("rbln-tool: " + line + "\n");
  }
}

}  // namespace rbln
