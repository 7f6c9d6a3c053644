// What was probably meant by a word that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rbln {

// Levenshtein's: how many letters to change, add or take away.
size_t EditDistance(std::string_view a, std::string_view b);

// The one of `known` that is fewest edits from `word`; empty where none is
// near.
std::string Nearest(std::string_view word,
                    const std::vector<std::string>& known);

}  // namespace rbln
