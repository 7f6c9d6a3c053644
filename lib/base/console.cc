#include "base/console.h"

#include <cstdio>
#include <mutex>

namespace rbln {
namespace {

constexpr std::string_view kClear = "\r\x1b[K";

std::mutex mutex;
bool shown = false;

void Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void ClearLocked() {
  if (shown) Write(kClear);
  shown = false;
}

}  // namespace

void Say(std::string_view text) {
  const std::lock_guard lock(mutex);
  ClearLocked();
  Write(text);
}

void ShowStatus(std::string_view line) {
  const std::lock_guard lock(mutex);
  Write(kClear);
  Write(line);
  shown = true;
}

void ClearStatus() {
  const std::lock_guard lock(mutex);
  ClearLocked();
}

}  // namespace rbln
