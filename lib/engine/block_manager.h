// Which sequence holds which blocks of the KV cache, and what may be reused.
//
// A sequence takes blocks as it grows. A block remembers the tokens whose keys
// and values it holds and the hash of everything before them, so that a later
// sequence that starts with the same tokens finds it:
//   - a full block is shared: both tables name it, and nobody writes to it;
//   - a block of which only a first part fits is copied, and the copy goes its
//     own way.
// Where no layer looks back further than a window, a sequence gives back the
// blocks that lie before it.
// A block that no sequence holds keeps its content until its memory is needed;
// the one unused for longest goes first, the end of a sequence before its
// start.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace rbln {

// The blocks of one sequence, in order of position.
struct SequenceBlocks {
  std::vector<int32_t> blocks;
  // So many of the first were given back: nobody looks at them any more.
  int released = 0;
  // For each block the hash of all tokens before it; one more entry than there
  // are full blocks.
  std::vector<uint64_t> prefix_hashes = {0};
};

class BlockManager {
 public:
  // Copies the first `tokens` of a block.
  using CopyBlock = std::function<void(int from, int to, int tokens)>;

  // Without `caching` nothing is ever reused.
  BlockManager(int num_blocks, int block_size, bool caching, CopyBlock copy);

  struct Reusable {
    int tokens = 0;
    // Of their blocks those that other sequences hold: sharing them takes no
    // memory.
    int held_blocks = 0;
  };
  // What Reuse would find of the first `limit` tokens.
  Reusable Match(std::span<const TokenId> tokens, int limit) const;
  // Fills the empty `sequence` with blocks that hold the longest prefix of the
  // first `limit` tokens. Returns its length.
  int Reuse(std::span<const TokenId> tokens, int limit,
            SequenceBlocks& sequence);
  // Gives `sequence` the blocks for `num_tokens` tokens. False, with nothing
  // changed, when there are not enough.
  bool Grow(int num_tokens, SequenceBlocks& sequence);
  // Records that the keys and values of tokens[begin, end) have been computed.
  // `tokens` are all tokens of the sequence; calls come in order.
  void Commit(std::span<const TokenId> tokens, int begin, int end,
              SequenceBlocks& sequence);
  // Takes those blocks from `sequence` that hold only positions before
  // `position`, all of them computed. Their places in the table remain.
  void ReleaseBefore(int position, SequenceBlocks& sequence);
  // Takes all blocks from `sequence`.
  void Release(SequenceBlocks& sequence);

  int BlocksFor(int num_tokens) const {
    return (num_tokens + block_size_ - 1) / block_size_;
  }
  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  // Blocks that no sequence holds.
  int num_free() const { return static_cast<int>(unused_.size()); }
  int users(int block) const { return blocks_[block].users; }

 private:
  struct Block {
    int users = 0;
    bool indexed = false;
    uint64_t prefix_hash = 0;
    std::vector<TokenId> tokens;
    std::list<int>::iterator unused;  // valid where users == 0
  };
  struct Hit {
    int block = -1;
    int length = 0;
  };

  // The block that continues a prefix with most of the first tokens of
  // `tokens`.
  Hit Find(uint64_t prefix_hash, std::span<const TokenId> tokens) const;
  // Takes an unused block, which may be emptied for it.
  int Take();
  void AddUser(int block);
  void RemoveUser(int block);
  void Index(int block, uint64_t prefix_hash);
  void Forget(int block);
  uint64_t HashAfter(uint64_t prefix_hash,
                     std::span<const TokenId> tokens) const;

  const int block_size_;
  const bool caching_;
  // Fewer tokens than this are computed again rather than copied.
  const int min_copied_tokens_;
  const CopyBlock copy_;
  std::vector<Block> blocks_;
  std::list<int> unused_;  // the next to be taken first
  // Blocks by the hash of what stands before them.
  std::unordered_map<uint64_t, std::vector<int>> index_;
};

}  // namespace rbln
