// JSON from strangers: nlohmann::json with a bound on depth and errors of ours.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

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

// JSON text written value by value, the same bytes as OrderedJson::dump gives
// with error_handler_t::replace, without the objects in between. Whoever calls
// keeps brackets and keys in order.
class JsonWriter {
 public:
  void BeginObject() { Begin('{'); }
  void EndObject() { text_ += '}'; }
  void BeginArray() { Begin('['); }
  void EndArray() { text_ += ']'; }
  void Key(std::string_view name);
  void String(std::string_view value);
  void Integer(int64_t value);
  void Null();
  void Value(const OrderedJson& value);
  // The text so far; nothing may follow.
  std::string Take() { return std::move(text_); }

 private:
  void Begin(char bracket);
  // Puts a comma before what follows, unless that is the first of its list.
  void Separate();

  std::string text_;
};

// Reads and parses a file of at most `max_bytes` bytes.
Json ReadJsonFile(const std::string& path, ErrorKind kind,
                  size_t max_bytes = size_t{256} << 20);

}  // namespace rbln
