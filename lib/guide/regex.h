// Regular expressions as automata: the syntax that ECMAScript and Python have
// in common, for patterns from strangers.
//
// Nothing is ever searched with backtracking: a pattern becomes an automaton of
// bounded size, or an error. Known are characters, `.`, classes with ranges and
// negation, \d \w \s and their negations, the escapes of control characters,
// \xHH \uHHHH \u{H...}, groups (plain, (?:) and named ones), alternation,
// * + ? {m} {m,} {m,n} and the lazy forms, which mean the same set of texts, ^
// and $. Refused by name are look-around, backreferences, \b, \p{...},
// possessive quantifiers and flags.
//
// Where the two languages differ, the set is what both accept: \d \w \s are
// ASCII, and `.` is not \n, \r, U+2028 or U+2029. $ is the very end.
#pragma once

#include <string>
#include <string_view>

#include "guide/char_dfa.h"

namespace rbln {

enum class RegexUse {
  kWhole,   // the whole text must match
  kSearch,  // a match anywhere in the text is enough, as in JSON Schema
};

// `pattern` is UTF-8. Throws Error(kUsage), `where` first, on a pattern that is
// malformed, not supported or too large.
CharDfa RegexDfa(std::string_view pattern, RegexUse use,
                 const std::string& where);

}  // namespace rbln
