#include "guide/char_dfa.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

void AddEdges(CharDfa::State& state, const CharSet& set, int to) {
  for (const CharRange& range : set) state.edges.push_back({range, to});
}

}  // namespace

bool CharDfa::Accepts(const std::u32string& text) const {
  if (states.empty()) return false;
  int state = 0;
  for (const char32_t c : text) {
    const auto& edges = states[state].edges;
    const auto edge = std::find_if(edges.begin(), edges.end(), [c](auto& one) {
      return one.range.lo <= c && c <= one.range.hi;
    });
    if (edge == edges.end()) return false;
    state = edge->to;
  }
  return states[state].accepts;
}

void Trim(CharDfa& dfa) {
  const size_t size = dfa.states.size();
  std::vector<std::vector<int>> from(size);
  std::vector<char> ends(size);
  std::vector<int> todo;
  for (size_t i = 0; i < size; ++i) {
    for (const CharDfa::Edge& edge : dfa.states[i].edges) {
      from[edge.to].push_back(static_cast<int>(i));
    }
    if (dfa.states[i].accepts) todo.push_back(static_cast<int>(i));
  }
  while (!todo.empty()) {
    const int state = todo.back();
    todo.pop_back();
    if (ends[state]) continue;
    ends[state] = 1;
    todo.insert(todo.end(), from[state].begin(), from[state].end());
  }
  std::vector<int> renamed(size, -1);
  std::vector<int> order;
  const auto visit = [&](int state) {
    if (ends[state] && renamed[state] < 0) {
      renamed[state] = static_cast<int>(order.size());
      order.push_back(state);
    }
    return renamed[state];
  };
  if (size > 0) visit(0);
  CharDfa trimmed;
  for (size_t i = 0; i < order.size(); ++i) {
    const CharDfa::State& old = dfa.states[order[i]];
    CharDfa::State state;
    state.accepts = old.accepts;
    for (const CharDfa::Edge& edge : old.edges) {
      if (ends[edge.to]) state.edges.push_back({edge.range, visit(edge.to)});
    }
    trimmed.states.push_back(std::move(state));
  }
  dfa = std::move(trimmed);
}

CharDfa LengthDfa(int min, std::optional<int> max) {
  const CharSet all = AllChars();
  CharDfa dfa;
  const int count = max.value_or(min) + 1;
  dfa.states.resize(count);
  for (int i = 0; i < count; ++i) {
    dfa.states[i].accepts = i >= min;
    if (i + 1 < count) AddEdges(dfa.states[i], all, i + 1);
  }
  if (!max) AddEdges(dfa.states[min], all, min);
  Trim(dfa);
  return dfa;
}

CharDfa AnyTextBut(const std::vector<std::string>& words) {
  // A tree of the words; what leaves it comes to `free`, which stays.
  std::vector<std::map<char32_t, int>> tree(1);
  std::vector<char> is_word(1);
  for (const std::string& word : words) {
    int node = 0;
    for (size_t at = 0; at < word.size();) {
      const char32_t c = NextChar(word, &at);
      const auto [child, added] =
          tree[node].try_emplace(c, static_cast<int>(tree.size()));
      node = child->second;
      if (added) {
        tree.emplace_back();
        is_word.push_back(0);
      }
    }
    is_word[node] = 1;
  }
  const int free = static_cast<int>(tree.size());
  CharDfa dfa;
  dfa.states.resize(free + 1);
  for (int i = 0; i < free; ++i) {
    CharDfa::State& state = dfa.states[i];
    state.accepts = !is_word[i];
    CharSet taken;
    for (const auto& [c, child] : tree[i]) {
      state.edges.push_back({{c, c}, child});
      taken.push_back({c, c});
    }
    AddEdges(state, Complement(MakeCharSet(std::move(taken))), free);
    std::sort(state.edges.begin(), state.edges.end(),
              [](auto& a, auto& b) { return a.range.lo < b.range.lo; });
  }
  dfa.states[free].accepts = true;
  AddEdges(dfa.states[free], AllChars(), free);
  return dfa;
}

CharDfa Intersection(const CharDfa& a, const CharDfa& b,
                     const std::string& where) {
  CharDfa dfa;
  if (a.empty() || b.empty()) return dfa;
  std::map<std::pair<int, int>, int> found;
  std::vector<std::pair<int, int>> order;
  const auto visit = [&](int x, int y) {
    const auto [at, added] =
        found.try_emplace({x, y}, static_cast<int>(order.size()));
    if (added) {
      if (order.size() >= kMaxDfaStates) {
        throw UsageError(
            "{}: its automaton has more than {} states; use a simpler pattern "
            "or lower lengths",
            where, kMaxDfaStates);
      }
      order.emplace_back(x, y);
    }
    return at->second;
  };
  visit(0, 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& x = a.states[order[i].first];
    const auto& y = b.states[order[i].second];
    CharDfa::State state;
    state.accepts = x.accepts && y.accepts;
    for (size_t j = 0, k = 0; j < x.edges.size() && k < y.edges.size();) {
      const CharRange& p = x.edges[j].range;
      const CharRange& q = y.edges[k].range;
      const CharRange both = {std::max(p.lo, q.lo), std::min(p.hi, q.hi)};
      if (both.lo <= both.hi) {
        state.edges.push_back({both, visit(x.edges[j].to, y.edges[k].to)});
      }
      if (p.hi < q.hi) {
        ++j;
      } else {
        ++k;
      }
    }
    dfa.states.push_back(std::move(state));
  }
  Trim(dfa);
  return dfa;
}

}  // namespace rbln
