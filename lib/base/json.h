// JSON from strangers: nlohmann::json with a bound on depth and errors of ours.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rbln {

using Json = nlohmann::json;
// Keeps the order of the keys as they stood in the text.
using OrderedJson = nlohmann::ordered_json;

// Deepest nesting of arrays and objects that is accepted.
inline constexpr int kMaxJsonDepth = 256;

// Parses `text`. `name` says in an error whose text it is (a path, "line 3").
// Throws Error(kind) with line and column on malformed text, text that is not
// UTF-8, or nesting beyond kMaxJsonDepth. Of two equal keys the last one wins,
// as in Python's json.
Json ParseJson(std::string_view text, std::string_view name, ErrorKind kind);
OrderedJson ParseOrderedJson(std::string_view text, std::string_view name,
                             ErrorKind kind);

// Reads and parses a file of at most `max_bytes` bytes.
Json ReadJsonFile(const std::string& path, ErrorKind kind,
                  size_t max_bytes = size_t{256} << 20);

}  // namespace rbln
