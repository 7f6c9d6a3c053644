// Filters over text and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {

std::string Escape(Interpreter& interpreter, const Value& value) {
  std::string text = interpreter.Str(value);
  if (value.Is(Kind::kString) && value.markup()) return text;
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

namespace {

// Decimal digits of any script as those of ASCII.
std::string AsciiDigits(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    char32_t c = NextCodePoint(text, pos);
    if (c >= 0x80 && IsDecimal(c)) {
      // Digits come in runs of ten, or of several tens, from a zero on.
      char32_t zero = c;
      while (IsDecimal(zero - 1)) --zero;
      c = U'0' + (c - zero) % 10;
    }
    AppendCodePoint(out, c);
  }
  return out;
}

}  // namespace

bool ParsePythonInt(std::string_view text, int base, int64_t& out) {
  std::string ascii;
  if (!IsAscii(text)) {
    ascii = AsciiDigits(text);
    text = ascii;
  }
  text = Strip(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  bool underscore_may_lead = false;
  if (text.size() > 1 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      base = named;
      text.remove_prefix(2);
      underscore_may_lead = true;
    } else if (base == 0 &&
               text.find_first_not_of("0_") != std::string_view::npos) {
      return false;
    }
  }
  if (base == 0) base = 10;
  std::string digits;
  bool after_digit = underscore_may_lead;
  for (const char c : text) {
    if (c == '_') {
      if (!after_digit) return false;
      after_digit = false;
    } else {
      digits += c;
      after_digit = true;
    }
  }
  if (digits.empty() || !after_digit) return false;
  if (negative) digits.insert(digits.begin(), '-');
  if (digits.starts_with("--") || digits.starts_with("-+")) return false;
  const auto result =
      std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (result.ec == std::errc::result_out_of_range) {
    Fail("the integer {} is beyond 64 bits", digits);
  }
  return result.ec == std::errc() &&
         result.ptr == digits.data() + digits.size() &&
         (negative || digits[0] != '-');
}

bool ParsePythonFloat(std::string_view text, double& out) {
  std::string ascii;
  if (!IsAscii(text)) {
    ascii = AsciiDigits(text);
    text = ascii;
  }
  text = Strip(text);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_') {
      if (i == 0 || !digit(i - 1) || !digit(i + 1)) return false;
      continue;
    }
    plain +=
        static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
  }
  std::string_view body = plain;
  bool negative = false;
  if (!body.empty() && (body[0] == '-' || body[0] == '+')) {
    negative = body[0] == '-';
    body.remove_prefix(1);
  }
  if (body == "inf" || body == "infinity") {
    out = HUGE_VAL;
  } else if (body == "nan") {
    out = NAN;
  } else {
    if (body.empty() ||
        body.find_first_not_of("0123456789.e+-") != std::string_view::npos ||
        body[0] == '+' || body[0] == '-') {
      return false;
    }
    const std::string copy(body);
    char* end = nullptr;
    out = std::strtod(copy.c_str(), &end);
    if (end != copy.c_str() + copy.size()) return false;
  }
  if (negative) out = -out;
  return true;
}

namespace {

Value Abs(Interpreter&, const Value& value, const Args& args) {
  const Params params("abs", args, {});
  if (value.Is(Kind::kFloat)) return Value::Float(std::fabs(value.real()));
  if (!value.IsIntegral()) {
    Fail("bad operand type for abs(): '{}'", TypeName(value));
  }
  if (value.integer() == INT64_MIN) Fail("the integer is beyond 64 bits");
  return Value::Int(std::abs(value.integer()));
}

Value Attr(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("attr", args, {"name"}, 1);
  const std::string& name = params.Text(0);
  if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
  Value found = interpreter.FindAttribute(value, name);
  if (!found.Is(Kind::kMissing)) return found;
  return Value::Undefined(params[0], Value::About::kAttribute, value.kind());
}

Value Default(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("default", args, {"default_value", "boolean"});
  if (!value.Is(Kind::kUndefined) &&
      !(params.Truth(1, false) && !value.Truth())) {
    return value;
  }
  return params.Has(0) ? params[0] : interpreter.Text("");
}

// The filters that are the string method of their name over str(value).
template <std::string (*kMap)(std::string_view)>
Value MapText(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("filter", args, {});
  return interpreter.Text(kMap(interpreter.Str(value)),
                          value.Is(Kind::kString) && value.markup());
}

// jinja2's title: words begin behind spaces, hyphens and opening brackets.
std::string TitleWords(std::string_view text) {
  std::string out;
  std::string rest;
  bool begins = true;
  const auto flush = [&] {
    out += ToLower(rest);
    rest.clear();
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, pos);
    const std::string_view piece = text.substr(begin, pos - begin);
    const bool separator =
        IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separator) {
      flush();
      out += piece;
      begins = true;
    } else if (begins) {
      out += ToUpper(piece);
      begins = false;
    } else {
      rest += piece;
    }
  }
  flush();
  return out;
}

Value Trim(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("trim", args, {"chars"});
  const std::string text = interpreter.Str(value);
  const std::string* characters =
      params.HasValue(0) ? &params.Text(0) : nullptr;
  return interpreter.Text(
      std::string(StripCharacters(text, characters, true, true)),
      value.Is(Kind::kString) && value.markup());
}

Value Center(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("center", args, {"width"});
  const Value text = interpreter.Text(interpreter.Str(value));
  Args inner;
  inner.positional.push_back(Value::Int(params.Int(0, 80)));
  return FindMethod(Kind::kString, "center")
      ->function(interpreter, text, inner);
}

Value ReplaceFilter(Interpreter& interpreter, const Value& value,
                    const Args& args) {
  const Params params("replace", args, {"old", "new", "count"}, 2);
  const int64_t count = params.HasValue(2) ? params.Int(2, -1) : -1;
  return interpreter.Text(ReplaceText(interpreter, interpreter.Str(value),
                                      interpreter.Str(params[0]),
                                      interpreter.Str(params[1]), count));
}

Value ToText(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("string", args, {});
  if (value.Is(Kind::kString)) return value;
  return interpreter.Text(interpreter.Str(value));
}

Value Safe(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("safe", args, {});
  return interpreter.Text(interpreter.Str(value), true);
}

Value EscapeFilter(Interpreter& interpreter, const Value& value,
                   const Args& args) {
  const Params params("escape", args, {});
  return interpreter.Text(Escape(interpreter, value), true);
}

Value ForceEscape(Interpreter& interpreter, const Value& value,
                  const Args& args) {
  const Params params("forceescape", args, {});
  return interpreter.Text(
      Escape(interpreter, interpreter.Text(interpreter.Str(value))), true);
}

int64_t IntFromFloat(double d) {
  if (!(d >= -9223372036854775808.0 && d < 9223372036854775808.0)) {
    Fail("the integer part of {} is beyond 64 bits", ReprOfFloat(d));
  }
  return static_cast<int64_t>(d);
}

Value ToInt(Interpreter&, const Value& value, const Args& args) {
  const Params params("int", args, {"default", "base"});
  const Value otherwise = params.Has(0) ? params[0] : Value::Int(0);
  switch (value.kind()) {
    case Kind::kInt:
    case Kind::kBool:
      return Value::Int(value.integer());
    case Kind::kFloat:
      // An infinity raises OverflowError in int(), which jinja2 lets pass.
      if (std::isnan(value.real())) return otherwise;
      if (std::isinf(value.real())) Fail("cannot convert infinity to int");
      return Value::Int(IntFromFloat(value.real()));
    case Kind::kString: {
      // Of a base that int() refuses, the text is tried as a float.
      const int64_t base = !params.Has(1)           ? 10
                           : params[1].IsIntegral() ? params.Int(1, 0)
                                                    : -1;
      int64_t number = 0;
      if (base != 0 && (base < 2 || base > 36)) {
        number = 0;
      } else if (ParsePythonInt(value.text(), static_cast<int>(base), number)) {
        return Value::Int(number);
      }
      double real = 0;
      if (!ParsePythonFloat(value.text(), real) || !std::isfinite(real)) {
        return otherwise;
      }
      return Value::Int(IntFromFloat(real));
    }
    case Kind::kUndefined:
      throw Failure(value.UndefinedMessage());
    default:
      return otherwise;
  }
}

Value ToFloat(Interpreter&, const Value& value, const Args& args) {
  const Params params("float", args, {"default"});
  if (value.IsNumber()) return Value::Float(value.real());
  if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
  double real = 0;
  if (value.Is(Kind::kString) && ParsePythonFloat(value.text(), real)) {
    return Value::Float(real);
  }
  return params.Has(0) ? params[0] : Value::Float(0.0);
}

// round() of a float to decimals: the nearest, ties to even, as of the exact
// value of the float.
double RoundTo(double d, int64_t precision) {
  if (!std::isfinite(d) || precision > 323) return d;
  if (precision < -308) return std::copysign(0.0, d);
  if (precision >= 0) {
    const std::string text =
        fmt::format("{:.{}f}", d, static_cast<int>(precision));
    return std::strtod(text.c_str(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(d / scale) * scale;
}

Value Round(Interpreter&, const Value& value, const Args& args) {
  const Params params("round", args, {"precision", "method"});
  const int64_t precision = params.Int(0, 0);
  const std::string method = params.Has(1) ? params.Text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    Fail("round: the method must be common, ceil or floor");
  }
  if (!value.IsNumber()) {
    if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
    Fail("round: a {} cannot be rounded", TypeName(value));
  }
  if (method == "common") {
    if (value.Is(Kind::kFloat)) {
      return Value::Float(RoundTo(value.real(), precision));
    }
    if (precision >= 0) return Value::Int(value.integer());
    // Ties to even, as round() of an int.
    if (precision < -18) return Value::Int(0);
    int64_t scale = 1;
    for (int64_t i = 0; i < -precision; ++i) scale *= 10;
    int64_t quotient = value.integer() / scale;
    int64_t rest = value.integer() % scale;
    if (rest < 0) {
      rest += scale;
      --quotient;
    }
    if (rest > scale - rest || (rest == scale - rest && quotient % 2 != 0)) {
      ++quotient;
    }
    int64_t result = 0;
    if (__builtin_mul_overflow(quotient, scale, &result)) {
      Fail("the result is an integer beyond 64 bits");
    }
    return Value::Int(result);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.real() * scale;
  const double whole =
      method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  if (!std::isfinite(whole)) Fail("round: the value is not finite");
  // math.ceil gives an int, so a zero has no sign.
  return Value::Float((whole == 0 ? 0.0 : whole) / scale);
}

Value FormatFilter(Interpreter& interpreter, const Value& value,
                   const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    Fail("format: positional and keyword arguments do not go together");
  }
  const Value format = interpreter.Text(interpreter.Str(value));
  if (args.named.empty()) {
    return PercentFormat(interpreter, format,
                         Value::Tuple(interpreter.heap(), args.positional));
  }
  auto* dict = new MappingObject(interpreter.heap());
  const Value values = Value::Own(Kind::kDict, dict);
  for (const auto& [name, argument] : args.named) {
    dict->Set(interpreter.Text(name), argument);
  }
  return PercentFormat(interpreter, format, values);
}

Value Indent(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("indent", args, {"width", "first", "blank"});
  if (!value.Is(Kind::kString)) {
    if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
    Fail("indent: expected str, found {}", TypeName(value));
  }
  std::string indention;
  if (params.Has(0) && params[0].Is(Kind::kString)) {
    indention = params[0].text();
  } else {
    const int64_t width = params.Int(0, 4);
    if (width > 0) {
      interpreter.heap().CheckString(static_cast<size_t>(width));
      indention.assign(static_cast<size_t>(width), ' ');
    }
  }
  const bool blank = params.Truth(2, false);
  const std::string text = value.text() + "\n";
  std::string out = params.Truth(1, false) ? indention : std::string();
  bool first = true;
  for (const std::string_view line : SplitLines(text, false)) {
    if (!first) {
      out += '\n';
      if (blank || !line.empty()) out += indention;
    }
    first = false;
    out += line;
    interpreter.heap().CheckString(out.size());
  }
  return interpreter.Text(std::move(out), value.markup());
}

Value Truncate(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("truncate", args,
                      {"length", "killwords", "end", "leeway"});
  const int64_t length = params.Int(0, 255);
  const std::string end = params.Has(2) ? params.Text(2) : "...";
  const int64_t leeway = params.HasValue(3) ? params.Int(3, 5) : 5;
  const auto end_size = static_cast<int64_t>(CodePointCount(end));
  if (length < end_size) Fail("truncate: expected length >= {}", end_size);
  if (leeway < 0) Fail("truncate: expected leeway >= 0");
  const int64_t size = interpreter.Length(value);
  if (size <= length || size - length <= leeway) return value;
  if (!value.Is(Kind::kString)) {
    Fail("truncate: expected str, found {}", TypeName(value));
  }
  std::string_view text = value.text();
  text = text.substr(0, OffsetOf(text, static_cast<size_t>(length - end_size)));
  if (!params.Truth(1, false)) {
    const size_t space = text.rfind(' ');
    if (space != std::string_view::npos) text = text.substr(0, space);
  }
  return interpreter.Text(std::string(text) + end);
}

Value WordCount(Interpreter& interpreter, const Value& value,
                const Args& args) {
  const Params params("wordcount", args, {});
  const std::string text = interpreter.Str(value);
  int64_t count = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, pos);
    const bool word = c == '_' || IsAlnum(c);
    count += word && !in_word;
    in_word = word;
  }
  return Value::Int(count);
}

std::string UrlQuote(std::string_view text, bool for_query) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~' ||
        (c == '/' && !for_query)) {
      out += c;
    } else if (c == ' ' && for_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

Value UrlEncode(Interpreter& interpreter, const Value& value,
                const Args& args) {
  const Params params("urlencode", args, {});
  if (value.Is(Kind::kString) || !Cursor::IsIterable(value)) {
    return interpreter.Text(UrlQuote(interpreter.Str(value), false));
  }
  std::string out;
  const auto add = [&](const Value& key, const Value& item) {
    if (!out.empty()) out += '&';
    out += UrlQuote(interpreter.Str(key), true) + "=" +
           UrlQuote(interpreter.Str(item), true);
  };
  if (value.Is(Kind::kDict)) {
    for (size_t i = 0; i < value.size(); ++i) {
      add(value.KeyAt(i), value.ValueAt(i));
    }
  } else {
    for (const Value& pair : interpreter.ToVector(value)) {
      const std::vector<Value> parts = interpreter.ToVector(pair);
      if (parts.size() != 2) Fail("urlencode: expected pairs");
      add(parts[0], parts[1]);
    }
  }
  return interpreter.Text(std::move(out));
}

Value XmlAttr(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("xmlattr", args, {"autospace"});
  if (!value.Is(Kind::kDict)) {
    Fail("xmlattr: expected dict, found {}", TypeName(value));
  }
  std::string out;
  for (size_t i = 0; i < value.size(); ++i) {
    const Value item = value.ValueAt(i);
    if (item.Is(Kind::kNone) || item.Is(Kind::kUndefined)) continue;
    const Value key = value.KeyAt(i);
    if (!key.Is(Kind::kString)) Fail("xmlattr: names must be strings");
    if (key.text().find_first_of(" \t\n\v\f\r/>=") != std::string::npos) {
      Fail("xmlattr: invalid character in attribute name {}",
           ReprOfText(key.text()));
    }
    if (!out.empty()) out += ' ';
    out += Escape(interpreter, key) + "=\"" + Escape(interpreter, item) + "\"";
  }
  if (params.Truth(0, true) && !out.empty()) out.insert(0, 1, ' ');
  return interpreter.Text(std::move(out));
}

Value FileSizeFormat(Interpreter& interpreter, const Value& value,
                     const Args& args) {
  const Params params("filesizeformat", args, {"binary"});
  double bytes = 0;
  if (value.IsNumber()) {
    bytes = value.real();
  } else if (!value.Is(Kind::kString) ||
             !ParsePythonFloat(value.text(), bytes)) {
    Fail("filesizeformat: expected a number, found {}", TypeName(value));
  }
  const bool binary = params.Truth(0, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return interpreter.Text("1 Byte");
  if (bytes < base) {
    return interpreter.Text(fmt::format("{} Bytes", IntFromFloat(bytes)));
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; bytes >= unit && i + 1 < kPrefixes.size(); ++i) unit *= base;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return interpreter.Text(fmt::format("{:.1f} {}{}B", base * bytes / unit,
                                      prefix, binary ? "i" : ""));
}

template <const char* const& kName>
Value Unsupported(Interpreter&, const Value&, const Args&) {
  Fail("the filter '{}' is not supported", kName);
}

constexpr const char* kPprint = "pprint";
constexpr const char* kStripTags = "striptags";
constexpr const char* kUrlize = "urlize";
constexpr const char* kWordWrap = "wordwrap";

}  // namespace

const std::vector<FilterEntry>& TextFilters() {
  static const std::vector<FilterEntry> kFilters = {
      {"abs", Abs},
      {"attr", Attr},
      {"capitalize", MapText<ToCapitalized>},
      {"center", Center},
      {"d", Default},
      {"default", Default},
      {"e", EscapeFilter},
      {"escape", EscapeFilter},
      {"filesizeformat", FileSizeFormat},
      {"float", ToFloat},
      {"forceescape", ForceEscape},
      {"format", FormatFilter},
      {"indent", Indent},
      {"int", ToInt},
      {"lower", MapText<ToLower>},
      {"pprint", Unsupported<kPprint>},
      {"replace", ReplaceFilter},
      {"round", Round},
      {"safe", Safe},
      {"string", ToText},
      {"striptags", Unsupported<kStripTags>},
      {"title", MapText<TitleWords>},
      {"trim", Trim},
      {"truncate", Truncate},
      {"upper", MapText<ToUpper>},
      {"urlencode", UrlEncode},
      {"urlize", Unsupported<kUrlize>},
      {"wordcount", WordCount},
      {"wordwrap", Unsupported<kWordWrap>},
      {"xmlattr", XmlAttr},
  };
  return kFilters;
}

}  // namespace rbln::jinja
