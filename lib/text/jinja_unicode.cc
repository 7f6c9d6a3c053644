#include "text/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "text/jinja_unicode_tables.h"

namespace rbln::jinja {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kCapitalIWithDot = 0x130;

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

template <size_t N>
bool InRanges(const CodePointRange (&ranges)[N], char32_t c) {
  auto it = std::upper_bound(
      std::begin(ranges), std::end(ranges), c,
      [](char32_t value, const CodePointRange& r) { return value < r.first; });
  return it != std::begin(ranges) && c <= std::prev(it)->last;
}

const SpecialCase* FindSpecialCase(char32_t c) {
  auto it = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases),
                             c, [](const SpecialCase& s, char32_t value) {
                               return s.code_point < value;
                             });
  return it != std::end(kSpecialCases) && it->code_point == c ? it : nullptr;
}

char32_t SimpleLower(char32_t c) {
  return static_cast<char32_t>(
      utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void AppendUtf8(std::string& out, const char8_t* text) {
  out += reinterpret_cast<const char*>(text);
}

void AppendUpper(std::string& out, char32_t c) {
  if (const SpecialCase* special = FindSpecialCase(c)) {
    AppendUtf8(out, special->upper);
  } else {
    AppendCodePoint(out, static_cast<char32_t>(utf8proc_toupper(
                             static_cast<utf8proc_int32_t>(c))));
  }
}

void AppendTitle(std::string& out, char32_t c) {
  if (const SpecialCase* special = FindSpecialCase(c)) {
    AppendUtf8(out, special->title);
  } else {
    AppendCodePoint(out, static_cast<char32_t>(utf8proc_totitle(
                             static_cast<utf8proc_int32_t>(c))));
  }
}

bool IsCased(char32_t c) { return IsLower(c) || IsUpper(c) || IsTitle(c); }

// Unicode's Case_Ignorable: looked through when a sigma's place is asked for.
bool IsCaseIgnorable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  constexpr char32_t kWordMarks[] = {
      '\'',   '.',    ':',    0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
      0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  return std::find(std::begin(kWordMarks), std::end(kWordMarks), c) !=
         std::end(kWordMarks);
}

// A capital sigma that ends a word becomes the final form.
bool IsFinalSigma(std::string_view text, size_t begin, size_t end) {
  bool after_cased = false;
  while (begin > 0) {
    begin = PreviousOffset(text, begin);
    size_t pos = begin;
    const char32_t c = NextCodePoint(text, pos);
    if (IsCaseIgnorable(c)) continue;
    after_cased = IsCased(c);
    break;
  }
  if (!after_cased) return false;
  while (end < text.size()) {
    const char32_t c = NextCodePoint(text, end);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

// Lower case of the code point `c` that stands at [begin, end) of `text`.
void AppendLower(std::string& out, char32_t c, std::string_view text,
                 size_t begin, size_t end) {
  if (c == kCapitalSigma) {
    AppendCodePoint(out,
                    IsFinalSigma(text, begin, end) ? kFinalSigma : kSmallSigma);
  } else if (c == kCapitalIWithDot) {
    out += "i\u0307";
  } else {
    AppendCodePoint(out, SimpleLower(c));
  }
}

}  // namespace

char32_t NextCodePoint(std::string_view text, size_t& pos) {
  const auto first = static_cast<unsigned char>(text[pos]);
  if (first < 0x80) {
    ++pos;
    return first;
  }
  utf8proc_int32_t c = -1;
  const utf8proc_ssize_t length = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data() + pos),
      static_cast<utf8proc_ssize_t>(text.size() - pos), &c);
  if (length <= 0) {
    ++pos;
    return 0xFFFD;
  }
  pos += static_cast<size_t>(length);
  return static_cast<char32_t>(c);
}

size_t PreviousOffset(std::string_view text, size_t pos) {
  // A code point is at most four bytes; a stray continuation byte is one.
  for (size_t back = 1; back <= 4 && back <= pos; ++back) {
    size_t at = pos - back;
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    size_t next = at;
    NextCodePoint(text, next);
    return next == pos ? at : pos - 1;
  }
  return pos - 1;
}

void AppendCodePoint(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), buffer);
  out.append(reinterpret_cast<const char*>(buffer),
             static_cast<size_t>(length));
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80;
  });
}

size_t CodePointCount(std::string_view text) {
  size_t count = 0;
  for (size_t pos = 0; pos < text.size(); ++count) NextCodePoint(text, pos);
  return count;
}

size_t OffsetOf(std::string_view text, size_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) NextCodePoint(text, pos);
  return pos;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsLineBreak(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 ||
         c == 0x2028 || c == 0x2029;
}

bool IsAlpha(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool IsDecimal(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(char32_t c) { return IsDecimal(c) || InRanges(kOtherDigits, c); }

bool IsNumeric(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return InRanges(kOtherNumeric, c);
  }
}

bool IsLower(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LL || InRanges(kOtherLowercase, c);
}

bool IsUpper(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LU || InRanges(kOtherUppercase, c);
}

bool IsTitle(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LT; }

bool IsPrintable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

bool IsIdentifier(std::string_view text) {
  bool first = true;
  for (size_t pos = 0; pos < text.size(); first = false) {
    const char32_t c = NextCodePoint(text, pos);
    if (c == '_' || IsAlpha(c)) continue;
    const utf8proc_category_t category = Category(c);
    if (category == UTF8PROC_CATEGORY_NL) continue;
    if (first ||
        (category != UTF8PROC_CATEGORY_ND && category != UTF8PROC_CATEGORY_MN &&
         category != UTF8PROC_CATEGORY_MC &&
         category != UTF8PROC_CATEGORY_PC)) {
      return false;
    }
  }
  return !text.empty();
}

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    AppendUpper(out, NextCodePoint(text, pos));
  }
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, pos);
    AppendLower(out, c, text, begin, pos);
  }
  return out;
}

std::string ToTitle(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, pos);
    if (in_word) {
      AppendLower(out, c, text, begin, pos);
    } else {
      AppendTitle(out, c);
    }
    in_word = IsCased(c);
  }
  return out;
}

std::string ToCapitalized(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, pos);
    if (begin == 0) {
      AppendTitle(out, c);
    } else {
      AppendLower(out, c, text, begin, pos);
    }
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(text, pos);
    if (IsUpper(c)) {
      AppendLower(out, c, text, begin, pos);
    } else if (IsLower(c)) {
      AppendUpper(out, c);
    } else {
      AppendCodePoint(out, c);
    }
  }
  return out;
}

std::string CaseFold(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, pos);
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 8,
                                UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      AppendCodePoint(out, static_cast<char32_t>(folded[i]));
    }
  }
  return out;
}

std::string_view StripLeft(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    if (!IsSpace(NextCodePoint(text, pos))) return text.substr(begin);
  }
  return {};
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = PreviousOffset(text, text.size());
    size_t pos = begin;
    if (!IsSpace(NextCodePoint(text, pos))) break;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace rbln::jinja
