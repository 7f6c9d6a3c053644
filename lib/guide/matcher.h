// Runs a grammar over bytes.
//
// Where the grammar stands after some bytes is a set of stacks: of calls that
// are not finished, and a state on top. Such sets are numbered as they come up,
// and what a byte makes of one is remembered, so that after a while every byte
// costs one look into a table, as with a finite automaton.
//
// Stacks share what lies below their tops: each is a node that names the node
// under it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "guide/grammar.h"

namespace rbln {

// Not thread safe.
class Matcher {
 public:
  // From here no byte leads on, and no text ends.
  static constexpr int kDead = 0;

  // `grammar` must outlive this object.
  explicit Matcher(const Grammar& grammar);

  int start() const { return start_; }
  int Next(int state, uint8_t byte) {
    const int byte_class = grammar_.byte_class(byte);
    const int known =
        next_[static_cast<size_t>(state) * num_classes_ + byte_class];
    return known >= 0 ? known : Compute(state, byte_class);
  }
  // Whether the text may end here.
  bool MayEnd(int state) const { return sets_[state].may_end; }

  // How much was worked out since the last Compact, in steps that take bounded
  // time and memory each. Each pair of a state and a byte has its price, which
  // does not depend on what else was worked out before, and is paid once.
  int64_t work() const { return work_; }
  // Beyond this much work nothing more is worked out, nor where a set becomes
  // too large: then unknown steps are dead, and full() says so until Compact.
  void set_max_work(int64_t max_work) { max_work_ = max_work; }
  bool full() const { return full_; }
  // Forgets all but the states in `*kept`, which get new numbers. kDead
  // remains.
  void Compact(std::vector<int>* kept);

 private:
  struct Node {
    int32_t state;
    int32_t below;  // -1: the text's own rule
    int32_t calls;  // nodes below
  };
  struct Set {
    std::vector<int32_t> nodes;  // sorted; with edges that read bytes
    bool may_end = false;
  };
  struct SetHash {
    size_t operator()(const std::vector<int32_t>& nodes) const;
  };

  int Compute(int state, int byte_class);
  // The node's number; -1 where calls would become too deep.
  int NodeFor(int state, int below);
  // Adds the node, and what can be reached from it without a byte, to set_.
  void Add(int node);
  // Gives set_ a number, and begins a new one.
  int Intern();
  void Clear();

  const Grammar& grammar_;
  const size_t num_classes_;
  int start_ = kDead;
  int64_t work_ = 0;
  int64_t max_work_ = INT64_MAX;
  bool full_ = false;

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> node_index_;
  std::vector<Set> sets_;
  // By the nodes, -1 behind them where the text may end.
  std::unordered_map<std::vector<int32_t>, int32_t, SetHash> set_index_;
  std::vector<int32_t> next_;  // (state, class); -1: not known yet

  // The set at work.
  Set set_;
  std::vector<int32_t> pending_;
  std::vector<int64_t> seen_;  // a node: in which set it was seen last
  int64_t mark_ = 0;
};

}  // namespace rbln
