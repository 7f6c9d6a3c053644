// Methods of strings, lists, tuples, dicts and the template's own objects.
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {

std::vector<std::string_view> SplitLines(std::string_view text, bool keep) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t at = pos;
    const char32_t c = NextCodePoint(text, pos);
    if (!IsLineBreak(c)) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(begin, (keep ? pos : at) - begin));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string_view StripCharacters(std::string_view text,
                                 const std::string* characters, bool left,
                                 bool right) {
  if (characters == nullptr) {
    if (left) text = StripLeft(text);
    return right ? StripRight(text) : text;
  }
  const auto listed = [characters](std::string_view c) {
    return characters->find(c) != std::string::npos;
  };
  while (left && !text.empty()) {
    size_t next = 0;
    NextCodePoint(text, next);
    if (!listed(text.substr(0, next))) break;
    text.remove_prefix(next);
  }
  while (right && !text.empty()) {
    const size_t begin = PreviousOffset(text, text.size());
    if (!listed(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::string ReplaceText(Interpreter& interpreter, std::string_view text,
                        std::string_view from, std::string_view to,
                        int64_t count) {
  Heap& heap = interpreter.heap();
  heap.ChargeBytes(text.size());
  std::string out;
  size_t pos = 0;
  if (from.empty()) {
    while (count != 0) {
      out += to;
      heap.CheckString(out.size());
      if (count > 0) --count;
      if (pos >= text.size()) return out;
      const size_t begin = pos;
      NextCodePoint(text, pos);
      out += text.substr(begin, pos - begin);
    }
  } else {
    while (count != 0) {
      const size_t at = text.find(from, pos);
      if (at == std::string_view::npos) break;
      out += text.substr(pos, at - pos);
      out += to;
      heap.CheckString(out.size());
      pos = at + from.size();
      if (count > 0) --count;
    }
  }
  out += text.substr(pos);
  return out;
}

namespace {

// Result of a method of `self`: markup begets markup.
Value Result(Interpreter& interpreter, const Value& self, std::string text) {
  return interpreter.Text(std::move(text), self.markup());
}

// The text of an argument; markup escapes what is none.
std::string TextArgument(Interpreter& interpreter, const Value& self,
                         const Params& params, size_t i) {
  params.Text(i);
  return self.markup() ? Escape(interpreter, params[i]) : params[i].text();
}

template <std::string (*kMap)(std::string_view)>
Value MapText(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("method", args, {});
  return Result(interpreter, self, kMap(self.text()));
}

template <bool kLeft, bool kRight>
Value StripMethod(Interpreter& interpreter, const Value& self,
                  const Args& args) {
  const Params params("strip", args, {""});
  std::string characters;
  const bool given = params.HasValue(0);
  if (given) characters = TextArgument(interpreter, self, params, 0);
  interpreter.heap().ChargeBytes(self.text().size() *
                                 (1 + characters.size() / 16));
  return Result(
      interpreter, self,
      std::string(StripCharacters(self.text(), given ? &characters : nullptr,
                                  kLeft, kRight)));
}

Value TextList(Interpreter& interpreter, const Value& self,
               const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    items.push_back(Result(interpreter, self, std::string(part)));
  }
  return Value::List(interpreter.heap(), std::move(items));
}

std::vector<std::string_view> SplitSpace(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = StripLeft(text);
  while (!text.empty()) {
    if (limit-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      size_t next = end;
      if (IsSpace(NextCodePoint(text, next))) break;
      end = next;
    }
    parts.push_back(text.substr(0, end));
    text = StripLeft(text.substr(end));
  }
  return parts;
}

std::vector<std::string_view> SplitSpaceFromRight(std::string_view text,
                                                  int64_t limit) {
  std::vector<std::string_view> parts;
  text = StripRight(text);
  while (!text.empty()) {
    if (limit-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const size_t previous = PreviousOffset(text, begin);
      size_t pos = previous;
      if (IsSpace(NextCodePoint(text, pos))) break;
      begin = previous;
    }
    parts.push_back(text.substr(begin));
    text = StripRight(text.substr(0, begin));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool kFromRight>
Value Split(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("split", args, {"sep", "maxsplit"});
  int64_t limit = std::max<int64_t>(params.Int(1, -1), -1);
  std::string_view text = self.text();
  interpreter.heap().ChargeBytes(text.size());
  std::vector<std::string_view> parts;
  if (!params.HasValue(0)) {
    parts =
        kFromRight ? SplitSpaceFromRight(text, limit) : SplitSpace(text, limit);
    return TextList(interpreter, self, parts);
  }
  const std::string& separator = params.Text(0);
  if (separator.empty()) Fail("split: empty separator");
  for (; limit != 0; --limit) {
    const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    if (kFromRight) {
      parts.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      parts.push_back(text.substr(0, at));
      text = text.substr(at + separator.size());
    }
  }
  parts.push_back(text);
  if (kFromRight) std::reverse(parts.begin(), parts.end());
  return TextList(interpreter, self, parts);
}

Value SplitLinesMethod(Interpreter& interpreter, const Value& self,
                       const Args& args) {
  const Params params("splitlines", args, {"keepends"});
  return TextList(interpreter, self,
                  SplitLines(self.text(), params.Int(0, 0) != 0));
}

template <bool kFromRight>
Value Partition(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("partition", args, {""}, 1);
  const std::string& separator = params.Text(0);
  if (separator.empty()) Fail("partition: empty separator");
  const std::string& text = self.text();
  const size_t at = kFromRight ? text.rfind(separator) : text.find(separator);
  std::vector<std::string> parts = {"", "", ""};
  if (at == std::string::npos) {
    parts[kFromRight ? 2 : 0] = text;
  } else {
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  }
  std::vector<Value> items;
  for (std::string& part : parts) {
    items.push_back(Result(interpreter, self, std::move(part)));
  }
  return Value::Tuple(interpreter.heap(), std::move(items));
}

// The byte range of text[start:end], as find, count and startswith take it.
// False where start lies beyond the end.
bool ArgumentRange(const std::string& text, const Params& params, size_t first,
                   size_t& begin, size_t& end) {
  begin = 0;
  end = text.size();
  if (!params.HasValue(first) && !params.HasValue(first + 1)) return true;
  const auto size = static_cast<int64_t>(CodePointCount(text));
  int64_t from = params.HasValue(first) ? params.Int(first, 0) : 0;
  int64_t to = params.HasValue(first + 1) ? params.Int(first + 1, 0) : size;
  if (from < 0) from = std::max<int64_t>(from + size, 0);
  if (to < 0) to = std::max<int64_t>(to + size, 0);
  to = std::min(to, size);
  if (from > size || from > to) return false;
  begin = OffsetOf(text, static_cast<size_t>(from));
  end = OffsetOf(text, static_cast<size_t>(to));
  return true;
}

template <bool kAtEnd>
Value StartsWith(Interpreter& interpreter, const Value& self,
                 const Args& args) {
  const Params params("startswith", args, {"", "", ""}, 1);
  size_t begin = 0;
  size_t end = 0;
  const bool valid = ArgumentRange(self.text(), params, 1, begin, end);
  const std::string_view text =
      valid ? std::string_view(self.text()).substr(begin, end - begin)
            : std::string_view();
  const auto matches = [&](const Value& affix) {
    if (!affix.Is(Kind::kString)) {
      if (affix.Is(Kind::kUndefined)) throw Failure(affix.UndefinedMessage());
      Fail("startswith and endswith need a str or a tuple of str, not {}",
           TypeName(affix));
    }
    return valid && (kAtEnd ? text.ends_with(affix.text())
                            : text.starts_with(affix.text()));
  };
  if (!params[0].Is(Kind::kTuple)) return Value::Bool(matches(params[0]));
  for (size_t i = 0; i < params[0].size(); ++i) {
    if (matches(params[0].ItemAt(i))) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool kFromRight, bool kMustFind>
Value Find(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("find", args, {"", "", ""}, 1);
  const std::string& what = params.Text(0);
  const std::string& text = self.text();
  interpreter.heap().ChargeBytes(text.size());
  size_t begin = 0;
  size_t end = 0;
  size_t at = std::string_view::npos;
  if (ArgumentRange(text, params, 1, begin, end)) {
    const std::string_view range =
        std::string_view(text).substr(begin, end - begin);
    at = kFromRight ? range.rfind(what) : range.find(what);
  }
  if (at == std::string_view::npos) {
    if (kMustFind) Fail("substring not found");
    return Value::Int(-1);
  }
  return Value::Int(static_cast<int64_t>(
      CodePointCount(std::string_view(text).substr(0, begin + at))));
}

Value Count(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("count", args, {"", "", ""}, 1);
  const std::string& what = params.Text(0);
  size_t begin = 0;
  size_t end = 0;
  interpreter.heap().ChargeBytes(self.text().size());
  if (!ArgumentRange(self.text(), params, 1, begin, end)) return Value::Int(0);
  const std::string_view text =
      std::string_view(self.text()).substr(begin, end - begin);
  if (what.empty()) {
    return Value::Int(static_cast<int64_t>(CodePointCount(text)) + 1);
  }
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    ++count;
  }
  return Value::Int(count);
}

Value Replace(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("replace", args, {"", "", ""}, 2);
  const std::string from = TextArgument(interpreter, self, params, 0);
  const std::string to = TextArgument(interpreter, self, params, 1);
  return Result(
      interpreter, self,
      ReplaceText(interpreter, self.text(), from, to, params.Int(2, -1)));
}

Value JoinMethod(Interpreter& interpreter, const Value& self,
                 const Args& args) {
  const Params params("join", args, {""}, 1);
  std::string out;
  bool first = true;
  Cursor cursor(interpreter, params[0]);
  for (Value item; cursor.Next(item); first = false) {
    if (!item.Is(Kind::kString)) {
      if (!self.markup()) {
        Fail("join: expected str, found {}", TypeName(item));
      }
      item = interpreter.Text(interpreter.Str(item));
    }
    if (!first) out += self.text();
    out += self.markup() ? Escape(interpreter, item) : item.text();
    interpreter.heap().ChargeBytes(item.text().size() + self.text().size());
    interpreter.heap().CheckString(out.size());
  }
  return Result(interpreter, self, std::move(out));
}

template <bool kPrefix>
Value RemoveAffix(Interpreter& interpreter, const Value& self,
                  const Args& args) {
  const Params params("removeprefix", args, {""}, 1);
  const std::string affix = TextArgument(interpreter, self, params, 0);
  std::string_view text = self.text();
  if (kPrefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!kPrefix && !affix.empty() && text.ends_with(affix)) {
    text.remove_suffix(affix.size());
  }
  return Result(interpreter, self, std::string(text));
}

enum class Side { kLeft, kRight, kBoth };

template <Side kSide>
Value Justify(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("justify", args, {"", ""}, 1);
  const int64_t width = params.Int(0, 0);
  const std::string fill =
      params.Has(1) ? TextArgument(interpreter, self, params, 1) : " ";
  if (CodePointCount(fill) != 1) {
    Fail("the fill character must be one character long");
  }
  const auto size = static_cast<int64_t>(CodePointCount(self.text()));
  if (width <= size) return Result(interpreter, self, self.text());
  interpreter.heap().CheckString(
      static_cast<size_t>(std::min<int64_t>(width, INT64_MAX / 8)) *
      fill.size());
  const int64_t room = width - size;
  int64_t left = 0;
  if (kSide == Side::kRight) left = room;
  if (kSide == Side::kBoth) left = room / 2 + (room & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (int64_t i = left; i < room; ++i) out += fill;
  return Result(interpreter, self, std::move(out));
}

Value ZFill(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("zfill", args, {""}, 1);
  const int64_t width = params.Int(0, 0);
  const auto size = static_cast<int64_t>(CodePointCount(self.text()));
  if (width <= size) return Result(interpreter, self, self.text());
  interpreter.heap().CheckString(static_cast<size_t>(width));
  std::string out = self.text();
  const bool sign = !out.empty() && (out[0] == '+' || out[0] == '-');
  out.insert(sign ? 1 : 0, static_cast<size_t>(width - size), '0');
  return Result(interpreter, self, std::move(out));
}

Value ExpandTabs(Interpreter& interpreter, const Value& self,
                 const Args& args) {
  const Params params("expandtabs", args, {"tabsize"});
  const int64_t tab = params.Int(0, 8);
  std::string out;
  int64_t column = 0;
  const std::string& text = self.text();
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, pos);
    if (c == '\t') {
      if (tab <= 0) continue;
      const int64_t spaces = tab - column % tab;
      interpreter.heap().CheckString(out.size() + static_cast<size_t>(spaces));
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      out += text.substr(begin, pos - begin);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return Result(interpreter, self, std::move(out));
}

// isdigit and so on: not empty, and true of every character.
template <bool (*kTest)(char32_t)>
Value AllAre(Interpreter&, const Value& self, const Args& args) {
  const Params params("method", args, {});
  const std::string& text = self.text();
  for (size_t pos = 0; pos < text.size();) {
    if (!kTest(NextCodePoint(text, pos))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

Value IsAsciiMethod(Interpreter&, const Value& self, const Args& args) {
  const Params params("isascii", args, {});
  return Value::Bool(IsAscii(self.text()));
}

Value IsPrintableMethod(Interpreter& interpreter, const Value& self,
                        const Args& args) {
  if (self.text().empty()) return Value::Bool(true);
  return AllAre<IsPrintable>(interpreter, self, args);
}

Value IsIdentifierMethod(Interpreter&, const Value& self, const Args& args) {
  const Params params("isidentifier", args, {});
  return Value::Bool(IsIdentifier(self.text()));
}

template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
Value AllCased(Interpreter&, const Value& self, const Args& args) {
  const Params params("method", args, {});
  bool any = false;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = NextCodePoint(self.text(), pos);
    if (kOther(c) || IsTitle(c)) return Value::Bool(false);
    any |= kWanted(c);
  }
  return Value::Bool(any);
}

Value IsTitleMethod(Interpreter&, const Value& self, const Args& args) {
  const Params params("istitle", args, {});
  bool any = false;
  bool after_cased = false;
  for (size_t pos = 0; pos < self.text().size();) {
    const char32_t c = NextCodePoint(self.text(), pos);
    const bool upper = IsUpper(c) || IsTitle(c);
    if ((upper && after_cased) || (IsLower(c) && !after_cased)) {
      return Value::Bool(false);
    }
    after_cased = upper || IsLower(c);
    any |= after_cased;
  }
  return Value::Bool(any);
}

// --- lists, tuples, dicts ---

Value SequenceIndex(Interpreter& interpreter, const Value& self,
                    const Args& args) {
  const Params params("index", args, {"", "", ""}, 1);
  const auto size = static_cast<int64_t>(self.size());
  int64_t from = params.Int(1, 0);
  int64_t to = params.Int(2, size);
  if (from < 0) from = std::max<int64_t>(from + size, 0);
  if (to < 0) to += size;
  to = std::min(to, size);
  interpreter.heap().Charge(self.size());
  for (int64_t i = from; i < to; ++i) {
    if (Equal(self.ItemAt(static_cast<size_t>(i)), params[0])) {
      return Value::Int(i);
    }
  }
  Fail("the value is not in the {}", TypeName(self));
}

Value SequenceCount(Interpreter& interpreter, const Value& self,
                    const Args& args) {
  const Params params("count", args, {""}, 1);
  int64_t count = 0;
  for (const Value& item : interpreter.ToVector(self)) {
    count += Equal(item, params[0]);
  }
  return Value::Int(count);
}

Value Copy(Interpreter&, const Value& self, const Args& args) {
  const Params params("copy", args, {});
  return self;  // values are immutable
}

template <ViewObject::What kWhat>
Value View(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("view", args, {});
  return Value::Own(Kind::kView,
                    new ViewObject(interpreter.heap(), self, kWhat));
}

Value Get(Interpreter& interpreter, const Value& self, const Args& args) {
  const Params params("get", args, {"", ""}, 1);
  interpreter.heap().Charge(self.size() / 16);
  Value found = self.Find(params[0]);
  if (!found.Is(Kind::kMissing)) return found;
  return params.Has(1) ? params[1] : Value::None();
}

Value LoopCycle(Interpreter&, const Value& self, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) {
    Fail("loop.cycle() needs items, and takes no keywords");
  }
  const auto index = static_cast<size_t>(self.As<LoopObject>().index0);
  return args.positional[index % args.positional.size()];
}

Value LoopChanged(Interpreter& interpreter, const Value& self,
                  const Args& args) {
  auto& loop = self.As<LoopObject>();
  const Value value = Value::Tuple(interpreter.heap(), args.positional);
  if (!loop.last_changed.Is(Kind::kMissing) &&
      Equal(loop.last_changed, value)) {
    return Value::Bool(false);
  }
  loop.last_changed = value;
  return Value::Bool(true);
}

Value CyclerNext(Interpreter&, const Value& self, const Args& args) {
  const Params params("next", args, {});
  auto& cycler = self.As<CyclerObject>();
  const Value value = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return value;
}

Value CyclerReset(Interpreter&, const Value& self, const Args& args) {
  const Params params("reset", args, {});
  self.As<CyclerObject>().position = 0;
  return Value::None();
}

constexpr MethodEntry kStringMethods[] = {
    {"capitalize", MapText<ToCapitalized>},
    {"casefold", MapText<CaseFold>},
    {"center", Justify<Side::kBoth>},
    {"count", Count},
    {"endswith", StartsWith<true>},
    {"expandtabs", ExpandTabs},
    {"find", Find<false, false>},
    {"format", FormatMethod},
    {"format_map", FormatMapMethod},
    {"index", Find<false, true>},
    {"isalnum", AllAre<IsAlnum>},
    {"isalpha", AllAre<IsAlpha>},
    {"isascii", IsAsciiMethod},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDigit>},
    {"isidentifier", IsIdentifierMethod},
    {"islower", AllCased<IsLower, IsUpper>},
    {"isnumeric", AllAre<IsNumeric>},
    {"isprintable", IsPrintableMethod},
    {"isspace", AllAre<IsSpace>},
    {"istitle", IsTitleMethod},
    {"isupper", AllCased<IsUpper, IsLower>},
    {"join", JoinMethod},
    {"ljust", Justify<Side::kLeft>},
    {"lower", MapText<ToLower>},
    {"lstrip", StripMethod<true, false>},
    {"partition", Partition<false>},
    {"removeprefix", RemoveAffix<true>},
    {"removesuffix", RemoveAffix<false>},
    {"replace", Replace},
    {"rfind", Find<true, false>},
    {"rindex", Find<true, true>},
    {"rjust", Justify<Side::kRight>},
    {"rpartition", Partition<true>},
    {"rsplit", Split<true>},
    {"rstrip", StripMethod<false, true>},
    {"split", Split<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", StartsWith<false>},
    {"strip", StripMethod<true, true>},
    {"swapcase", MapText<SwapCase>},
    {"title", MapText<ToTitle>},
    {"upper", MapText<ToUpper>},
    {"zfill", ZFill},
};

constexpr MethodEntry kListMethods[] = {
    {"copy", Copy},
    {"count", SequenceCount},
    {"index", SequenceIndex},
};

constexpr MethodEntry kTupleMethods[] = {
    {"count", SequenceCount},
    {"index", SequenceIndex},
};

constexpr MethodEntry kDictMethods[] = {
    {"copy", Copy},
    {"get", Get},
    {"items", View<ViewObject::What::kItems>},
    {"keys", View<ViewObject::What::kKeys>},
    {"values", View<ViewObject::What::kValues>},
};

constexpr MethodEntry kLoopMethods[] = {
    {"changed", LoopChanged},
    {"cycle", LoopCycle},
};

constexpr MethodEntry kCyclerMethods[] = {
    {"next", CyclerNext},
    {"reset", CyclerReset},
};

template <size_t N>
const MethodEntry* FindIn(const MethodEntry (&entries)[N],
                          std::string_view name) {
  for (const MethodEntry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

using NameList = std::initializer_list<std::string_view>;

bool Has(NameList names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const MethodEntry* FindMethod(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kString:
      return FindIn(kStringMethods, name);
    case Kind::kList:
      return FindIn(kListMethods, name);
    case Kind::kTuple:
      return FindIn(kTupleMethods, name);
    case Kind::kDict:
      return FindIn(kDictMethods, name);
    case Kind::kLoop:
      return FindIn(kLoopMethods, name);
    case Kind::kCycler:
      return FindIn(kCyclerMethods, name);
    default:
      return nullptr;
  }
}

bool IsForbiddenMethod(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kList:
      return Has({"append", "clear", "extend", "insert", "pop", "remove",
                  "reverse", "sort"},
                 name);
    case Kind::kDict:
      return Has({"clear", "pop", "popitem", "setdefault", "update"}, name);
    default:
      return false;
  }
}

bool IsUnsupportedMethod(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kString:
      return Has({"encode", "translate", "maketrans"}, name);
    case Kind::kDict:
    case Kind::kFunction:
      return name == "fromkeys";
    case Kind::kInt:
    case Kind::kBool:
      return Has({"as_integer_ratio", "bit_count", "bit_length", "conjugate",
                  "denominator", "from_bytes", "imag", "numerator", "real",
                  "to_bytes"},
                 name);
    case Kind::kFloat:
      return Has({"as_integer_ratio", "conjugate", "fromhex", "hex", "imag",
                  "is_integer", "real"},
                 name);
    case Kind::kRange:
      return Has({"count", "index"}, name);
    case Kind::kView:
      return Has({"isdisjoint", "mapping"}, name);
    case Kind::kIterator:
      return Has({"close", "send", "throw"}, name);
    default:
      return false;
  }
}

}  // namespace rbln::jinja
