// The regular expressions of a tokenizer.json, which are written for Oniguruma,
// on PCRE2. Where the two read a pattern differently it is rewritten, or
// refused by name.
// Oniguruma's syntax: https://github.com/kkos/oniguruma/blob/master/doc/RE
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace rbln {

// The half-open range of bytes of a match.
struct TextRange {
  size_t begin;
  size_t end;
  bool empty() const { return begin == end; }
};

// A compiled pattern; may be used from many threads at once.
class Regex {
 public:
  // Throws Error(kind), `where` first, on a pattern that cannot be used.
  Regex(std::string_view pattern, const std::string& where, ErrorKind kind);
  // One that matches exactly `literal`, which must not be empty.
  static Regex Literal(std::string_view literal, const std::string& where,
                       ErrorKind kind);
  // A pattern of our own, in PCRE2's syntax and with its Unicode tables.
  static Regex Pcre2(std::string_view pattern, const std::string& where,
                     ErrorKind kind);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Goes through the matches in one text after another. For one thread; the
  // pattern must outlive it.
  class Matches {
   public:
    explicit Matches(const Regex& regex);
    ~Matches();
    Matches(const Matches&) = delete;
    Matches& operator=(const Matches&) = delete;
    // Begins with `text`, well-formed UTF-8 that must stay as it is.
    void Start(std::string_view text);
    // The next match after the last one; nullopt when there is none. Throws
    // when the pattern takes too many steps on this text.
    std::optional<TextRange> Next();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Regex(std::unique_ptr<const Code> code);
  static std::unique_ptr<const Code> Compile(std::string_view pattern,
                                             std::string_view translated,
                                             const std::string& where,
                                             ErrorKind kind);
  std::unique_ptr<const Code> code_;
};

// The pattern as PCRE2 is given it. For tests.
std::string TranslateRegex(std::string_view pattern, const std::string& where,
                           ErrorKind kind);

}  // namespace rbln
