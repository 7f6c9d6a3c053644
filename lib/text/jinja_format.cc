// The % operator on strings, str.format and its format specifications.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {
namespace {

// Widths and precisions beyond this are refused; no text needs them.
constexpr int64_t kMaxWidth = 100000;

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =, or none
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char group = '\0';
  int64_t precision = -1;
  char type = '\0';
};

bool IsDigitChar(char c) { return c >= '0' && c <= '9'; }

int64_t TakeNumber(std::string_view text, size_t& pos) {
  int64_t number = 0;
  while (pos < text.size() && IsDigitChar(text[pos])) {
    number = number * 10 + (text[pos++] - '0');
    if (number > kMaxWidth) Fail("a format's number is beyond {}", kMaxWidth);
  }
  return number;
}

Spec ParseSpec(std::string_view text) {
  Spec spec;
  size_t pos = 0;
  const auto is_align = [](char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
  };
  size_t next = 0;
  if (!text.empty()) NextCodePoint(text, next);
  if (next < text.size() && is_align(text[next])) {
    spec.fill = text.substr(0, next);
    spec.align = text[next];
    pos = next + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    pos = 1;
  }
  const auto at = [&] { return pos < text.size() ? text[pos] : '\0'; };
  if (at() == '+' || at() == '-' || at() == ' ') spec.sign = text[pos++];
  if (at() == '#') {
    spec.alternate = true;
    ++pos;
  }
  if (at() == '0') {
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    ++pos;
  }
  spec.width = TakeNumber(text, pos);
  if (at() == ',' || at() == '_') spec.group = text[pos++];
  if (at() == '.') {
    ++pos;
    if (!IsDigitChar(at())) Fail("a format specification lacks its precision");
    spec.precision = TakeNumber(text, pos);
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos != text.size()) Fail("invalid format specification '{}'", text);
  return spec;
}

std::string Pad(const Spec& spec, const std::string& text, char align) {
  const auto size = static_cast<int64_t>(CodePointCount(text));
  if (size >= spec.width) return text;
  const int64_t room = spec.width - size;
  const int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += spec.fill;
  out += text;
  for (int64_t i = left; i < room; ++i) out += spec.fill;
  return out;
}

std::string GroupDigits(std::string digits, char group, size_t each) {
  for (size_t at = digits.size(); at > each;) {
    at -= each;
    digits.insert(at, 1, group);
  }
  return digits;
}

// Sign, digits with groups, and padding that may go between them.
std::string PadNumber(const Spec& spec, bool negative, std::string_view prefix,
                      std::string digits, const std::string& tail,
                      size_t group_size) {
  std::string head = negative           ? "-"
                     : spec.sign == '-' ? ""
                                        : std::string(1, spec.sign);
  head += prefix;
  const bool zeros = spec.align == '=' && spec.fill == "0";
  if (spec.group != '\0') {
    std::string grouped = GroupDigits(digits, spec.group, group_size);
    while (zeros && static_cast<int64_t>(head.size() + grouped.size() +
                                         tail.size()) < spec.width) {
      digits.insert(0, 1, '0');
      grouped = GroupDigits(digits, spec.group, group_size);
    }
    digits = std::move(grouped);
  }
  if (spec.align == '=') {
    const auto size =
        static_cast<int64_t>(head.size() + digits.size() + tail.size());
    for (int64_t i = size; i < spec.width; ++i) head += spec.fill;
  }
  return Pad(spec, head + digits + tail, spec.align == '\0' ? '>' : spec.align);
}

std::string Digits(uint64_t number, int base, bool upper) {
  const std::string_view digits =
      upper ? "0123456789ABCDEF" : "0123456789abcdef";
  const auto divisor = static_cast<uint64_t>(base);
  std::string out;
  do {
    out += digits[number % divisor];
    number /= divisor;
  } while (number != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

uint64_t Magnitude(int64_t i) {
  return i < 0 ? uint64_t{0} - static_cast<uint64_t>(i)
               : static_cast<uint64_t>(i);
}

// The digits of |d| by printf's conversion `type`.
std::string FloatDigits(double d, char type, int64_t precision,
                        bool alternate) {
  d = std::fabs(d);
  if (std::isnan(d) || std::isinf(d)) {
    const bool upper = type == 'F' || type == 'E' || type == 'G';
    return std::isnan(d) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  }
  const std::string format =
      fmt::format("%{}.*{}", alternate ? "#" : "", type == 'F' ? 'f' : type);
  const int size =
      std::snprintf(nullptr, 0, format.c_str(), static_cast<int>(precision), d);
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format.c_str(),
                static_cast<int>(precision), d);
  out.pop_back();
  return out;
}

std::string FormatFloat(const Spec& spec, double d) {
  std::string text;
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case '\0':
      if (spec.precision < 0) {
        text = ReprOfFloat(std::fabs(d));
      } else {
        text = FloatDigits(d, 'g', std::max<int64_t>(precision, 1),
                           spec.alternate);
        if (text.find_first_of(".ein") == std::string::npos) text += ".0";
      }
      break;
    case 'n':
      text = FloatDigits(d, 'g', precision, spec.alternate);
      break;
    case '%':
      text = FloatDigits(d * 100, 'f', precision, spec.alternate) + "%";
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      text = FloatDigits(d, spec.type, precision, spec.alternate);
      break;
    default:
      Fail("unknown format code '{}' for a float", spec.type);
  }
  size_t whole = 0;
  while (whole < text.size() && IsDigitChar(text[whole])) ++whole;
  return PadNumber(spec, std::signbit(d) && !std::isnan(d), "",
                   text.substr(0, whole), text.substr(whole), 3);
}

std::string FormatInt(const Spec& spec, int64_t number) {
  int base = 10;
  std::string_view prefix;
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2;
      prefix = "0b";
      break;
    case 'o':
      base = 8;
      prefix = "0o";
      break;
    case 'x':
    case 'X':
      base = 16;
      prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    case 'c': {
      if (number < 0 || number > 0x10FFFF ||
          (number >= 0xD800 && number <= 0xDFFF)) {
        Fail("{} is no character", number);
      }
      std::string out;
      AppendCodePoint(out, static_cast<char32_t>(number));
      return Pad(spec, out, spec.align == '\0' ? '<' : spec.align);
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case '%':
      return FormatFloat(spec, static_cast<double>(number));
    default:
      Fail("unknown format code '{}' for an int", spec.type);
  }
  if (spec.precision >= 0) Fail("an int has no precision in its format");
  if (spec.group == ',' && base != 10) Fail("',' does not go with this base");
  if (!spec.alternate) prefix = {};
  return PadNumber(spec, number < 0, prefix,
                   Digits(Magnitude(number), base, spec.type == 'X'), "",
                   base == 10 ? 3 : 4);
}

std::string TruncateText(const std::string& text, int64_t precision) {
  if (precision < 0) return text;
  return text.substr(0, OffsetOf(text, static_cast<size_t>(precision)));
}

// format(value, spec).
std::string FormatValue(Interpreter& interpreter, const Value& value,
                        const std::string& text) {
  if (text.empty()) return interpreter.Str(value);
  const Spec spec = ParseSpec(text);
  switch (value.kind()) {
    case Kind::kBool:
    case Kind::kInt:
      return FormatInt(spec, value.integer());
    case Kind::kFloat:
      return FormatFloat(spec, value.real());
    case Kind::kString:
      if (spec.type != '\0' && spec.type != 's') {
        Fail("unknown format code '{}' for a str", spec.type);
      }
      if (spec.sign != '-' || spec.alternate || spec.group != '\0' ||
          (spec.align == '=' && spec.fill != "0")) {
        Fail("the format '{}' is not for a str", text);
      }
      return Pad(spec, TruncateText(value.text(), spec.precision),
                 spec.align == '\0' || spec.align == '=' ? '<' : spec.align);
    default:
      Fail("a {} takes no format specification", TypeName(value));
  }
}

std::string AsciiRepr(Interpreter& interpreter, const Value& value) {
  std::string text;
  AppendRepr(interpreter.heap(), text, value);
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const auto c = static_cast<uint32_t>(NextCodePoint(text, pos));
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      out += c <= 0xFF     ? fmt::format("\\x{:02x}", c)
             : c <= 0xFFFF ? fmt::format("\\u{:04x}", c)
                           : fmt::format("\\U{:08x}", c);
    }
  }
  return out;
}

// One walk over a str.format string.
class Formatter {
 public:
  Formatter(Interpreter& interpreter, const Args& args, const Value* mapping,
            bool markup)
      : interpreter_(interpreter),
        args_(args),
        mapping_(mapping),
        markup_(markup) {}

  std::string Run(std::string_view text, int depth = 2) {
    if (depth < 0) Fail("format fields nested too deep");
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const char c = text[pos];
      if (c != '{' && c != '}') {
        out += c;
        ++pos;
      } else if (pos + 1 < text.size() && text[pos + 1] == c) {
        out += c;
        pos += 2;
      } else if (c == '}') {
        Fail("single '}}' in a format string");
      } else {
        out += Field(text, ++pos, depth);
        interpreter_.heap().Charge(1);
        interpreter_.heap().CheckString(out.size());
      }
    }
    return out;
  }

 private:
  // A field from behind its '{' to behind its '}'.
  std::string Field(std::string_view text, size_t& pos, int depth) {
    const size_t begin = pos;
    int open = 1;
    bool in_brackets = false;
    size_t name_end = std::string_view::npos;
    for (; pos < text.size(); ++pos) {
      const char c = text[pos];
      if (name_end == std::string_view::npos && in_brackets) {
        in_brackets = c != ']';
        continue;
      }
      if (c == '[' && name_end == std::string_view::npos) in_brackets = true;
      if ((c == ':' || c == '!') && name_end == std::string_view::npos) {
        name_end = pos;
      }
      if (c == '{') ++open;
      if (c == '}' && --open == 0) break;
    }
    if (pos >= text.size()) Fail("expected '}}' in a format string");
    const size_t end = pos++;
    if (name_end == std::string_view::npos) name_end = end;
    Value value = Lookup(text.substr(begin, name_end - begin));
    size_t at = name_end;
    bool converted = false;
    if (at < end && text[at] == '!') {
      if (at + 1 >= end) Fail("a format field lacks its conversion");
      value = Convert(value, text[at + 1]);
      converted = true;
      at += 2;
      if (at < end && text[at] != ':') Fail("expected ':' in a format field");
    }
    std::string spec;
    if (at < end) spec = Run(text.substr(at + 1, end - at - 1), depth - 1);
    std::string out = FormatValue(interpreter_, value, spec);
    if (markup_ && !(value.Is(Kind::kString) && value.markup() && !converted)) {
      out = Escape(interpreter_, interpreter_.Text(std::move(out)));
    }
    return out;
  }

  Value Convert(const Value& value, char conversion) {
    if (conversion == 's') return interpreter_.Text(interpreter_.Str(value));
    if (conversion == 'a')
      return interpreter_.Text(AsciiRepr(interpreter_, value));
    if (conversion != 'r') Fail("unknown conversion '!{}'", conversion);
    std::string text;
    AppendRepr(interpreter_.heap(), text, value);
    return interpreter_.Text(std::move(text));
  }

  Value Lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = Argument(name.substr(0, first_end));
    for (size_t pos = first_end; pos < name.size();) {
      if (name[pos] == '.') {
        const size_t end =
            std::min(name.find_first_of(".[", pos + 1), name.size());
        const Value key =
            interpreter_.Text(std::string(name.substr(pos + 1, end - pos - 1)));
        if (key.text().empty()) Fail("a format field has an empty attribute");
        Value found = interpreter_.GetAttribute(value, key.text());
        if (found.Is(Kind::kUndefined)) {
          found = Value::Undefined(key, Value::About::kAttribute, value.kind());
        }
        value = found;
        pos = end;
      } else {
        const size_t close = name.find(']', pos);
        if (name[pos] != '[' || close == std::string_view::npos) {
          Fail("a format field is malformed: '{}'", name);
        }
        const std::string key(name.substr(pos + 1, close - pos - 1));
        if (key.empty()) Fail("a format field has an empty attribute");
        int64_t number = 0;
        const bool index = std::all_of(key.begin(), key.end(), IsDigitChar) &&
                           ParsePythonInt(key, 10, number);
        value = interpreter_.GetItem(
            value, index ? Value::Int(number) : interpreter_.Text(key));
        pos = close + 1;
      }
    }
    return value;
  }

  Value Argument(std::string_view name) {
    size_t index = 0;
    if (name.empty()) {
      if (numbering_ == Numbering::kManual) FailNumbering();
      numbering_ = Numbering::kAutomatic;
      index = next_++;
    } else if (std::all_of(name.begin(), name.end(), IsDigitChar)) {
      if (numbering_ == Numbering::kAutomatic) FailNumbering();
      numbering_ = Numbering::kManual;
      size_t pos = 0;
      index = static_cast<size_t>(TakeNumber(name, pos));
    } else {
      if (mapping_ != nullptr) {
        const Value found =
            mapping_->Is(Kind::kDict) ? mapping_->Find(name) : Value();
        if (!found.Is(Kind::kMissing)) return found;
      }
      for (const auto& [key, value] : args_.named) {
        if (key == name) return value;
      }
      Fail("format: no argument '{}'", name);
    }
    if (mapping_ != nullptr || index >= args_.positional.size()) {
      Fail("format: no argument {}", index);
    }
    return args_.positional[index];
  }

  [[noreturn]] static void FailNumbering() {
    Fail("format: fields with and without numbers do not go together");
  }

  enum class Numbering { kNone, kAutomatic, kManual };
  Interpreter& interpreter_;
  const Args& args_;
  const Value* mapping_;
  bool markup_;
  Numbering numbering_ = Numbering::kNone;
  size_t next_ = 0;
};

// One walk over the left side of %.
class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, const Value& values, bool markup)
      : interpreter_(interpreter),
        values_(values),
        markup_(markup),
        is_tuple_(values.Is(Kind::kTuple)),
        is_mapping_(values.Is(Kind::kDict) || values.Is(Kind::kList) ||
                    values.Is(Kind::kRange) || values.Is(Kind::kUndefined)) {}

  std::string Run(std::string_view text) {
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      if (text[pos] != '%') {
        out += text[pos++];
        continue;
      }
      out += Conversion(text, ++pos);
      interpreter_.heap().Charge(1);
      interpreter_.heap().CheckString(out.size());
    }
    const size_t count = is_tuple_ ? values_.size() : 1;
    if (used_ < count && !is_mapping_) {
      Fail("not all arguments converted during string formatting");
    }
    return out;
  }

 private:
  Value NextValue() {
    if (!is_tuple_ && used_ == 0) {
      ++used_;
      return values_;
    }
    if (!is_tuple_ || used_ >= values_.size()) {
      Fail("not enough arguments for format string");
    }
    return values_.ItemAt(used_++);
  }

  int64_t StarOrNumber(std::string_view text, size_t& pos) {
    if (pos < text.size() && text[pos] == '*') {
      ++pos;
      const Value value = NextValue();
      if (!value.Is(Kind::kInt)) Fail("* wants int");
      if (value.integer() > kMaxWidth || value.integer() < -kMaxWidth) {
        Fail("a format's number is beyond {}", kMaxWidth);
      }
      return value.integer();
    }
    return TakeNumber(text, pos);
  }

  std::string Conversion(std::string_view text, size_t& pos) {
    Value keyed;
    if (pos < text.size() && text[pos] == '(') {
      const size_t begin = ++pos;
      for (int open = 1; pos < text.size(); ++pos) {
        if (text[pos] == '(') ++open;
        if (text[pos] == ')' && --open == 0) break;
      }
      if (pos >= text.size()) Fail("incomplete format key");
      if (!values_.Is(Kind::kDict)) Fail("format requires a mapping");
      const std::string_view key = text.substr(begin, pos - begin);
      keyed = values_.Find(key);
      if (keyed.Is(Kind::kMissing)) Fail("format: no key '{}'", key);
      ++pos;
    }
    bool left = false;
    bool zero = false;
    Spec spec;
    for (; pos < text.size(); ++pos) {
      const char c = text[pos];
      if (c == '-') {
        left = true;
      } else if (c == '+') {
        spec.sign = '+';
      } else if (c == ' ') {
        if (spec.sign != '+') spec.sign = ' ';
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        zero = true;
      } else {
        break;
      }
    }
    spec.width = StarOrNumber(text, pos);
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (pos < text.size() && text[pos] == '.') {
      ++pos;
      spec.precision = std::max<int64_t>(StarOrNumber(text, pos), 0);
    }
    if (pos < text.size() &&
        (text[pos] == 'h' || text[pos] == 'l' || text[pos] == 'L')) {
      ++pos;
    }
    if (pos >= text.size()) Fail("incomplete format");
    const char type = text[pos++];
    if (type == '%') return "%";
    const Value value = keyed.Is(Kind::kMissing) ? NextValue() : keyed;
    spec.align = left ? '<' : '>';
    switch (type) {
      case 's':
        return Pad(spec, TruncateText(StringOf(value), spec.precision),
                   spec.align);
      case 'r':
      case 'a': {
        std::string repr;
        if (type == 'a') {
          repr = AsciiRepr(interpreter_, value);
        } else {
          AppendRepr(interpreter_.heap(), repr, value);
        }
        if (markup_) repr = Escape(interpreter_, interpreter_.Text(repr));
        return Pad(spec, TruncateText(repr, spec.precision), spec.align);
      }
      case 'c':
        if (value.Is(Kind::kString)) {
          if (CodePointCount(value.text()) != 1)
            Fail("%c requires a character");
          return Pad(spec, value.text(), spec.align);
        }
        if (!value.IsIntegral()) Fail("%c requires an int or a character");
        spec.type = 'c';
        return FormatInt(spec, value.integer());
      default:
        return Number(spec, value, type, zero && !left);
    }
  }

  std::string Number(Spec spec, const Value& value, char type, bool zero) {
    if (std::string_view("diuoxXeEfFgG").find(type) == std::string_view::npos) {
      Fail("unsupported format character '{}'", type);
    }
    if (!value.IsNumber()) {
      if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
      Fail("%{} format: a number is required, not {}", type, TypeName(value));
    }
    if (zero) {
      spec.align = '=';
      spec.fill = "0";
    }
    if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      spec.type = type;
      return FormatFloat(spec, value.real());
    }
    int64_t number = value.integer();
    if (value.Is(Kind::kFloat)) {
      if (type != 'd' && type != 'i' && type != 'u') {
        Fail("%{} format: an integer is required, not float", type);
      }
      const double d = value.real();
      if (!(d > -9223372036854775808.0 && d < 9223372036854775808.0)) {
        Fail("{} is beyond an integer of 64 bits", ReprOfFloat(d));
      }
      number = static_cast<int64_t>(d);
    }
    const int base = type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    std::string digits = Digits(Magnitude(number), base, type == 'X');
    const auto wanted =
        static_cast<size_t>(std::max<int64_t>(spec.precision, 0));
    if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
    std::string prefix;
    if (spec.alternate && base != 10) {
      prefix = {'0', base == 8 ? 'o' : type};
    }
    return PadNumber(spec, number < 0, prefix, digits, "", 3);
  }

  std::string StringOf(const Value& value) {
    return markup_ ? Escape(interpreter_, value) : interpreter_.Str(value);
  }

  Interpreter& interpreter_;
  const Value& values_;
  bool markup_;
  bool is_tuple_;
  bool is_mapping_;
  size_t used_ = 0;
};

}  // namespace

Value PercentFormat(Interpreter& interpreter, const Value& format,
                    const Value& values) {
  interpreter.heap().ChargeBytes(format.text().size());
  PercentFormatter formatter(interpreter, values, format.markup());
  return interpreter.Text(formatter.Run(format.text()), format.markup());
}

Value FormatMethod(Interpreter& interpreter, const Value& format,
                   const Args& args) {
  interpreter.heap().ChargeBytes(format.text().size());
  Formatter formatter(interpreter, args, nullptr, format.markup());
  return interpreter.Text(formatter.Run(format.text()), format.markup());
}

Value FormatMapMethod(Interpreter& interpreter, const Value& format,
                      const Args& args) {
  const Params params("format_map", args, {""}, 1);
  Formatter formatter(interpreter, args, &params[0], format.markup());
  return interpreter.Text(formatter.Run(format.text()), format.markup());
}

}  // namespace rbln::jinja
