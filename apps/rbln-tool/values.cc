#include "rbln-tool/values.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"

namespace rbln {
namespace {

// All of `text` as a number, in the one way that it can be written: the parser
// of flags would take 010 for 8.
template <typename T>
bool Parse(const std::string& text, T* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end;
}

}  // namespace

std::string FlagName(std::string key) {
  for (char& c : key) {
    if (c == '_') c = '-';
  }
  return "--" + key;
}

CLI::Validator WholeNumber(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        uint64_t number = 0;
        if (Parse(text, &number) && number >= least && number <= most &&
            (text[0] != '0' || text.size() == 1)) {
          return "";
        }
        // The bound that was missed; nobody means the other one.
        const bool above =
            text.find_first_not_of("0123456789") == std::string::npos &&
            text.size() > 1 && text[0] != '0';
        return above ? fmt::format(
                           "must be a whole number of at most {}, got "
                           "'{}'",
                           most, text)
                     : fmt::format(
                           "must be a whole number of at least {}, got "
                           "'{}'",
                           least, text);
      },
      "");
}

CLI::Validator PositiveNumber(bool zero) {
  return CLI::Validator(
      [zero](std::string& text) -> std::string {
        double number = 0;
        if (Parse(text, &number) && std::isfinite(number) &&
            (zero ? number >= 0 : number > 0)) {
          return "";
        }
        return fmt::format("must be a number {}, got '{}'",
                           zero ? "of at least 0" : "above 0", text);
      },
      "");
}

uint64_t ParseBytes(const char* flag, const std::string& text) {
  static const std::map<std::string, double> kUnits = {
      {"", 1},          {"B", 1},           {"K", 1024.0}, {"KiB", 1024.0},
      {"M", 1048576.0}, {"MiB", 1048576.0}, {"G", 0x1p30}, {"GiB", 0x1p30},
      {"T", 0x1p40},    {"TiB", 0x1p40},    {"KB", 1e3},   {"MB", 1e6},
      {"GB", 1e9},      {"TB", 1e12}};
  const size_t digits =
      std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto unit = kUnits.find(text.substr(digits));
  if (!Parse(text.substr(0, digits), &number) || unit == kUnits.end() ||
      number * unit->second < 1 || number * unit->second > 1e18) {
    throw UsageError("{}: must be a size such as 8G or 512MiB, got '{}'", flag,
                     text);
  }
  return static_cast<uint64_t>(number * unit->second);
}

}  // namespace rbln
