// A regular expression as a tree. See regex.h for the language.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "guide/char_set.h"

namespace rbln {

struct RegexNode {
  enum Kind {
    kSet,     // one character of `set`
    kConcat,  // `children` after each other; without any: the empty text
    kChoice,  // one of `children`
    kRepeat,  // children[0], `min` to `max` times; max -1: any number
    kBegin,   // ^
    kEnd,     // $
  };
  Kind kind = kConcat;
  CharSet set;
  std::vector<RegexNode> children;
  int min = 0;
  int max = 0;
};

// Throws Error(kUsage), `where` first. The tree is at most a few hundred deep.
RegexNode ParseRegex(std::string_view pattern, const std::string& where);

}  // namespace rbln
