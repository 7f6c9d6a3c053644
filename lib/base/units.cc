#include "base/units.h"

#include <fmt/core.h>

namespace rbln {

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double number = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    // From here on it would be rounded to 1024.0.
    if (number < 1023.95) break;
    number /= 1024;
    unit = larger;
  }
  return fmt::format("{:.1f} {}", number, unit);
}

}  // namespace rbln
