#include "text/tokenizer_utf8.h"

#include <array>
#include <cstring>

namespace rbln {
namespace {

// The characters U+0000 to U+0143 hold the whole alphabet.
constexpr int kAlphabetEnd = 256 + 68;

struct ByteLevelTables {
  struct Encoded {
    char bytes[2] = {};
    uint8_t length = 0;
  };
  std::array<char32_t, 256> to_char;
  std::array<Encoded, 256> to_utf8;
  std::array<int16_t, kAlphabetEnd> to_byte;
};

ByteLevelTables MakeByteLevelTables() {
  ByteLevelTables tables;
  tables.to_byte.fill(-1);
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') ||
                           (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t c = printable ? static_cast<char32_t>(byte) : next++;
    tables.to_char[byte] = c;
    tables.to_byte[c] = static_cast<int16_t>(byte);
    std::string utf8;
    AppendUtf8(c, &utf8);
    auto& encoded = tables.to_utf8[byte];
    encoded.length = static_cast<uint8_t>(utf8.size());
    std::memcpy(encoded.bytes, utf8.data(), utf8.size());
  }
  return tables;
}

const ByteLevelTables& Tables() {
  static const ByteLevelTables tables = MakeByteLevelTables();
  return tables;
}

}  // namespace

void AppendUtf8(char32_t c, std::string* out) {
  const auto add = [&](char32_t byte) {
    out->push_back(static_cast<char>(byte));
  };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6);
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3F));
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

Utf8Prefix ClassifyUtf8(std::string_view bytes) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(bytes[i]);
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Utf8Prefix::kValid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Prefix::kInvalid, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte is bound further by overlong forms, surrogates and the end
  // of Unicode.
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Utf8Prefix::kIncomplete, i};
    if (byte(i) < low || byte(i) > high) return {Utf8Prefix::kInvalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Prefix::kValid, length};
}

size_t ValidUtf8Length(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    if (bytes.size() - at >= 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Prefix prefix = ClassifyUtf8(bytes.substr(at));
    if (prefix.kind != Utf8Prefix::kValid) break;
    at += prefix.length;
  }
  return at;
}

size_t AppendMendedUtf8(std::string_view bytes, bool final, std::string* out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t valid = ValidUtf8Length(bytes.substr(at));
    out->append(bytes, at, valid);
    at += valid;
    if (at == bytes.size()) break;
    const Utf8Prefix prefix = ClassifyUtf8(bytes.substr(at));
    if (prefix.kind == Utf8Prefix::kIncomplete && !final) break;
    *out += kReplacementCharacter;
    at += prefix.length;
  }
  return at;
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

char32_t ByteLevelChar(unsigned char byte) { return Tables().to_char[byte]; }

void AppendByteLevel(std::string_view bytes, std::string* out) {
  const ByteLevelTables& tables = Tables();
  const size_t start = out->size();
  out->resize(start + 2 * bytes.size());
  char* to = out->data() + start;
  for (const char c : bytes) {
    const auto& encoded = tables.to_utf8[static_cast<unsigned char>(c)];
    to[0] = encoded.bytes[0];
    to[1] = encoded.bytes[1];
    to += encoded.length;
  }
  out->resize(to - out->data());
}

void AppendByteLevelBytes(std::string_view text, std::string* out) {
  const ByteLevelTables& tables = Tables();
  const size_t start = out->size();
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextChar(text, &at);
    const int byte = c < kAlphabetEnd ? tables.to_byte[c] : -1;
    if (byte < 0) {
      out->replace(start, std::string::npos, text);
      return;
    }
    out->push_back(static_cast<char>(byte));
  }
}

}  // namespace rbln
