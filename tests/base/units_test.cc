// What is said to people: quantities, and words that were meant.
#include "base/units.h"

#include <doctest/doctest.h>

#include "base/nearest.h"

namespace rbln {
namespace {

TEST_CASE("bytes are said in the unit that fits") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1024) == "1.0 KiB");
  CHECK(FormatBytes(1024 * 1024 - 1) == "1.0 MiB");
  CHECK(FormatBytes(3'984'588) == "3.8 MiB");
  CHECK(FormatBytes(uint64_t{12} << 30) == "12.0 GiB");
  CHECK(FormatBytes(~uint64_t{0}) == "16777216.0 TiB");
}

TEST_CASE("of the known words the nearest is offered, if it is near") {
  const std::vector<std::string> known = {"max-time", "max-tokens", "seed"};
  CHECK(Nearest("max-token", known) == "max-tokens");
  CHECK(Nearest("sed", known) == "seed");
  CHECK(Nearest("temperature", known) == "");
  CHECK(Nearest("", known) == "");
}

}  // namespace
}  // namespace rbln
