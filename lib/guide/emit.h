// Automata over characters as automata over bytes.
#pragma once

#include <string>
#include <string_view>

#include "guide/char_dfa.h"
#include "guide/grammar.h"

namespace rbln {

enum class TextForm {
  kPlain,  // characters as UTF-8
  // As inside a JSON string: quotes, backslashes and control characters are
  // escaped, and nothing else is.
  kJsonString,
};

// Reads the texts of `dfa` on the way from one state to another.
void EmitDfa(GrammarBuilder& builder, const CharDfa& dfa, TextForm form,
             int from, int to);
// One character of `set`, as UTF-8.
void EmitChars(GrammarBuilder& builder, const CharSet& set, int from, int to);

// `text` as a JSON string in the form that kJsonString reads, with its quotes.
std::string JsonString(std::string_view text);

}  // namespace rbln
