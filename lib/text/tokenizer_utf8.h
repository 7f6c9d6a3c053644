// UTF-8 as the tokenizer needs it: reading characters of text that is known to
// be well formed, and mending text that is not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rbln {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Bytes of the character that starts with `lead`, in well-formed text.
inline int Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `text[*at]`, in well-formed text; moves `*at` past it.
inline char32_t NextChar(std::string_view text, size_t* at) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[*at + i]));
  };
  char32_t c = byte(0);
  const int length = Utf8Length(text[*at]);
  switch (length) {
    case 1:
      break;
    case 2:
      c = (c & 0x1F) << 6 | (byte(1) & 0x3F);
      break;
    case 3:
      c = (c & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
      break;
    default:
      c = (c & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
          (byte(3) & 0x3F);
  }
  *at += length;
  return c;
}

// Moves `*at` to the start of the character before it, which must exist.
inline char32_t PreviousChar(std::string_view text, size_t* at) {
  do --*at;
  while ((static_cast<unsigned char>(text[*at]) & 0xC0) == 0x80);
  size_t start = *at;
  return NextChar(text, &start);
}

void AppendUtf8(char32_t c, std::string* out);

// What stands at the start of `bytes`.
struct Utf8Prefix {
  enum Kind { kValid, kInvalid, kIncomplete };
  Kind kind;
  // kValid: of the character; kInvalid: of the maximal ill-formed subpart (one
  // U+FFFD); kIncomplete: all bytes left, the start of a character.
  size_t length;
};
Utf8Prefix ClassifyUtf8(std::string_view bytes);

// The length of the longest well-formed start of `bytes`.
size_t ValidUtf8Length(std::string_view bytes);
inline bool IsUtf8(std::string_view bytes) {
  return ValidUtf8Length(bytes) == bytes.size();
}

// Appends `bytes` with every maximal ill-formed subpart as U+FFFD. Returns how
// many bytes were taken: with `final` all of them, else all but the start of a
// character at the end that may yet be completed.
size_t AppendMendedUtf8(std::string_view bytes, bool final, std::string* out);

// Unicode's White_Space property.
bool IsWhiteSpace(char32_t c);

// The byte-level alphabet of GPT-2: a printable character for each byte.
// https://github.com/openai/gpt-2/blob/master/src/encoder.py
char32_t ByteLevelChar(unsigned char byte);
// Appends `bytes` written in the byte-level alphabet.
void AppendByteLevel(std::string_view bytes, std::string* out);
// Appends the bytes that `text` stands for; where a character is outside the
// alphabet, `text` as it is.
void AppendByteLevelBytes(std::string_view text, std::string* out);

}  // namespace rbln
