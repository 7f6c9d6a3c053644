#include "guide/matcher.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rbln {
namespace {

// Stacks of one state, at most: more come of schemas whose branches say the
// same in many ways.
constexpr size_t kMaxSet = 50'000;

}  // namespace

size_t Matcher::SetHash::operator()(const std::vector<int32_t>& nodes) const {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(nodes.data()),
       nodes.size() * sizeof(int32_t)});
}

Matcher::Matcher(const Grammar& grammar)
    : grammar_(grammar), num_classes_(grammar.num_classes()) {
  Clear();
}

void Matcher::Clear() {
  nodes_.clear();
  node_index_.clear();
  sets_.clear();
  set_index_.clear();
  next_.clear();
  seen_.clear();
  work_ = 0;
  full_ = false;
  // kDead: the empty set.
  Intern();
  std::fill(next_.begin(), next_.end(), kDead);
  const int node = NodeFor(grammar_.start(), -1);
  ++mark_;
  if (node >= 0) Add(node);
  start_ = Intern();
}

int Matcher::NodeFor(int state, int below) {
  const int calls = below < 0 ? 0 : nodes_[below].calls + 1;
  if (calls + grammar_.depth(state) > kMaxGrammarDepth) return -1;
  const uint64_t key =
      static_cast<uint64_t>(state) << 32 | static_cast<uint32_t>(below);
  const auto [at, added] =
      node_index_.try_emplace(key, static_cast<int32_t>(nodes_.size()));
  if (added) {
    nodes_.push_back({state, below, calls});
    seen_.push_back(0);
  }
  return at->second;
}

void Matcher::Add(int node) {
  pending_.push_back(node);
  while (!pending_.empty()) {
    const int at = pending_.back();
    pending_.pop_back();
    if (seen_[at] == mark_) continue;
    seen_[at] = mark_;
    if (++work_ > max_work_ || set_.nodes.size() > kMaxSet) full_ = true;
    if (full_) return pending_.clear();
    const auto [state, below, calls] = nodes_[at];
    bool reads = false;
    for (const Grammar::Edge& edge : grammar_.edges(state)) {
      ++work_;
      int next = -1;
      switch (edge.kind) {
        case Grammar::Edge::kBytes:
          reads = true;
          break;
        case Grammar::Edge::kJump:
          next = NodeFor(edge.to, below);
          break;
        case Grammar::Edge::kCall: {
          // A way that cannot end is closed here already.
          const int behind = edge.tail ? below : NodeFor(edge.to, below);
          if (edge.tail || behind >= 0) next = NodeFor(edge.start, behind);
          break;
        }
      }
      if (next >= 0) pending_.push_back(next);
    }
    if (reads) set_.nodes.push_back(at);
    if (grammar_.ends(state)) {
      if (below >= 0) {
        pending_.push_back(below);
      } else {
        set_.may_end = true;
      }
    }
  }
}

int Matcher::Intern() {
  std::vector<int32_t> key = set_.nodes;
  std::sort(key.begin(), key.end());
  set_.nodes = key;
  if (set_.may_end) key.push_back(-1);
  const auto [at, added] = set_index_.try_emplace(
      std::move(key), static_cast<int32_t>(sets_.size()));
  if (added) {
    sets_.push_back(std::move(set_));
    next_.resize(next_.size() + num_classes_, -1);
  }
  set_ = Set();
  return at->second;
}

int Matcher::Compute(int state, int byte_class) {
  if (full_) return kDead;
  const uint8_t byte = grammar_.class_byte(byte_class);
  ++mark_;
  // By number: sets_ and nodes_ may move.
  for (size_t i = 0; i < sets_[state].nodes.size(); ++i) {
    const auto [at, below, calls] = nodes_[sets_[state].nodes[i]];
    for (const Grammar::Edge& edge : grammar_.edges(at)) {
      ++work_;
      if (edge.kind != Grammar::Edge::kBytes || byte < edge.lo ||
          byte > edge.hi) {
        continue;
      }
      const int next = NodeFor(edge.to, below);
      if (next >= 0) Add(next);
    }
  }
  if (full_) {
    set_ = Set();
    return kDead;
  }
  work_ += static_cast<int64_t>(set_.nodes.size() + num_classes_ / 4 + 1);
  const int result = Intern();
  next_[static_cast<size_t>(state) * num_classes_ + byte_class] = result;
  return result;
}

void Matcher::Compact(std::vector<int>* kept) {
  const std::vector<Node> old_nodes = std::move(nodes_);
  std::vector<Set> sets;
  for (const int state : *kept) sets.push_back(sets_[state]);
  Clear();
  std::unordered_map<int, int> moved;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const int32_t node : sets[i].nodes) {
      // From the bottom up.
      std::vector<int> stack;
      int at = node;
      while (at >= 0 && !moved.contains(at)) {
        stack.push_back(at);
        at = old_nodes[at].below;
      }
      int below = at < 0 ? -1 : moved[at];
      while (!stack.empty()) {
        below = moved[stack.back()] =
            NodeFor(old_nodes[stack.back()].state, below);
        stack.pop_back();
      }
      set_.nodes.push_back(below);
    }
    set_.may_end = sets[i].may_end;
    (*kept)[i] = Intern();
  }
  work_ = 0;
}

}  // namespace rbln
