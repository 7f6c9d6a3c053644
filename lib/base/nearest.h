// What was probably meant by a word that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rbln {

// The one of `known` that is fewest edits (Levenshtein's) from `word`; empty
// where none is near.
std::string Nearest(std::string_view word,
                    const std::vector<std::string>& known);

}  // namespace rbln
