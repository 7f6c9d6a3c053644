#include "text/tokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstring>

#include "text/tokenizer_unicode.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

// Steps and bytes that one match may take: far above what any tokenizer's
// pattern needs, far below a hang.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;

// Oniguruma's \w, as members of a class. Its table has the digits and
// fractions of Latin-1 too.
std::string Word() {
  return fmt::format(
      "\\p{{Alphabetic}}\\p{{M}}\\p{{Nd}}\\p{{Pc}}\\xB2\\xB3\\xB9\\xBC-\\xBE{}",
      kWordAdditions);
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where, ErrorKind kind)
      : pattern_(pattern), where_(where), kind_(kind) {}

  std::string Run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        Escape(false);
      } else if (c == '[') {
        Class();
      } else if (c == '(') {
        Group();
      } else if (c == '{') {
        Interval();
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void Refuse(std::string_view what) const {
    throw Error(kind_, fmt::format("{}: the pattern '{}' uses {}, which is not "
                                   "supported",
                                   where_, pattern_, what));
  }

  char At(size_t i) const {
    return at_ + i < pattern_.size() ? pattern_[at_ + i] : '\0';
  }

  void Group() {
    const std::string_view rest = pattern_.substr(at_);
    if (!rest.starts_with("(?")) {
      if (rest.starts_with("(*")) Refuse("(*");
      // Captures mean nothing here.
      out_ += "(?:";
      ++at_;
      return;
    }
    for (const std::string_view open :
         {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (rest.starts_with(open)) {
        out_ += open;
        at_ += open.size();
        return;
      }
    }
    Refuse(fmt::format("'{}'", rest.substr(0, 3)));
  }

  // A repetition {n}, {n,}, {,n} or {n,m}; anything else is a plain brace.
  void Interval() {
    size_t end = at_ + 1;
    while (end < pattern_.size() &&
           ((pattern_[end] >= '0' && pattern_[end] <= '9') ||
            pattern_[end] == ',')) {
      ++end;
    }
    const std::string_view inner = pattern_.substr(at_ + 1, end - at_ - 1);
    const bool interval = end < pattern_.size() && pattern_[end] == '}' &&
                          !inner.empty() && inner != "," &&
                          inner.find(',') == inner.rfind(',');
    if (!interval) {
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += inner[0] == ',' ? "{0" : "{";
    out_ += inner;
    out_ += '}';
    at_ = end + 1;
    // Oniguruma repeats the repetition here, PCRE2 makes it possessive.
    if (At(0) == '+') Refuse("'}+'");
  }

  void Class() {
    out_ += '[';
    ++at_;
    if (At(0) == '^') {
      out_ += '^';
      ++at_;
    }
    if (At(0) == ']') Refuse("']' first in a class");
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (pattern_[at_] == '[') Refuse("'[' in a class");
      if (pattern_[at_] == '&' && At(1) == '&') Refuse("'&&' in a class");
      if (pattern_[at_] == '\\') {
        Escape(true);
      } else {
        out_ += pattern_[at_++];
      }
    }
    if (at_ == pattern_.size()) Refuse("a class without an end");
    out_ += ']';
    ++at_;
  }

  void Escape(bool in_class) {
    const char c = At(1);
    at_ += 2;
    switch (c) {
      case 's':
        out_ += "\\p{White_Space}";
        return;
      case 'S':
        out_ += "\\P{White_Space}";
        return;
      case 'w':
        out_ += in_class ? Word() : fmt::format("[{}]", Word());
        return;
      case 'W':
        if (in_class) Refuse("'\\W' in a class");
        out_ += fmt::format("[^{}]", Word());
        return;
      case 'd':
        return Property("Nd", false, in_class);
      case 'D':
        return Property("Nd", true, in_class);
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        out_ += {'\\', c};
        return;
      case 'v':
        out_ += "\\x0B";
        return;
      case 'A':
      case 'z':
        if (in_class) Refuse(fmt::format("'\\{}' in a class", c));
        out_ += {'\\', c};
        return;
      case 'p':
      case 'P': {
        const size_t end = pattern_.find('}', at_);
        if (At(0) != '{' || end == std::string_view::npos) {
          Refuse(fmt::format("'\\{}' without a name in braces", c));
        }
        const std::string_view name = pattern_.substr(at_ + 1, end - at_ - 1);
        at_ = end + 1;
        return Property(name, c == 'P', in_class);
      }
      case 'u':
        return Code(4);
      case 'x':
        if (At(0) != '{') return Code(2);
        {
          const size_t end = pattern_.find('}', at_);
          if (end == std::string_view::npos) Refuse("'\\x{' without an end");
          ++at_;
          Code(end - at_);
          ++at_;
        }
        return;
      default:
        if (c > ' ' && c < 0x7F && std::strchr("0123456789", c) == nullptr &&
            !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) {
          out_ += {'\\', c};
          return;
        }
        if (c == ' ') {
          out_ += ' ';
          return;
        }
        Refuse(fmt::format("'\\{}'", c == '\0' ? ' ' : c));
    }
  }

  void Property(std::string_view name, bool negated, bool in_class) {
    for (const PropertyAddition& addition : kPropertyAdditions) {
      if (addition.name != name) continue;
      if (in_class && negated)
        Refuse(fmt::format("'\\P{{{}}}' in a class", name));
      // A script is meant as such, without its extensions.
      const std::string members = fmt::format(
          "\\p{{{}{}}}{}", name == "Han" ? "sc:" : "", name, addition.members);
      out_ += in_class  ? members
              : negated ? fmt::format("[^{}]", members)
                        : fmt::format("[{}]", members);
      return;
    }
    Refuse(fmt::format("the property '{}'", name));
  }

  // A character given as `digits` hexadecimal digits.
  void Code(size_t digits) {
    const std::string_view hex = pattern_.substr(at_, digits);
    if (hex.size() != digits || hex.empty() || hex.size() > 6 ||
        hex.find_first_not_of("0123456789abcdefABCDEF") !=
            std::string_view::npos) {
      Refuse(fmt::format("the character code '{}'", hex));
    }
    out_ += fmt::format("\\x{{{}}}", hex);
    at_ += digits;
  }

  std::string_view pattern_;
  const std::string& where_;
  ErrorKind kind_;
  size_t at_ = 0;
  std::string out_;
};

std::string Pcre2Message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct Regex::Code {
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;  // only read once it is made
  bool jit = false;
  std::string pattern;
  ErrorKind kind = ErrorKind::kUsage;
};

struct Regex::Matches::State {
  ~State() { pcre2_match_data_free(data); }
  const Code* code;
  std::string_view text;
  size_t at = 0;
  std::optional<size_t> last_end;
  pcre2_match_data* data = nullptr;
};

std::string TranslateRegex(std::string_view pattern, const std::string& where,
                           ErrorKind kind) {
  return Translator(pattern, where, kind).Run();
}

Regex::Regex(std::string_view pattern, const std::string& where, ErrorKind kind)
    : code_(Compile(pattern, TranslateRegex(pattern, where, kind), where,
                    kind)) {}

Regex Regex::Pcre2(std::string_view pattern, const std::string& where,
                   ErrorKind kind) {
  return Regex(Compile(pattern, pattern, where, kind));
}

Regex::Regex(std::unique_ptr<const Code> code) : code_(std::move(code)) {}

std::unique_ptr<const Regex::Code> Regex::Compile(std::string_view pattern,
                                                  std::string_view translated,
                                                  const std::string& where,
                                                  ErrorKind kind) {
  auto code = std::make_unique<Code>();
  code->pattern = pattern;
  code->kind = kind;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  // Bounds what a hostile pattern can make the compiler do.
  pcre2_set_max_pattern_length(context, 1 << 16);
  int error = 0;
  size_t offset = 0;
  code->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code->code == nullptr) {
    throw Error(kind, fmt::format("{}: the pattern '{}' cannot be used: {}",
                                  where, pattern, Pcre2Message(error)));
  }
  // Where the just-in-time compiler is missing the interpreter does the same.
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  code->context = pcre2_match_context_create(nullptr);
  if (code->context == nullptr) {
    throw ResourceError("no memory for matching '{}'", pattern);
  }
  pcre2_set_match_limit(code->context, kMatchLimit);
  pcre2_set_heap_limit(code->context, kHeapLimitKib);
  return code;
}

Regex Regex::Literal(std::string_view literal, const std::string& where,
                     ErrorKind kind) {
  std::string pattern;
  for (const char c : literal) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z') || c == ' ' ||
                       static_cast<unsigned char>(c) >= 0x80;
    if (plain) {
      pattern += c;
    } else {
      pattern += fmt::format("\\x{:02X}", c);
    }
  }
  return Regex(pattern, where, kind);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Regex::Matches::Matches(const Regex& regex)
    : state_(std::make_unique<State>()) {
  state_->code = regex.code_.get();
  state_->data =
      pcre2_match_data_create_from_pattern(regex.code_->code, nullptr);
  if (state_->data == nullptr) {
    throw ResourceError("no memory for matching '{}'", regex.code_->pattern);
  }
}

Regex::Matches::~Matches() = default;

void Regex::Matches::Start(std::string_view text) {
  state_->text = text;
  state_->at = 0;
  state_->last_end.reset();
}

std::optional<TextRange> Regex::Matches::Next() {
  State& s = *state_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(s.text.data());
  for (;;) {
    if (s.at > s.text.size()) return std::nullopt;
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (s.code->jit) {
      result = pcre2_jit_match(s.code->code, subject, s.text.size(), s.at,
                               PCRE2_NO_UTF_CHECK, s.data, s.code->context);
    }
    // The interpreter keeps its stack on the heap, and so goes further.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      result = pcre2_match(s.code->code, subject, s.text.size(), s.at,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s.data,
                           s.code->context);
    }
    if (result == PCRE2_ERROR_NOMATCH) {
      s.at = s.text.size() + 1;
      return std::nullopt;
    }
    if (result < 0) {
      throw Error(
          s.code->kind,
          fmt::format("tokenizer.json: the pattern '{}' cannot be "
                      "matched against a text of {} bytes: {}",
                      s.code->pattern, s.text.size(), Pcre2Message(result)));
    }
    const size_t* range = pcre2_get_ovector_pointer(s.data);
    const TextRange match{range[0], range[1]};
    // An empty match right behind the last one would be the last one again.
    if (match.empty() && s.last_end == match.end) {
      s.at += s.at < s.text.size() ? Utf8Length(s.text[s.at]) : 1;
      continue;
    }
    s.at = match.end;
    s.last_end = match.end;
    return match;
  }
}

}  // namespace rbln
