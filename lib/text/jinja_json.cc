// The tojson filter: Python's json.dumps as transformers calls it.
#include <cmath>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Interpreter& interpreter, const Params& params)
      : interpreter_(interpreter),
        ensure_ascii_(params.Truth(0, false)),
        sort_keys_(params.Truth(3, false)) {
    if (params.HasValue(1)) {
      indented_ = true;
      if (params[1].Is(Kind::kString)) {
        indent_ = params[1].text();
      } else {
        const int64_t width = params.Int(1, 0);
        if (width > 0) {
          interpreter.heap().CheckString(static_cast<size_t>(width));
          indent_.assign(static_cast<size_t>(width), ' ');
        }
      }
      item_separator_ = ",";
    }
    if (params.HasValue(2)) {
      const std::vector<Value> parts = interpreter.ToVector(params[2]);
      if (parts.size() != 2 || !parts[0].Is(Kind::kString) ||
          !parts[1].Is(Kind::kString)) {
        Fail("tojson: separators must be two strings");
      }
      item_separator_ = parts[0].text();
      key_separator_ = parts[1].text();
    }
  }

  std::string Write(const Value& value) {
    WriteValue(value);
    return std::move(out_);
  }

 private:
  void WriteValue(const Value& value) {
    interpreter_.heap().Charge(1);
    interpreter_.heap().CheckString(out_.size());
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.integer() ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += std::to_string(value.integer());
        return;
      case Kind::kFloat:
        out_ += FloatText(value.real());
        return;
      case Kind::kString:
        WriteString(value.text());
        return;
      case Kind::kList:
      case Kind::kTuple:
        WriteList(value);
        return;
      case Kind::kDict:
        WriteDict(value);
        return;
      default:
        Fail("tojson: an object of type {} has no JSON", TypeName(value));
    }
  }

  static std::string FloatText(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return ReprOfFloat(d);
  }

  void NewLine() {
    if (!indented_) return;
    out_ += '\n';
    interpreter_.heap().CheckString(out_.size() + level_ * indent_.size());
    for (size_t i = 0; i < level_; ++i) out_ += indent_;
  }

  void WriteList(const Value& list) {
    if (list.size() == 0) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      NewLine();
      WriteValue(list.ItemAt(i));
    }
    --level_;
    NewLine();
    out_ += ']';
  }

  void WriteDict(const Value& dict) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    std::vector<size_t> order(dict.size());
    if (sort_keys_) {
      std::vector<Value> keys;
      for (size_t i = 0; i < dict.size(); ++i) keys.push_back(dict.KeyAt(i));
      order = SortedOrder(interpreter_, keys, false);
    } else {
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    }
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      NewLine();
      WriteKey(dict.KeyAt(order[i]));
      out_ += key_separator_;
      WriteValue(dict.ValueAt(order[i]));
    }
    --level_;
    NewLine();
    out_ += '}';
  }

  void WriteKey(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        WriteString(key.text());
        return;
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_ += '"';
        WriteValue(key);
        out_ += '"';
        return;
      default:
        Fail("tojson: keys must be str, int, float, bool or None, not {}",
             TypeName(key));
    }
  }

  void WriteString(std::string_view text) {
    interpreter_.heap().ChargeBytes(text.size());
    out_ += '"';
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      const char32_t c = NextCodePoint(text, pos);
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += static_cast<char>(c);
      } else if (c < 0x20 || (ensure_ascii_ && c > 0x7E)) {
        WriteEscape(c);
      } else {
        out_ += text.substr(begin, pos - begin);
      }
    }
    out_ += '"';
    interpreter_.heap().CheckString(out_.size());
  }

  void WriteEscape(char32_t c) {
    switch (c) {
      case '\n':
        out_ += "\\n";
        return;
      case '\r':
        out_ += "\\r";
        return;
      case '\t':
        out_ += "\\t";
        return;
      case '\b':
        out_ += "\\b";
        return;
      case '\f':
        out_ += "\\f";
        return;
      default:
        break;
    }
    auto code = static_cast<uint32_t>(c);
    if (code > 0xFFFF) {
      code -= 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (code >> 10),
                          0xDC00 + (code & 0x3FF));
    } else {
      out_ += fmt::format("\\u{:04x}", code);
    }
  }

  Interpreter& interpreter_;
  std::string out_;
  bool ensure_ascii_;
  bool sort_keys_;
  bool indented_ = false;
  std::string indent_;
  std::string item_separator_ = ", ";
  std::string key_separator_ = ": ";
  size_t level_ = 0;
};

}  // namespace

Value ToJsonFilter(Interpreter& interpreter, const Value& value,
                   const Args& args) {
  const Params params("tojson", args,
                      {"ensure_ascii", "indent", "separators", "sort_keys"});
  return interpreter.Text(JsonWriter(interpreter, params).Write(value));
}

}  // namespace rbln::jinja
