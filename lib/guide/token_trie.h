// The tokens of a vocabulary by their bytes, as a tree laid out flat.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "guide/token_mask.h"
#include "text/tokenizer.h"

namespace rbln {

// Immutable.
class TokenTrie {
 public:
  // Tokens without bytes are left out: they would never get anywhere.
  explicit TokenTrie(std::vector<std::pair<std::string, TokenId>> tokens);

  int num_nodes() const { return static_cast<int>(nodes_.size()) - 1; }
  int depth() const { return depth_; }  // bytes of the longest token

  // Goes through the tree from state `start`: `next(state, byte)` is the state
  // behind a byte; those below 0 or 0 end the way. Sets the bits of the tokens
  // whose bytes all lead on. `states` is scratch memory of depth() + 1 values.
  template <typename Next>
  void Walk(int start, const Next& next, std::vector<int>& states,
            TokenMask& mask) const {
    states.resize(depth_ + 1);
    states[0] = start;
    const int count = num_nodes();
    for (int at = 0; at < count;) {
      const Node& node = nodes_[at];
      const int state = next(states[node.depth - 1], node.byte);
      if (state <= 0) {
        at = node.end;
        continue;
      }
      states[node.depth] = state;
      for (int i = node.first_token; i < nodes_[at + 1].first_token; ++i) {
        Allow(mask, tokens_[i]);
      }
      ++at;
    }
  }

 private:
  // In depth-first order. One more stands behind the last.
  struct Node {
    int32_t end;          // where the nodes below it end
    int32_t first_token;  // of those that end here; up to the next node's
    uint16_t depth;       // bytes up to here, with this one
    uint8_t byte;
  };
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  int depth_ = 0;
};

}  // namespace rbln
