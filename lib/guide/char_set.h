// Sets of Unicode characters, as ranges.
#pragma once

#include <cstdint>
#include <vector>

namespace rbln {

// Characters `lo` to `hi`, both included.
struct CharRange {
  char32_t lo;
  char32_t hi;
  bool operator==(const CharRange&) const = default;
};

// Sorted ranges with a gap between each two. Surrogates are never in a set:
// they are no characters, and UTF-8 cannot spell them.
using CharSet = std::vector<CharRange>;

inline constexpr char32_t kMaxChar = 0x10FFFF;

// Any ranges, in any order, as a set.
CharSet MakeCharSet(std::vector<CharRange> ranges);
CharSet AllChars();
CharSet Complement(const CharSet& set);
CharSet Intersection(const CharSet& a, const CharSet& b);

}  // namespace rbln
