#include "guide/regex_parser.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

constexpr int kMaxGroups = 100;    // inside each other
constexpr int kMaxRepeat = 10000;  // a count of a quantifier

const CharSet kDigits = {{'0', '9'}};
const CharSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpace = {{'\t', '\r'}, {' ', ' '}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class Parser {
 public:
  Parser(std::string_view pattern, const std::string& where) : where_(where) {
    if (!IsUtf8(pattern)) throw UsageError("{}: not valid UTF-8", where);
    for (size_t at = 0; at < pattern.size();) {
      text_.push_back(NextChar(pattern, &at));
    }
  }

  RegexNode Parse() {
    RegexNode node = Choice(0);
    if (!AtEnd()) Fail("a ) without its (");
    return node;
  }

 private:
  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
    throw UsageError("{}: {}, at character {} of the pattern", where_,
                     fmt::format(format, std::forward<Args>(args)...),
                     std::min(at_, text_.size()) + 1);
  }
  std::string Show(char32_t c) const {
    std::string text;
    AppendUtf8(c, &text);
    return text;
  }

  bool AtEnd() const { return at_ == text_.size(); }
  char32_t Peek(size_t ahead = 0) const {
    // No character has this value.
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kMaxChar + 1;
  }
  bool Take(char32_t c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool Take(std::u32string_view word) {
    if (std::u32string_view(text_).substr(at_, word.size()) != word) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  RegexNode Choice(int depth) {
    if (depth > kMaxGroups) {
      Fail("more than {} groups inside each other", kMaxGroups);
    }
    RegexNode node;
    node.kind = RegexNode::kChoice;
    do {
      RegexNode branch;
      while (!AtEnd() && Peek() != '|' && Peek() != ')') {
        branch.children.push_back(Quantified(depth));
      }
      node.children.push_back(std::move(branch));
    } while (Take('|'));
    if (node.children.size() > 1) return node;
    RegexNode only = std::move(node.children[0]);
    return only;
  }

  RegexNode Quantified(int depth) {
    RegexNode node = Atom(depth);
    const size_t before = at_;
    int min = 0;
    int max = -1;
    if (Take('*')) {
    } else if (Take('+')) {
      min = 1;
    } else if (Take('?')) {
      max = 1;
    } else if (!Counts(&min, &max)) {
      return node;
    }
    if (node.kind == RegexNode::kBegin || node.kind == RegexNode::kEnd) {
      at_ = before;
      Fail("a quantifier behind ^ or $");
    }
    Take('?');  // lazy
    if (Peek() == '+') Fail("possessive quantifiers are not supported");
    int unused = 0;
    const size_t second = at_;
    if (Peek() == '*' || Peek() == '?' || Counts(&unused, &unused)) {
      at_ = second;
      Fail("a quantifier behind a quantifier");
    }
    RegexNode repeat;
    repeat.kind = RegexNode::kRepeat;
    repeat.min = min;
    repeat.max = max;
    repeat.children.push_back(std::move(node));
    return repeat;
  }

  // {m}, {m,} or {m,n}; anything else in braces is text.
  bool Counts(int* min, int* max) {
    if (Peek() != '{') return false;
    const size_t start = at_++;
    if (Peek() == ',' && Peek(1) >= '0' && Peek(1) <= '9') {
      Fail("{{,n}} means different things; write {{0,n}}");
    }
    const std::optional<int> low = Count();
    std::optional<int> high = low;
    if (low && Take(',')) high = Peek() == '}' ? -1 : Count();
    if (!low || !high || !Take('}')) {
      at_ = start;
      return false;
    }
    if (*low > kMaxRepeat || *high > kMaxRepeat) {
      at_ = start;
      Fail("a count above {}", kMaxRepeat);
    }
    if (*high != -1 && *low > *high) {
      at_ = start;
      Fail("counts must be in order, got {{{},{}}}", *low, *high);
    }
    *min = *low;
    *max = *high;
    return true;
  }

  std::optional<int> Count() {
    if (Peek() < '0' || Peek() > '9') return std::nullopt;
    int64_t value = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      value =
          std::min<int64_t>(value * 10 + (text_[at_++] - '0'), kMaxRepeat + 1);
    }
    return static_cast<int>(value);
  }

  RegexNode Atom(int depth) {
    const char32_t c = Peek();
    if (c == '(') return Group(depth);
    if (c == '*' || c == '+' || c == '?') Fail("nothing to repeat");
    int unused = 0;
    const size_t start = at_;
    if (Counts(&unused, &unused)) {
      at_ = start;
      Fail("nothing to repeat");
    }
    ++at_;
    RegexNode node;
    node.kind = RegexNode::kSet;
    switch (c) {
      case '^':
        node.kind = RegexNode::kBegin;
        return node;
      case '$':
        node.kind = RegexNode::kEnd;
        return node;
      case '.':
        node.set = Complement(kLineEnds);
        return node;
      case '[':
        node.set = Class();
        return node;
      case '\\':
        node.set = Escape(/*in_class=*/false);
        return node;
      default:
        node.set = {{c, c}};
        return node;
    }
  }

  RegexNode Group(int depth) {
    const size_t start = at_;
    ++at_;
    if (Take(U"?=") || Take(U"?!") || Take(U"?<=") || Take(U"?<!")) {
      at_ = start;
      Fail("look-around is not supported");
    }
    if (Take(U"?P=")) {
      at_ = start;
      Fail("backreferences are not supported");
    }
    if (Take(U"?P<") || Take(U"?<")) {
      while (!AtEnd() && Peek() != '>') ++at_;
      if (!Take('>')) Fail("a group's name without its end");
    } else if (Peek() == '?' && !Take(U"?:")) {
      Fail("(?{} is not supported", Show(Peek(1) > kMaxChar ? ' ' : Peek(1)));
    }
    RegexNode node = Choice(depth + 1);
    if (!Take(')')) Fail("a ( without its )");
    return node;
  }

  // Behind the backslash, which is taken.
  CharSet Escape(bool in_class) {
    if (AtEnd()) Fail("a backslash with nothing behind it");
    const char32_t c = text_[at_++];
    const auto one = [](char32_t value) { return CharSet{{value, value}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return Complement(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return Complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return Complement(kSpace);
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return one(Hex(2));
      case 'u':
        return one(CodePoint());
      case 'b':
        if (in_class) return one('\b');
        Fail("\\b is not supported");
      case 'B':
      case 'A':
      case 'Z':
      case 'z':
        Fail("\\{} is not supported", Show(c));
      case 'p':
      case 'P':
        Fail("Unicode properties (\\{}) are not supported", Show(c));
      case '0':
        if (Peek() < '0' || Peek() > '9') return one(0);
        Fail("octal escapes are not supported");
      default:
        break;
    }
    if ((c >= '1' && c <= '9') || c == 'k') {
      Fail("backreferences (\\{}) are not supported", Show(c));
    }
    if (c < 0x80 && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) {
      Fail("the escape \\{} is not known", Show(c));
    }
    return one(c);
  }

  char32_t Hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char32_t c = Peek();
      if (c >= '0' && c <= '9') {
        value = value * 16 + (c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value * 16 + (c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        value = value * 16 + (c - 'A' + 10);
      } else {
        Fail("{} hexadecimal digits are wanted", digits);
      }
    }
    return value;
  }

  // Behind \u: HHHH, a pair of surrogates, or {H...}.
  char32_t CodePoint() {
    char32_t value = 0;
    if (Take('{')) {
      int digits = 0;
      while (!Take('}')) {
        value = value * 16 + Hex(1);
        if (++digits > 6 || value > kMaxChar) Fail("no such character");
      }
      if (digits == 0) Fail("no such character");
    } else {
      value = Hex(4);
      if (value >= 0xD800 && value < 0xDC00 && Take(U"\\u")) {
        const char32_t low = Hex(4);
        if (low < 0xDC00 || low > 0xDFFF) Fail("half of a surrogate pair");
        value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (value >= 0xD800 && value <= 0xDFFF) Fail("half of a surrogate pair");
    return value;
  }

  CharSet Class() {
    const size_t start = at_ - 1;
    const bool negated = Take('^');
    if (Peek() == ']') {
      Fail("an empty class; for the character itself write \\]");
    }
    std::vector<CharRange> ranges;
    while (!Take(']')) {
      if (AtEnd()) {
        at_ = start;
        Fail("a [ without its ]");
      }
      if (Peek() == '[' && Peek(1) == ':') {
        Fail("POSIX classes ([:name:]) are not supported");
      }
      const CharSet first = ClassItem();
      const bool is_range =
          Peek() == '-' && Peek(1) != ']' && at_ + 1 < text_.size();
      if (!is_range) {
        ranges.insert(ranges.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      const CharSet last = ClassItem();
      const auto single = [](const CharSet& set) {
        return set.size() == 1 && set[0].lo == set[0].hi;
      };
      if (!single(first) || !single(last)) Fail("a range of classes");
      if (first[0].lo > last[0].lo) Fail("a range that goes backwards");
      ranges.push_back({first[0].lo, last[0].lo});
    }
    const CharSet set = MakeCharSet(std::move(ranges));
    return negated ? Complement(set) : set;
  }

  CharSet ClassItem() {
    const char32_t c = text_[at_++];
    if (c == '\\') return Escape(/*in_class=*/true);
    return {{c, c}};
  }

  const std::string& where_;
  std::u32string text_;
  size_t at_ = 0;
};

}  // namespace

RegexNode ParseRegex(std::string_view pattern, const std::string& where) {
  return Parser(pattern, where).Parse();
}

}  // namespace rbln
