// Sets of texts as deterministic automata over characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "guide/char_set.h"

namespace rbln {

// Most states of one automaton: what bounds time and memory for patterns whose
// automaton is exponential in their length.
inline constexpr int kMaxDfaStates = 20000;

// Begins in state 0. Every state can still reach an end, so that no text leads
// into a blind alley; no states at all: no text is in the set.
struct CharDfa {
  struct Edge {
    CharRange range;
    int to;
  };
  struct State {
    std::vector<Edge> edges;  // sorted, disjoint
    bool accepts = false;
  };
  std::vector<State> states;

  bool empty() const { return states.empty(); }
  bool Accepts(const std::u32string& text) const;
};

// Drops the states from which no end can be reached, or which cannot be.
void Trim(CharDfa& dfa);

// Texts of `min` to `max` characters (nullopt: any number). `max` is below
// kMaxDfaStates.
CharDfa LengthDfa(int min, std::optional<int> max);

// Every text but `words`, which are UTF-8.
CharDfa AnyTextBut(const std::vector<std::string>& words);

// What is in both. Throws Error(kUsage), `where` first, beyond kMaxDfaStates.
CharDfa Intersection(const CharDfa& a, const CharDfa& b,
                     const std::string& where);

}  // namespace rbln
