#include "base/nearest.h"

#include <algorithm>

namespace rbln {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t best = std::min(
          {row[j] + 1, row[j + 1] + 1, corner + (a[i] == b[j] ? 0 : 1)});
      corner = row[j + 1];
      row[j + 1] = best;
    }
  }
  return row[b.size()];
}

std::string Nearest(std::string_view word,
                    const std::vector<std::string>& known) {
  // Beyond this, it is another word.
  size_t least = 2 + word.size() / 4;
  std::string nearest;
  for (const std::string& one : known) {
    const size_t distance = EditDistance(word, one);
    if (distance < least) {
      least = distance;
      nearest = one;
    }
  }
  return nearest;
}

}  // namespace rbln
