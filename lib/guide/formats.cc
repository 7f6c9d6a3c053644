#include "guide/formats.h"

namespace rbln {
namespace {

// RFC 3339, section 5.6, with the lengths of the months. A year is a leap year
// when its last two digits are a multiple of 4 and not 00, or when the first
// two are and the last are 00.
#define RBLN_DATE                                                   \
  "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"  \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" \
  "(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|"                   \
  "(?:[2468][048]|[13579][26])00)-02-29)"
#define RBLN_TIME                                        \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?" \
  "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"

struct Format {
  const char* name;
  const char* pattern;
};

constexpr Format kFormats[] = {
    {"date", RBLN_DATE},
    {"time", RBLN_TIME},
    {"date-time", RBLN_DATE "T" RBLN_TIME},
    {"uuid", "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
    // A dot-atom and a host name; no quotes, comments or addresses.
    {"email",
     "[a-zA-Z0-9_+-]{1,32}(?:\\.[a-zA-Z0-9_+-]{1,32}){0,1}@"
     "(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?\\.){1,3}"
     "[a-zA-Z]{2,24}"},
};

}  // namespace

const char* FormatPattern(std::string_view format) {
  for (const Format& one : kFormats) {
    if (format == one.name) return one.pattern;
  }
  return nullptr;
}

std::string FormatNames() {
  std::string names;
  for (const Format& one : kFormats) {
    if (!names.empty()) names += ", ";
    names += one.name;
  }
  return names;
}

}  // namespace rbln
