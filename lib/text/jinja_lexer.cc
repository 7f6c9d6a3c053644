#include "text/jinja_lexer.h"

#include <charconv>
#include <cstdlib>

#include "text/jinja_unicode.h"

namespace rbln::jinja {
namespace {

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

// "\r\n" and "\r" become "\n".
std::string NormalizeNewlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();
    text_ = source_;
  }

  std::vector<Token> Run() {
    while (pos_ < text_.size()) LexRoot();
    Add(TokenType::kEnd);
    return std::move(tokens_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void Error(fmt::format_string<Args...> format, Args&&... args) {
    throw SyntaxFailure(line_,
                        fmt::format(format, std::forward<Args>(args)...));
  }

  char At(size_t pos) const { return pos < text_.size() ? text_[pos] : '\0'; }
  bool StartsWith(size_t pos, std::string_view what) const {
    return text_.substr(pos, what.size()) == what;
  }

  void Add(TokenType type, std::string text = {}) {
    tokens_.push_back({type, line_, std::move(text)});
  }

  void CountLines(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) line_ += text_[i] == '\n';
  }

  // Moves to `end`, which ends a tag.
  void LeaveTag(size_t end) {
    CountLines(pos_, end);
    pos_ = end;
    at_line_start_ = end > 0 && text_[end - 1] == '\n';
  }

  size_t SkipSpace(size_t pos) const {
    while (pos < text_.size()) {
      size_t next = pos;
      if (!IsSpace(NextCodePoint(text_, next))) break;
      pos = next;
    }
    return pos;
  }

  // If a tag of one word stands at `pos` ("{%- raw %}"), the offset behind the
  // word's white space, and its first sign.
  bool MatchWordTag(size_t pos, std::string_view word, char* sign,
                    size_t* end) const {
    if (!StartsWith(pos, "{%")) return false;
    pos += 2;
    *sign = At(pos) == '-' || At(pos) == '+' ? At(pos++) : '\0';
    pos = SkipSpace(pos);
    if (!StartsWith(pos, word)) return false;
    *end = SkipSpace(pos + word.size());
    return true;
  }

  // The offset behind the end tag `close` at `pos`, with the space that goes
  // with it; 0 if it is not there.
  size_t MatchClose(size_t pos, std::string_view close, bool plus,
                    bool trim) const {
    if (At(pos) == '-' && StartsWith(pos + 1, close)) {
      return SkipSpace(pos + 1 + close.size());
    }
    if (plus && At(pos) == '+' && StartsWith(pos + 1, close)) {
      return pos + 1 + close.size();
    }
    if (!StartsWith(pos, close)) return 0;
    pos += close.size();
    return trim && At(pos) == '\n' ? pos + 1 : pos;
  }

  // Adds the text before a tag that begins at `end`, stripped as its sign says.
  void AddData(size_t end, char sign, bool is_variable) {
    std::string_view data = text_.substr(pos_, end - pos_);
    if (sign == '-') {
      data = StripRight(data);
    } else if (sign != '+' && !is_variable) {
      const size_t newline = data.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || at_line_start_) && Strip(data.substr(start)).empty()) {
        data = data.substr(0, start);
      }
    }
    if (!data.empty()) Add(TokenType::kData, std::string(data));
    CountLines(pos_, end);
    pos_ = end;
  }

  void LexRoot() {
    size_t open = pos_;
    for (;; ++open) {
      open = text_.find('{', open);
      if (open == std::string_view::npos) {
        Add(TokenType::kData, std::string(text_.substr(pos_)));
        pos_ = text_.size();
        return;
      }
      const char next = At(open + 1);
      if (next == '{' || next == '%' || next == '#') break;
    }
    char sign = '\0';
    size_t word_end = 0;
    if (MatchWordTag(open, "raw", &sign, &word_end)) {
      if (const size_t end = MatchClose(word_end, "%}", false, false)) {
        AddData(open, sign, false);
        LeaveTag(end);
        LexRaw();
        return;
      }
    }
    const char tag = At(open + 1);
    sign = At(open + 2);
    if (sign != '-' && sign != '+') sign = '\0';
    AddData(open, sign, tag == '{');
    LeaveTag(open + (sign == '\0' ? 2 : 3));
    if (tag == '#') {
      LexComment();
    } else {
      LexTag(tag == '{');
    }
  }

  void LexComment() {
    const size_t hash = text_.find("#}", pos_);
    if (hash == std::string_view::npos) Error("a comment has no end '#}}'");
    const char before = hash > pos_ ? text_[hash - 1] : '\0';
    const size_t close = before == '-' || before == '+' ? hash - 1 : hash;
    LeaveTag(MatchClose(close, "#}", true, true));
  }

  void LexRaw() {
    for (size_t open = text_.find("{%", pos_); open != std::string_view::npos;
         open = text_.find("{%", open + 1)) {
      char sign = '\0';
      size_t word_end = 0;
      if (!MatchWordTag(open, "endraw", &sign, &word_end)) continue;
      if (const size_t end = MatchClose(word_end, "%}", true, true)) {
        AddData(open, sign, false);
        LeaveTag(end);
        return;
      }
    }
    Error("a raw block has no '{{% endraw %}}'");
  }

  void LexTag(bool is_variable) {
    Add(is_variable ? TokenType::kVariableBegin : TokenType::kBlockBegin);
    std::string open_brackets;
    for (;;) {
      if (open_brackets.empty()) {
        const size_t end = is_variable ? MatchClose(pos_, "}}", false, false)
                                       : MatchClose(pos_, "%}", true, true);
        if (end != 0) {
          Add(is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd);
          LeaveTag(end);
          return;
        }
      }
      const size_t token = SkipSpace(pos_);
      if (token != pos_) {
        LeaveTag(token);
        continue;
      }
      if (pos_ >= text_.size()) {
        // jinja2's parser, too, finds the template to end inside a tag.
        return;
      }
      const char c = text_[pos_];
      if (IsAsciiDigit(c)) {
        LexNumber();
      } else if (c == '\'' || c == '"') {
        LexString(c);
      } else if (!LexName()) {
        LexOperator(open_brackets);
      }
    }
  }

  // The end of digits with single underscores between them.
  size_t SkipDigits(size_t pos, bool (*is_digit)(char)) const {
    while (is_digit(At(pos)) || (At(pos) == '_' && is_digit(At(pos + 1)))) {
      ++pos;
    }
    return pos;
  }

  void LexNumber() {
    size_t end = SkipDigits(pos_, IsAsciiDigit);
    const bool after_dot = pos_ > 0 && text_[pos_ - 1] == '.';
    bool real = false;
    if (!after_dot) {
      size_t more = end;
      if (At(end) == '.' && IsAsciiDigit(At(end + 1))) {
        more = SkipDigits(end + 1, IsAsciiDigit);
        real = true;
      }
      if (At(more) == 'e' || At(more) == 'E') {
        const size_t sign = At(more + 1) == '+' || At(more + 1) == '-';
        if (IsAsciiDigit(At(more + 1 + sign))) {
          more = SkipDigits(more + 1 + sign, IsAsciiDigit);
          real = true;
        }
      }
      if (real) end = more;
    }
    int base = 10;
    if (!real && text_[pos_] == '0') {
      bool (*is_digit)(char) = [](char d) { return d == '0'; };
      const char kind = static_cast<char>(At(pos_ + 1) | 0x20);
      if (kind == 'b') {
        base = 2;
        is_digit = [](char d) { return d == '0' || d == '1'; };
      } else if (kind == 'o') {
        base = 8;
        is_digit = [](char d) { return d >= '0' && d <= '7'; };
      } else if (kind == 'x') {
        base = 16;
        is_digit = [](char d) {
          const char lower = static_cast<char>(d | 0x20);
          return IsAsciiDigit(d) || (lower >= 'a' && lower <= 'f');
        };
      }
      end = SkipDigits(pos_ + (base == 10 ? 1 : 2), is_digit);
      if (base != 10 && end == pos_ + 2) {
        base = 10;  // "0x" without digits is a 0 and a name
        end = pos_ + 1;
      }
    }
    std::string digits;
    for (size_t i = base == 10 ? pos_ : pos_ + 2; i < end; ++i) {
      if (text_[i] != '_') digits += text_[i];
    }
    Add(real ? TokenType::kFloat : TokenType::kInteger, digits);
    if (real) {
      tokens_.back().real = std::strtod(digits.c_str(), nullptr);
    } else {
      const auto result =
          std::from_chars(digits.data(), digits.data() + digits.size(),
                          tokens_.back().integer, base);
      if (result.ec != std::errc()) {
        Error("the integer {} is beyond 64 bits",
              text_.substr(pos_, end - pos_));
      }
    }
    pos_ = end;
  }

  bool LexName() {
    size_t end = pos_;
    while (end < text_.size()) {
      size_t next = end;
      const char32_t c = NextCodePoint(text_, next);
      if (c != '_' && (c < 0x80 ? !IsAlnum(c)
                                : !IsIdentifier("a" + std::string(text_.substr(
                                                          end, next - end))))) {
        break;
      }
      end = next;
    }
    if (end == pos_) return false;
    const std::string_view name = text_.substr(pos_, end - pos_);
    if (!IsIdentifier(name)) Error("'{}' is no name", name);
    Add(TokenType::kName, std::string(name));
    pos_ = end;
    return true;
  }

  void LexString(char quote) {
    size_t end = pos_ + 1;
    while (end < text_.size() && text_[end] != quote) {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size()) Error("a string has no closing {}", quote);
    Add(TokenType::kString, Unescape(text_.substr(pos_ + 1, end - pos_ - 1)));
    LeaveTag(end + 1);
  }

  std::string Unescape(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out += text[i++];
        continue;
      }
      const char c = text[i + 1];
      constexpr std::string_view kLetters = "\\'\"abfnrtv";
      constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
      i += 2;
      if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
        out += kMeanings[at];
      } else if (c == '\n') {
        // A line that goes on.
      } else if (c >= '0' && c <= '7') {
        size_t count = 1;
        while (count < 3 && i - 1 + count < text.size() &&
               text[i - 1 + count] >= '0' && text[i - 1 + count] <= '7') {
          ++count;
        }
        AppendNumber(out, text.substr(i - 1, count), 8, count);
        i += count - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        AppendNumber(out, text.substr(i, count), 16, count);
        i += count;
      } else if (c == 'N') {
        Error("character names (\\N) are not supported");
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void AppendNumber(std::string& out, std::string_view digits, int base,
                    size_t count) {
    uint32_t code = 0;
    const auto result = std::from_chars(
        digits.data(), digits.data() + digits.size(), code, base);
    if (digits.size() != count || result.ec != std::errc() ||
        result.ptr != digits.data() + digits.size()) {
      Error("a string has an escape without its {} digits", count);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      Error("a string has an escape that is no character: U+{:04X}", code);
    }
    AppendCodePoint(out, code);
  }

  void LexOperator(std::string& open_brackets) {
    constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    std::string op(1, text_[pos_]);
    for (const std::string_view candidate : kDouble) {
      if (StartsWith(pos_, candidate)) op = candidate;
    }
    if (op.size() == 1 && kSingle.find(op[0]) == std::string_view::npos) {
      size_t next = pos_;
      NextCodePoint(text_, next);
      Error("unexpected '{}'", text_.substr(pos_, next - pos_));
    }
    if (op == "(" || op == "[" || op == "{") {
      open_brackets += op == "(" ? ')' : op == "[" ? ']' : '}';
    } else if (op == ")" || op == "]" || op == "}") {
      if (open_brackets.empty()) Error("unexpected '{}'", op);
      if (open_brackets.back() != op[0]) {
        Error("unexpected '{}', expected '{}'", op, open_brackets.back());
      }
      open_brackets.pop_back();
    }
    Add(TokenType::kOperator, op);
    pos_ += op.size();
  }

  std::string source_;
  std::string_view text_;  // source_
  size_t pos_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // the last tag took its newline with it
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace rbln::jinja
