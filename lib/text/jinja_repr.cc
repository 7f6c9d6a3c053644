// str() and repr() of values, as Python writes them.
#include <charconv>
#include <cmath>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"
#include "text/jinja_value.h"

namespace rbln::jinja {
namespace {

// Sequences and dicts in text can grow past any bound by repetition; a check
// every so often keeps the string within its own.
void CheckGrowth(Heap& heap, const std::string& out) {
  heap.Charge(1);
  heap.CheckString(out.size());
}

void AppendItems(Heap& heap, std::string& out, const Value& value) {
  for (size_t i = 0; i < value.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(heap, out, value.ItemAt(i));
    CheckGrowth(heap, out);
  }
}

void AppendDict(Heap& heap, std::string& out, const Value& value) {
  out += '{';
  for (size_t i = 0; i < value.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(heap, out, value.KeyAt(i));
    out += ": ";
    AppendRepr(heap, out, value.ValueAt(i));
    CheckGrowth(heap, out);
  }
  out += '}';
}

void AppendView(Heap& heap, std::string& out, const ViewObject& view) {
  out += view.what == ViewObject::What::kKeys     ? "dict_keys(["
         : view.what == ViewObject::What::kValues ? "dict_values(["
                                                  : "dict_items([";
  for (size_t i = 0; i < view.dict.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(heap, out, view.At(i));
    CheckGrowth(heap, out);
  }
  out += "])";
}

}  // namespace

std::string ReprOfFloat(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), d,
                                 std::chars_format::scientific)
                       .ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  const char* sign = text.data() + e + 1;
  std::from_chars(sign + (*sign == '+'), end, exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    out +=
        fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - count), '0');
    out += ".0";
  } else {
    out += digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
           digits.substr(static_cast<size_t>(exponent) + 1);
  }
  return out;
}

std::string ReprOfText(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, pos);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      AppendCodePoint(out, c);
    } else if (c <= 0xFF) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c <= 0xFFFF) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  return out += quote;
}

void AppendStr(Heap& heap, std::string& out, const Value& value) {
  if (value.Is(Kind::kString)) {
    heap.ChargeBytes(value.text().size());
    heap.CheckString(out.size() + value.text().size());
    out += value.text();
  } else if (!value.Is(Kind::kUndefined)) {
    AppendRepr(heap, out, value);
  }
}

void AppendRepr(Heap& heap, std::string& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      out += "Undefined";
      return;
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += value.integer() ? "True" : "False";
      return;
    case Kind::kInt:
      out += std::to_string(value.integer());
      return;
    case Kind::kFloat:
      out += ReprOfFloat(value.real());
      return;
    case Kind::kString: {
      heap.ChargeBytes(value.text().size());
      std::string text = ReprOfText(value.text());
      if (value.markup()) text = "Markup(" + text + ")";
      heap.CheckString(out.size() + text.size());
      out += text;
      return;
    }
    case Kind::kList:
      out += '[';
      AppendItems(heap, out, value);
      out += ']';
      return;
    case Kind::kTuple:
      out += '(';
      AppendItems(heap, out, value);
      out += value.size() == 1 ? ",)" : ")";
      return;
    case Kind::kDict:
      AppendDict(heap, out, value);
      return;
    case Kind::kRange: {
      const auto& range = value.As<RangeObject>();
      out += fmt::format("range({}, {}", range.start, range.stop);
      if (range.step != 1) out += fmt::format(", {}", range.step);
      out += ')';
      return;
    }
    case Kind::kView:
      AppendView(heap, out, value.As<ViewObject>());
      return;
    case Kind::kMacro:
      out += "<Macro " + MacroName(value) + ">";
      return;
    case Kind::kLoop:
      out += LoopText(value);
      return;
    default:
      // Python shows an address here, or a form that no template can want.
      Fail("a {} has no text", TypeName(value));
  }
}

std::string Str(Heap& heap, const Value& value) {
  std::string out;
  AppendStr(heap, out, value);
  return out;
}

}  // namespace rbln::jinja
