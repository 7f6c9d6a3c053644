#include "guide/grammar.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <queue>
#include <utility>

#include "base/error.h"

namespace rbln {
namespace {

constexpr size_t kMaxStates = 1'000'000;
constexpr size_t kMaxEdges = 4'000'000;
constexpr int16_t kNever = std::numeric_limits<int16_t>::max();

}  // namespace

GrammarBuilder::GrammarBuilder(std::string where) : where_(std::move(where)) {}

int GrammarBuilder::AddRule(std::string name) {
  const int start = AddState();
  rules_.push_back({std::move(name), start});
  return static_cast<int>(rules_.size()) - 1;
}

int GrammarBuilder::AddState() {
  if (edges_.size() >= kMaxStates) {
    throw UsageError(
        "{}: too large: its automaton has more than {} states; lower counts "
        "and lengths, or say less",
        where_, kMaxStates);
  }
  edges_.emplace_back();
  ends_.push_back(0);
  return static_cast<int>(edges_.size()) - 1;
}

void GrammarBuilder::AddEdge(int from, Grammar::Edge edge) {
  if (++num_edges_ > kMaxEdges) {
    throw UsageError(
        "{}: too large: its automaton has more than {} edges; lower counts "
        "and lengths, or say less",
        where_, kMaxEdges);
  }
  edges_[from].push_back(edge);
}

void GrammarBuilder::AddBytes(int from, uint8_t lo, uint8_t hi, int to) {
  AddEdge(from, {Grammar::Edge::kBytes, lo, hi, false, to, 0});
}

void GrammarBuilder::AddJump(int from, int to) {
  AddEdge(from, {Grammar::Edge::kJump, 0, 0, false, to, 0});
}

void GrammarBuilder::AddCall(int from, int rule, int to) {
  AddEdge(from, {Grammar::Edge::kCall, 0, 0, false, to, rule});
}

void GrammarBuilder::AddLiteral(int from, std::string_view bytes, int to) {
  for (const char c : bytes) {
    const int next = AddState();
    AddBytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
    from = next;
  }
  AddJump(from, to);
}

void GrammarBuilder::AddLiterals(int from, std::vector<std::string> texts,
                                 int to) {
  std::sort(texts.begin(), texts.end());
  // The states of the text before, from its first byte on.
  std::vector<int> path = {from};
  std::string_view before;
  bool first = true;
  for (const std::string& text : texts) {
    if (!first && text == before) continue;
    const size_t shared =
        std::mismatch(text.begin(), text.end(), before.begin(), before.end())
            .first -
        text.begin();
    path.resize(shared + 1);
    for (const char c : std::string_view(text).substr(shared)) {
      path.push_back(AddState());
      AddBytes(path[path.size() - 2], static_cast<uint8_t>(c),
               static_cast<uint8_t>(c), path.back());
    }
    AddJump(path.back(), to);
    before = text;
    first = false;
  }
}

std::unique_ptr<const Grammar> GrammarBuilder::Finish() {
  std::unique_ptr<Grammar> grammar(new Grammar());
  const int size = static_cast<int>(edges_.size());
  // A state that only jumps is the one it jumps to.
  std::vector<int> alias(size);
  for (int i = 0; i < size; ++i) {
    int at = i;
    for (int steps = 0; steps < 64 && !ends_[at] && edges_[at].size() == 1 &&
                        edges_[at][0].kind == Grammar::Edge::kJump;
         ++steps) {
      at = edges_[at][0].to;
    }
    alias[i] = at;
  }
  grammar->start_ = alias[rules_[0].start];
  grammar->first_.push_back(0);
  for (int i = 0; i < size; ++i) {
    for (Grammar::Edge edge : edges_[i]) {
      edge.to = alias[edge.to];
      if (edge.kind == Grammar::Edge::kCall) {
        edge.tail = ends_[edge.to] && edges_[edge.to].empty();
        edge.start = alias[rules_[edge.start].start];
      }
      grammar->edges_.push_back(edge);
    }
    edges_[i].shrink_to_fit();
    grammar->first_.push_back(static_cast<int32_t>(grammar->edges_.size()));
  }
  grammar->ends_ = ends_;
  CheckProgress(*grammar);
  AddDistances(*grammar);
  if (grammar->depth_[grammar->start_] > kMaxGrammarDepth) {
    throw UsageError("{}: no text can match it{}", where_,
                     grammar->depth_[grammar->start_] == kNever
                         ? ""
                         : fmt::format(" within {} levels", kMaxGrammarDepth));
  }
  AddByteClasses(*grammar);
  edges_.clear();
  ends_.clear();
  rules_.clear();
  return grammar;
}

// The depth of each state: the least, over all ways to an end of its rule, of
// the most calls inside each other on the way. States come in order of their
// depth, as in Dijkstra's algorithm; a call is done when both the rule and what
// is behind the call are.
void GrammarBuilder::AddDistances(Grammar& grammar) const {
  const int size = grammar.num_states();
  struct Entry {
    int32_t state;  // where the edge starts
    int32_t other;  // kCall: the second state that is needed; -1: none
    bool is_rule;   // kCall: this one is the rule's, `other` is behind it
  };
  std::vector<std::vector<Entry>> users(size);
  for (int state = 0; state < size; ++state) {
    for (const Grammar::Edge& edge : grammar.edges(state)) {
      if (edge.kind != Grammar::Edge::kCall) {
        users[edge.to].push_back({state, -1, false});
      } else if (edge.tail) {
        // Takes the place of what calls it.
        users[edge.start].push_back({state, -1, false});
      } else {
        users[edge.to].push_back({state, edge.start, false});
        users[edge.start].push_back({state, edge.to, true});
      }
    }
  }
  grammar.depth_.assign(size, kNever);
  std::vector<char> done(size);
  using Item = std::pair<int, int>;  // depth, state
  std::priority_queue<Item, std::vector<Item>, std::greater<Item>> queue;
  const auto lower = [&](int state, int depth) {
    if (depth < grammar.depth_[state] && depth < kNever) {
      grammar.depth_[state] = static_cast<int16_t>(depth);
      queue.emplace(depth, state);
    }
  };
  for (int i = 0; i < size; ++i) {
    if (grammar.ends(i)) lower(i, 0);
  }
  while (!queue.empty()) {
    const auto [depth, state] = queue.top();
    queue.pop();
    if (done[state]) continue;
    done[state] = 1;
    for (const Entry& user : users[state]) {
      if (user.other < 0) {
        lower(user.state, depth);
      } else if (done[user.other]) {
        const int other = grammar.depth_[user.other];
        lower(user.state, user.is_rule ? std::max(depth + 1, other)
                                       : std::max(depth, other + 1));
      }
    }
  }
}

// A rule that calls itself before it has read a byte would call for ever.
void GrammarBuilder::CheckProgress(const Grammar& grammar) const {
  const int size = grammar.num_states();
  // From which states the end of the rule is reached without a byte.
  std::vector<char> silent(size);
  std::vector<std::vector<std::pair<int, int>>> users(size);
  std::vector<int> todo;
  for (int state = 0; state < size; ++state) {
    for (const Grammar::Edge& edge : grammar.edges(state)) {
      if (edge.kind == Grammar::Edge::kJump) {
        users[edge.to].emplace_back(state, edge.to);
      } else if (edge.kind == Grammar::Edge::kCall) {
        users[edge.to].emplace_back(state, edge.start);
        users[edge.start].emplace_back(state, edge.to);
      }
    }
    if (grammar.ends(state)) {
      silent[state] = 1;
      todo.push_back(state);
    }
  }
  while (!todo.empty()) {
    const int state = todo.back();
    todo.pop_back();
    for (const auto& [user, other] : users[state]) {
      if (silent[user] || !silent[other]) continue;
      silent[user] = 1;
      todo.push_back(user);
    }
  }
  // A circle over edges that read nothing and has a call in it. Circles of
  // jumps alone do no harm.
  std::vector<std::vector<std::pair<int, bool>>> next(size);
  for (int state = 0; state < size; ++state) {
    for (const Grammar::Edge& edge : grammar.edges(state)) {
      if (edge.kind == Grammar::Edge::kJump) {
        next[state].emplace_back(edge.to, false);
      } else if (edge.kind == Grammar::Edge::kCall) {
        next[state].emplace_back(edge.start, true);
        if (silent[edge.start]) next[state].emplace_back(edge.to, false);
      }
    }
  }
  // Tarjan's components, with a stack of our own: a call inside a component is
  // the circle.
  std::vector<int> order(size, -1);
  std::vector<int> low(size);
  std::vector<int> component(size, -1);
  std::vector<int> open;
  int count = 0;
  int components = 0;
  for (int root = 0; root < size; ++root) {
    if (order[root] >= 0) continue;
    std::vector<std::pair<int, size_t>> path = {{root, 0}};
    order[root] = low[root] = count++;
    open.push_back(root);
    while (!path.empty()) {
      auto& [state, at] = path.back();
      if (at < next[state].size()) {
        const int to = next[state][at++].first;
        if (order[to] < 0) {
          order[to] = low[to] = count++;
          open.push_back(to);
          path.emplace_back(to, 0);
        } else if (component[to] < 0) {
          low[state] = std::min(low[state], order[to]);
        }
        continue;
      }
      const int finished = state;
      if (low[finished] == order[finished]) {
        int member;
        do {
          member = open.back();
          open.pop_back();
          component[member] = components;
        } while (member != finished);
        ++components;
      }
      path.pop_back();
      if (!path.empty()) {
        low[path.back().first] =
            std::min(low[path.back().first], low[finished]);
      }
    }
  }
  for (int state = 0; state < size; ++state) {
    for (const auto& [to, is_call] : next[state]) {
      if (!is_call || component[state] != component[to]) continue;
      for (const Rule& rule : rules_) {
        if (component[rule.start] != component[to]) continue;
        throw UsageError(
            "{}: {} leads back to itself with nothing in between; such a $ref "
            "describes nothing",
            where_, rule.name);
      }
      throw UsageError("{}: it leads back to itself with nothing in between",
                       where_);
    }
  }
}

void GrammarBuilder::AddByteClasses(Grammar& grammar) const {
  std::bitset<257> cuts;
  for (const Grammar::Edge& edge : grammar.edges_) {
    if (edge.kind != Grammar::Edge::kBytes) continue;
    cuts.set(edge.lo);
    cuts.set(edge.hi + 1);
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (byte == 0 || cuts[byte]) {
      grammar.class_byte_.push_back(static_cast<uint8_t>(byte));
    }
    grammar.byte_class_[byte] =
        static_cast<uint8_t>(grammar.class_byte_.size() - 1);
  }
}

}  // namespace rbln
