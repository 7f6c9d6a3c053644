#include "guide/regex.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "guide/regex_parser.h"

namespace rbln {
namespace {

// Bounds on memory and time. An automaton that is larger is nearly always a
// mistake, such as counted repetitions of counted repetitions.
constexpr size_t kMaxNfaStates = 50000;
constexpr int64_t kMaxWork = 3'000'000;  // states visited

// A nondeterministic automaton, built from the end to the start.
class Nfa {
 public:
  struct State {
    enum Kind { kSet, kSplit, kBegin, kEnd, kMatch } kind;
    const CharSet* set = nullptr;  // kSet
    int to = 0;
    int other = 0;  // kSplit
  };

  Nfa(const RegexNode& root, const std::string& where) : where_(where) {
    start = Emit(root, Add({State::kMatch}));
  }

  int Add(State state) {
    if (states.size() >= kMaxNfaStates) TooLarge();
    states.push_back(state);
    return static_cast<int>(states.size()) - 1;
  }
  [[noreturn]] void TooLarge() const {
    throw UsageError(
        "{}: the pattern is too large once its repetitions are written out; "
        "use fewer or lower counts",
        where_);
  }

  std::vector<State> states;
  int start = 0;

 private:
  // The state that reads `node` and goes on in `next`.
  int Emit(const RegexNode& node, int next) {
    if (++work_ > static_cast<int64_t>(4 * kMaxNfaStates)) TooLarge();
    switch (node.kind) {
      case RegexNode::kSet:
        return Add({State::kSet, &node.set, next});
      case RegexNode::kBegin:
        return Add({State::kBegin, nullptr, next});
      case RegexNode::kEnd:
        return Add({State::kEnd, nullptr, next});
      case RegexNode::kConcat:
        for (size_t i = node.children.size(); i-- > 0;) {
          next = Emit(node.children[i], next);
        }
        return next;
      case RegexNode::kChoice: {
        int choice = Emit(node.children.back(), next);
        for (size_t i = node.children.size() - 1; i-- > 0;) {
          const int branch = Emit(node.children[i], next);
          choice = Add({State::kSplit, nullptr, branch, choice});
        }
        return choice;
      }
      case RegexNode::kRepeat: {
        const RegexNode& body = node.children[0];
        int at = next;
        if (node.max < 0) {
          at = Add({State::kSplit, nullptr, 0, next});
          const int loop = Emit(body, at);
          states[at].to = loop;
        }
        for (int i = node.min; i < node.max; ++i) {
          const int once = Emit(body, at);
          at = Add({State::kSplit, nullptr, once, next});
        }
        for (int i = 0; i < node.min; ++i) at = Emit(body, at);
        return at;
      }
    }
    return next;
  }

  const std::string& where_;
  int64_t work_ = 0;
};

// The subset construction. A state of the DFA is a sorted list of those NFA
// states that read a character, or are a match or a $.
class Builder {
 public:
  Builder(const Nfa& nfa, const std::string& where)
      : nfa_(nfa), where_(where), seen_(nfa.states.size()) {}

  CharDfa Build() {
    // Only at the very beginning does ^ let through. A state of its own, even
    // where the same list comes again later.
    Set first = Close({nfa_.start}, /*begin=*/true, /*end=*/false);
    first.insert(first.begin(), kFirst);
    Visit(std::move(first), true);
    for (size_t i = 0; i < sets_.size(); ++i) AddState(static_cast<int>(i));
    Trim(dfa_);
    return std::move(dfa_);
  }

 private:
  using Set = std::vector<int>;
  static constexpr int kFirst = -1;  // marks the list of the first state

  void Work(size_t amount) {
    work_ += static_cast<int64_t>(amount);
    if (work_ > kMaxWork) {
      throw UsageError("{}: the pattern takes too much work; use a simpler one",
                       where_);
    }
  }

  // What can be reached from `from` without a character.
  Set Close(Set from, bool begin, bool end) {
    ++mark_;
    Set result;
    while (!from.empty()) {
      const int at = from.back();
      from.pop_back();
      if (at == kFirst || seen_[at] == mark_) continue;
      seen_[at] = mark_;
      Work(1);
      const Nfa::State& state = nfa_.states[at];
      switch (state.kind) {
        case Nfa::State::kSplit:
          from.push_back(state.other);
          from.push_back(state.to);
          break;
        case Nfa::State::kBegin:
          if (begin) from.push_back(state.to);
          break;
        case Nfa::State::kEnd:
          if (end) from.push_back(state.to);
          result.push_back(at);
          break;
        default:
          result.push_back(at);
      }
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  int Visit(Set set, bool begin) {
    const auto [at, added] =
        found_.try_emplace(std::move(set), static_cast<int>(sets_.size()));
    if (added) {
      if (sets_.size() >= kMaxDfaStates) {
        throw UsageError(
            "{}: its automaton has more than {} states; use a simpler pattern "
            "or lower counts",
            where_, kMaxDfaStates);
      }
      sets_.push_back(&at->first);
      CharDfa::State state;
      // Behind the last character $ lets through, and ^ only if it is also the
      // first place.
      for (const int one : Close(at->first, begin, /*end=*/true)) {
        state.accepts |= nfa_.states[one].kind == Nfa::State::kMatch;
      }
      dfa_.states.push_back(std::move(state));
    }
    return at->second;
  }

  // Cuts the characters where a set of an edge begins or ends; in each piece
  // every character leads to the same states.
  void AddState(int index) {
    struct Edge {
      CharRange range;
      int to;
    };
    std::vector<Edge> edges;
    std::vector<char32_t> cuts;
    for (const int at : *sets_[index]) {
      if (at == kFirst) continue;
      const Nfa::State& state = nfa_.states[at];
      if (state.kind != Nfa::State::kSet) continue;
      for (const CharRange& range : *state.set) {
        edges.push_back({range, state.to});
        cuts.push_back(range.lo);
        cuts.push_back(range.hi + 1);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
      return a.range.lo < b.range.lo;
    });
    std::map<Set, int> targets;
    std::vector<Edge> open;  // those that the piece may lie in
    size_t next = 0;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const CharRange piece = {cuts[i], cuts[i + 1] - 1};
      std::erase_if(open,
                    [&](const Edge& edge) { return edge.range.hi < piece.lo; });
      while (next < edges.size() && edges[next].range.lo <= piece.lo) {
        open.push_back(edges[next++]);
      }
      Work(open.size() + 1);
      Set moved;
      for (const Edge& edge : open) moved.push_back(edge.to);
      if (moved.empty()) continue;
      std::sort(moved.begin(), moved.end());
      moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
      auto known = targets.find(moved);
      if (known == targets.end()) {
        const int to = Visit(Close(moved, false, false), false);
        known = targets.emplace(std::move(moved), to).first;
      }
      auto& out = dfa_.states[index].edges;
      if (!out.empty() && out.back().to == known->second &&
          out.back().range.hi + 1 == piece.lo) {
        out.back().range.hi = piece.hi;
      } else {
        out.push_back({piece, known->second});
      }
    }
  }

  const Nfa& nfa_;
  const std::string& where_;
  std::vector<int64_t> seen_;
  int64_t mark_ = 0;
  int64_t work_ = 0;
  std::map<Set, int> found_;
  std::vector<const Set*> sets_;
  CharDfa dfa_;
};

}  // namespace

CharDfa RegexDfa(std::string_view pattern, RegexUse use,
                 const std::string& where) {
  RegexNode root = ParseRegex(pattern, where);
  if (use == RegexUse::kSearch) {
    const auto anything = [] {
      RegexNode set;
      set.kind = RegexNode::kSet;
      set.set = AllChars();
      RegexNode node;
      node.kind = RegexNode::kRepeat;
      node.max = -1;
      node.children.push_back(std::move(set));
      return node;
    };
    RegexNode search;
    search.children.push_back(anything());
    search.children.push_back(std::move(root));
    search.children.push_back(anything());
    root = std::move(search);
  }
  const Nfa nfa(root, where);
  return Builder(nfa, where).Build();
}

}  // namespace rbln
