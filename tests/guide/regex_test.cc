#include "guide/regex.h"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include "guide/accepts.h"

namespace rbln {
namespace {

TEST_CASE("a pattern matches the whole text") {
  struct Case {
    const char* pattern;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const std::vector<Case> cases = {
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"a|bc|", {"a", "bc", ""}, {"ab", "b"}},
      {"(a|b)*c+", {"c", "abac", "ccc"}, {"", "ab", "ca"}},
      {"(?:ab){2,3}", {"abab", "ababab"}, {"ab", "abababab"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}", {"aa", "aaaaa"}, {"a"}},
      {"a{0}b", {"b"}, {"ab"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"a", "cb"}},
      {"[a-c0-9_]+", {"a9_c"}, {"d", ""}},
      {"[^a-c]", {"d", "\n", "é"}, {"a", "", "dd"}},
      {"[]-]", {}, {}},
      {R"([\]\-a]+)", {"]-a"}, {"\\"}},
      {"[a-]+", {"a-"}, {"b"}},
      {R"(\d{3}-\d{4})", {"555-1234"}, {"5551234", "555-123a"}},
      {R"(\w+\s\w+)", {"ab cd", "a\tb"}, {"ab", "é x"}},
      {R"(\D\W\S)", {"a-b"}, {"1-b", "aab", "a- "}},
      {R"(\.\*\+\?\(\)\[\]\{\}\|\^\$\\\/)", {".*+?()[]{}|^$\\/"}, {""}},
      {R"(\x41\u00e9\u{1F600}\uD83D\uDE00)",
       {"A\u00e9\U0001F600\U0001F600"},
       {"A"}},
      {R"(\t\n\r\f\v\0)", {std::string("\t\n\r\f\v\0", 6)}, {"\t"}},
      {"a.c", {"abc", "a\u20acc"}, {"a\nc", "a\rc", "ac"}},
      {"^abc$", {"abc"}, {"xabc", "abcx"}},
      {"^a|b$", {"a", "b"}, {"ab"}},
      {"a^b", {}, {"ab", "a", "b"}},
      {"(^a|b)c$", {"ac", "bc"}, {"c"}},
      {"x*$^x*", {""}, {"x"}},
      {"a{x}{", {"a{x}{"}, {"a"}},
      {"a{1,2", {"a{1,2"}, {"a"}},
      {"(?P<n>a)(?<m>b)", {"ab"}, {"a"}},
      {"[あ-ん]+", {"あいん"}, {"ア", "a"}},
      {"[\\u0000-\\u{10FFFF}]", {"a", "é", "€", "😀"}, {"\xff", "\xed\xa0\x80"}},
  };
  for (const Case& one : cases) {
    CAPTURE(one.pattern);
    if (one.yes.empty() && one.no.empty()) {
      CHECK_FALSE(Problem(RegexSpec(one.pattern)).empty());
      continue;
    }
    if (one.yes.empty()) {
      CHECK(Problem(RegexSpec(one.pattern)) ==
            "guided_regex: no text can match it");
      continue;
    }
    Acceptor accepts(RegexSpec(one.pattern));
    for (const std::string& text : one.yes) {
      CAPTURE(text);
      CHECK(accepts(text));
    }
    for (const std::string& text : one.no) {
      CAPTURE(text);
      CHECK_FALSE(accepts(text));
    }
  }
}

TEST_CASE("a search finds a match anywhere") {
  const auto found = [](const char* pattern, const std::u32string& text) {
    return RegexDfa(pattern, RegexUse::kSearch, "x").Accepts(text);
  };
  CHECK(found("b", U"abc"));
  CHECK(found("^ab", U"abc"));
  CHECK_FALSE(found("^b", U"abc"));
  CHECK(found("bc$", U"abc"));
  CHECK_FALSE(found("b$", U"abc"));
  CHECK(found("^a|c$", U"axx"));
  CHECK(found("^a|c$", U"xxc"));
  CHECK_FALSE(found("^a|c$", U"xax"));
  CHECK(found("", U""));
  CHECK(found("x*", U"\n"));
}

TEST_CASE("what is malformed or not supported is refused by name and place") {
  struct Case {
    const char* pattern;
    const char* message;
  };
  for (const Case& one : std::vector<Case>{
           {"a(b", "a ( without its ), at character 4 of the pattern"},
           {"ab)", "a ) without its (, at character 3 of the pattern"},
           {"[ab", "a [ without its ], at character 1 of the pattern"},
           {"*a", "nothing to repeat, at character 1 of the pattern"},
           {"{2}", "nothing to repeat, at character 1 of the pattern"},
           {"a**",
            "a quantifier behind a quantifier, at character 3 of the pattern"},
           {"a{3,2}",
            "counts must be in order, got {3,2}, at character 2 of the "
            "pattern"},
           {"a{,2}",
            "{,n} means different things; write {0,n}, at character 3 of the "
            "pattern"},
           {"a{1,100000}",
            "a count above 10000, at character 2 of the pattern"},
           {"(?=a)",
            "look-around is not supported, at character 1 of the "
            "pattern"},
           {"(?<!a)",
            "look-around is not supported, at character 1 of the "
            "pattern"},
           {R"((a)\1)",
            "backreferences (\\1) are not supported, at character 6 of the "
            "pattern"},
           {R"(\bx)", "\\b is not supported, at character 3 of the pattern"},
           {R"(\p{L})",
            "Unicode properties (\\p) are not supported, at character 3 of the "
            "pattern"},
           {R"(\q)",
            "the escape \\q is not known, at character 3 of the pattern"},
           {R"(\uD800)",
            "half of a surrogate pair, at character 7 of the "
            "pattern"},
           {"a++",
            "possessive quantifiers are not supported, at character 3 "
            "of the pattern"},
           {"(?i)a", "(?i is not supported, at character 2 of the pattern"},
           {"[b-a]",
            "a range that goes backwards, at character 5 of the pattern"},
           {R"([\d-z])", "a range of classes, at character 6 of the pattern"},
           {"[[:alpha:]]",
            "POSIX classes ([:name:]) are not supported, at character 2 of the "
            "pattern"},
           {"a\\",
            "a backslash with nothing behind it, at character 3 of the "
            "pattern"},
           {"^*", "a quantifier behind ^ or $, at character 2 of the pattern"},
       }) {
    CAPTURE(one.pattern);
    CHECK(Problem(RegexSpec(one.pattern)) ==
          "guided_regex: " + std::string(one.message));
  }
  CHECK(Problem(RegexSpec("\xff")) == "guided_regex: not valid UTF-8");
}

TEST_CASE("hostile patterns end in an error, soon") {
  const auto start = std::chrono::steady_clock::now();
  const std::string deep(1'000'000, '(');
  CHECK(Problem(RegexSpec(deep)).find("groups inside each other") !=
        std::string::npos);
  CHECK(Problem(RegexSpec("((((a{9999}){9999}){9999}){9999})"))
            .find("too large once its repetitions") != std::string::npos);
  CHECK(Problem(RegexSpec("((((){9999}){9999}){9999})"))
            .find("too large once its repetitions") != std::string::npos);
  CHECK(Problem(RegexSpec("(a|b)*a(a|b){20}")).find("more than 20000 states") !=
        std::string::npos);
  CHECK(Problem(RegexSpec("((a?){9000}){5}")).find("guided_regex") == 0);
  // Backtracking would never come to an end of this one.
  Acceptor accepts(RegexSpec("(a*)*(a|aa)*(a|a)*b"));
  CHECK_FALSE(accepts(std::string(10000, 'a')));
  CHECK(accepts(std::string(10000, 'a') + "b"));
  const auto spent = std::chrono::steady_clock::now() - start;
  CHECK(std::chrono::duration<double>(spent).count() < 30);
}

}  // namespace
}  // namespace rbln
