#include "guide/json_rules.h"

#include "guide/emit.h"
#include "guide/number.h"

namespace rbln {
namespace {

constexpr int kMaxIndentSpaces = 32;
constexpr int kMaxIndentTabs = 8;

}  // namespace

bool JsonRules::IsNew(int& rule, const char* name) {
  if (rule >= 0) return false;
  rule = builder_.AddRule(name);
  return true;
}

int JsonRules::Space() {
  if (!IsNew(space_, "white space")) return space_;
  const int start = builder_.start(space_);
  builder_.SetEnd(start);
  const int end = builder_.AddState();
  builder_.SetEnd(end);
  builder_.AddBytes(start, ' ', ' ', end);
  const int line = builder_.AddState();
  builder_.SetEnd(line);
  builder_.AddBytes(start, '\n', '\n', line);
  for (const auto& [c, count] :
       {std::pair(' ', kMaxIndentSpaces), std::pair('\t', kMaxIndentTabs)}) {
    int at = line;
    for (int i = 0; i < count; ++i) {
      const int next = builder_.AddState();
      builder_.SetEnd(next);
      builder_.AddBytes(at, c, c, next);
      at = next;
    }
  }
  return space_;
}

int JsonRules::Char() {
  if (!IsNew(char_, "a character")) return char_;
  const int start = builder_.start(char_);
  const int end = builder_.AddState();
  builder_.SetEnd(end);
  EmitChars(builder_, Complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}), start,
            end);
  const int escape = builder_.AddState();
  builder_.AddBytes(start, '\\', '\\', escape);
  for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) {
    builder_.AddBytes(escape, c, c, end);
  }
  const int unicode = builder_.AddState();
  builder_.AddBytes(escape, 'u', 'u', unicode);
  const auto hex = [&](int from, char lo, char hi, int to) {
    // Digits of the value lo to hi, letters in either case.
    for (char c = lo; c <= hi; ++c) {
      if (c < 10) {
        builder_.AddBytes(from, '0' + c, '0' + c, to);
      } else {
        builder_.AddBytes(from, 'a' + c - 10, 'a' + c - 10, to);
        builder_.AddBytes(from, 'A' + c - 10, 'A' + c - 10, to);
      }
    }
  };
  // Backwards: the last digits of a character first.
  const int last = builder_.AddState();
  hex(last, 0, 15, end);
  const int last_two = builder_.AddState();
  hex(last_two, 0, 15, last);
  const int last_three = builder_.AddState();
  hex(last_three, 0, 15, last_two);
  hex(unicode, 0, 12, last_three);
  hex(unicode, 14, 15, last_three);
  // D000 to D7FF are characters; D800 to DBFF are the first of a pair.
  const int d = builder_.AddState();
  hex(unicode, 13, 13, d);
  hex(d, 0, 7, last_two);
  const int low_three = builder_.AddState();
  hex(low_three, 12, 15, last_two);
  const int low_d = builder_.AddState();
  hex(low_d, 13, 13, low_three);
  const int low = builder_.AddState();
  builder_.AddLiteral(low, "\\u", low_d);
  const int high_last = builder_.AddState();
  hex(high_last, 0, 15, low);
  const int high_two = builder_.AddState();
  hex(high_two, 0, 15, high_last);
  hex(d, 8, 11, high_two);
  return char_;
}

int JsonRules::String() {
  if (!IsNew(string_, "a string")) return string_;
  const int inside = builder_.AddState();
  const int end = builder_.AddState();
  builder_.SetEnd(end);
  builder_.AddBytes(builder_.start(string_), '"', '"', inside);
  builder_.AddCall(inside, Char(), inside);
  builder_.AddBytes(inside, '"', '"', end);
  return string_;
}

void JsonRules::AddList(int from, char open, int item, char close, int to) {
  const int first = builder_.AddState();
  const int opened = builder_.AddState();
  builder_.AddBytes(from, open, open, opened);
  builder_.AddCall(opened, Space(), first);
  builder_.AddBytes(first, close, close, to);
  const int behind = builder_.AddState();
  builder_.AddCall(first, item, behind);
  const int comma = builder_.AddState();
  const int next = builder_.AddState();
  builder_.AddBytes(behind, ',', ',', comma);
  builder_.AddCall(comma, Space(), next);
  builder_.AddCall(next, item, behind);
  const int closing = builder_.AddState();
  builder_.AddCall(behind, Space(), closing);
  builder_.AddBytes(closing, close, close, to);
}

int JsonRules::Object() {
  if (!IsNew(object_, "an object")) return object_;
  member_ = builder_.AddRule("a member");
  const int colon = builder_.AddState();
  const int value = builder_.AddState();
  const int behind = builder_.AddState();
  const int member_end = builder_.AddState();
  builder_.SetEnd(member_end);
  builder_.AddCall(builder_.start(member_), String(), colon);
  builder_.AddBytes(colon, ':', ':', value);
  builder_.AddCall(value, Space(), behind);
  builder_.AddCall(behind, Value(), member_end);
  const int end = builder_.AddState();
  builder_.SetEnd(end);
  AddList(builder_.start(object_), '{', member_, '}', end);
  return object_;
}

int JsonRules::Array() {
  if (!IsNew(array_, "an array")) return array_;
  const int end = builder_.AddState();
  builder_.SetEnd(end);
  AddList(builder_.start(array_), '[', Value(), ']', end);
  return array_;
}

int JsonRules::Value() {
  if (!IsNew(value_, "a value")) return value_;
  const int start = builder_.start(value_);
  const int end = builder_.AddState();
  builder_.SetEnd(end);
  builder_.AddCall(start, Object(), end);
  builder_.AddCall(start, Array(), end);
  builder_.AddCall(start, String(), end);
  EmitNumber(builder_, {}, start, end);
  builder_.AddLiterals(start, {"true", "false", "null"}, end);
  return value_;
}

}  // namespace rbln
