// Strings as Python sees them: sequences of code points, with Python's ideas of
// space, letters, digits and case, over UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rbln::jinja {

// The code point at byte `pos`, which moves past it. A byte that is no UTF-8
// counts as U+FFFD, so that every string can be walked to its end.
char32_t NextCodePoint(std::string_view text, size_t& pos);
// The byte at which the code point that ends before `pos` starts; pos > 0.
size_t PreviousOffset(std::string_view text, size_t pos);
void AppendCodePoint(std::string& out, char32_t c);

bool IsAscii(std::string_view text);
size_t CodePointCount(std::string_view text);
// The byte offset of code point `index`; text.size() where there are fewer.
size_t OffsetOf(std::string_view text, size_t index);

// str.isspace and friends, of one code point.
bool IsSpace(char32_t c);
bool IsLineBreak(char32_t c);  // as str.splitlines breaks
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
bool IsTitle(char32_t c);
bool IsPrintable(char32_t c);
inline bool IsAlnum(char32_t c) { return IsAlpha(c) || IsNumeric(c); }
bool IsIdentifier(std::string_view text);

// Full case mapping (one code point may become several).
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string ToTitle(std::string_view text);        // str.title
std::string ToCapitalized(std::string_view text);  // str.capitalize
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);

// Without leading and trailing white space.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
inline std::string_view Strip(std::string_view text) {
  return StripLeft(StripRight(text));
}

}  // namespace rbln::jinja
