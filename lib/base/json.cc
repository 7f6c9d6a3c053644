#include "base/json.h"

#include <algorithm>
#include <iterator>

#include "base/file.h"

namespace rbln {
namespace {

// Line and column, from 1, of byte `offset`.
std::pair<size_t, size_t> LineAndColumn(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const size_t newline = before.rfind('\n');
  const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  return {line, newline == std::string_view::npos ? before.size() + 1
                                                  : before.size() - newline};
}

template <typename T>
T Parse(std::string_view text, std::string_view name, ErrorKind kind) {
  typename T::parser_callback_t check_depth;
  // Hardly any text has brackets enough to be nested so deep, and a call for
  // each value would take as long as the parsing.
  const auto brackets = std::count_if(
      text.begin(), text.end(), [](char c) { return c == '[' || c == '{'; });
  if (brackets > kMaxJsonDepth) {
    check_depth = [&](int depth, typename T::parse_event_t, T&) {
      if (depth > kMaxJsonDepth) {
        throw Error(kind, fmt::format("{}: JSON is nested deeper than {}", name,
                                      kMaxJsonDepth));
      }
      return true;
    };
  }
  try {
    return T::parse(text.begin(), text.end(), check_depth);
  } catch (const typename T::parse_error& error) {
    const auto [line, column] =
        LineAndColumn(text, error.byte > 0 ? error.byte - 1 : 0);
    // The library's text is "[json.exception...] parse error at line 1, column
    // 2: what"; ours has the position once.
    std::string_view what = error.what();
    if (const size_t at = what.find(": "); at != std::string_view::npos) {
      what.remove_prefix(at + 2);
    }
    throw Error(
        kind, fmt::format("{}:{}:{}: not JSON: {}", name, line, column, what));
  } catch (const typename T::exception& error) {
    throw Error(kind, fmt::format("{}: not JSON: {}", name, error.what()));
  }
}

}  // namespace

Json ParseJson(std::string_view text, std::string_view name, ErrorKind kind) {
  return Parse<Json>(text, name, kind);
}
OrderedJson ParseOrderedJson(std::string_view text, std::string_view name,
                             ErrorKind kind) {
  return Parse<OrderedJson>(text, name, kind);
}

void JsonWriter::Key(std::string_view name) {
  String(name);
  text_ += ':';
}

void JsonWriter::String(std::string_view value) {
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (!plain) return Value(OrderedJson(value));
  Separate();
  text_ += '"';
  text_ += value;
  text_ += '"';
}

void JsonWriter::Integer(int64_t value) {
  Separate();
  fmt::format_to(std::back_inserter(text_), "{}", value);
}

void JsonWriter::Null() {
  Separate();
  text_ += "null";
}

void JsonWriter::Value(const OrderedJson& value) {
  Separate();
  text_ += value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

void JsonWriter::Begin(char bracket) {
  Separate();
  text_ += bracket;
}

void JsonWriter::Separate() {
  // No value ends as that which a first one follows.
  if (text_.empty() ||
      std::string_view("{[:").find(text_.back()) != std::string_view::npos) {
    return;
  }
  text_ += ',';
}

Json ReadJsonFile(const std::string& path, ErrorKind kind, size_t max_bytes) {
  return ParseJson(ReadFile(path, kind, max_bytes), path, kind);
}

}  // namespace rbln
