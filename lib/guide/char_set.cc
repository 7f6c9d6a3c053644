#include "guide/char_set.h"

#include <algorithm>

namespace rbln {
namespace {

constexpr CharRange kSurrogates = {0xD800, 0xDFFF};

}  // namespace

CharSet AllChars() {
  return {{0, kSurrogates.lo - 1}, {kSurrogates.hi + 1, kMaxChar}};
}

CharSet MakeCharSet(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](CharRange a, CharRange b) { return a.lo < b.lo; });
  CharSet merged;
  for (const CharRange& range : ranges) {
    if (range.lo > range.hi) continue;
    if (!merged.empty() && range.lo <= merged.back().hi + 1) {
      merged.back().hi = std::max(merged.back().hi, range.hi);
    } else {
      merged.push_back(range);
    }
  }
  return Intersection(merged, AllChars());
}

CharSet Complement(const CharSet& set) {
  CharSet result;
  char32_t next = 0;
  for (const CharRange& range : set) {
    if (range.lo > next) result.push_back({next, range.lo - 1});
    next = range.hi + 1;
  }
  if (next <= kMaxChar) result.push_back({next, kMaxChar});
  return Intersection(result, AllChars());
}

CharSet Intersection(const CharSet& a, const CharSet& b) {
  CharSet result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t lo = std::max(a[i].lo, b[j].lo);
    const char32_t hi = std::min(a[i].hi, b[j].hi);
    if (lo <= hi) result.push_back({lo, hi});
    if (a[i].hi < b[j].hi) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

}  // namespace rbln
