// Names of flags, and checks of their values with errors in words.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace rbln {

// "--max-tokens" of max_tokens.
std::string FlagName(std::string key);

// A whole number from `least` to `most`, in decimal digits.
CLI::Validator WholeNumber(uint64_t least,
                           uint64_t most = std::numeric_limits<int32_t>::max());
// A finite number above 0, or, where `zero` may be, from 0 on.
CLI::Validator PositiveNumber(bool zero = false);
// A size such as 8G or 1.5GiB. Throws Error(kUsage) naming `flag`.
uint64_t ParseBytes(const char* flag, const std::string& text);

}  // namespace rbln
