// The string formats of JSON Schema that can be enforced.
#pragma once

#include <string>
#include <string_view>

namespace rbln {

// A regular expression for the whole of a text in the format; null for one that
// is not known. Days exist (also the 29th of February); years are 1000 to 9999.
const char* FormatPattern(std::string_view format);

// All that are known, for messages.
std::string FormatNames();

}  // namespace rbln
