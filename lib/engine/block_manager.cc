#include "engine/block_manager.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/hash.h"

namespace rbln {

BlockManager::BlockManager(int num_blocks, int block_size, bool caching,
                           CopyBlock copy)
    : block_size_(block_size),
      caching_(caching),
      min_copied_tokens_(std::clamp(block_size / 4, 1, 16)),
      copy_(std::move(copy)),
      blocks_(num_blocks) {
  for (int i = 0; i < num_blocks; ++i) {
    blocks_[i].unused = unused_.insert(unused_.end(), i);
  }
}

BlockManager::Reusable BlockManager::Match(std::span<const TokenId> tokens,
                                           int limit) const {
  Reusable result;
  if (!caching_) return result;
  tokens = tokens.first(std::min<size_t>(limit, tokens.size()));
  uint64_t hash = 0;
  while (true) {
    const Hit hit = Find(hash, tokens.subspan(result.tokens));
    result.tokens += hit.length;
    if (hit.length < block_size_) return result;
    if (blocks_[hit.block].users > 0) ++result.held_blocks;
    hash = HashAfter(hash, blocks_[hit.block].tokens);
  }
}

int BlockManager::Reuse(std::span<const TokenId> tokens, int limit,
                        SequenceBlocks& sequence) {
  if (!caching_) return 0;
  tokens = tokens.first(std::min<size_t>(limit, tokens.size()));
  int length = 0;
  while (true) {
    const uint64_t hash = sequence.prefix_hashes.back();
    const Hit hit = Find(hash, tokens.subspan(length));
    if (hit.length == 0) return length;
    if (hit.length == block_size_) {
      AddUser(hit.block);
      sequence.blocks.push_back(hit.block);
      sequence.prefix_hashes.push_back(
          HashAfter(hash, blocks_[hit.block].tokens));
      length += block_size_;
      continue;
    }
    // Held while another is taken, so that it is not that one.
    const bool was_unused = blocks_[hit.block].users == 0;
    AddUser(hit.block);
    int block = hit.block;
    const bool whole =
        blocks_[block].tokens.size() == static_cast<size_t>(hit.length);
    if (!was_unused || (!whole && !unused_.empty())) {
      if (unused_.empty()) {
        RemoveUser(hit.block);
        return length;
      }
      block = Take();
      copy_(hit.block, block, hit.length);
      RemoveUser(hit.block);
      Index(block, hash);
    }
    // Otherwise nobody else needs it, or there is no other: it is taken over.
    const std::span<const TokenId> kept = tokens.subspan(length, hit.length);
    blocks_[block].tokens.assign(kept.begin(), kept.end());
    sequence.blocks.push_back(block);
    return length + hit.length;
  }
}

bool BlockManager::Grow(int num_tokens, SequenceBlocks& sequence) {
  const int missing =
      BlocksFor(num_tokens) - static_cast<int>(sequence.blocks.size());
  if (missing > num_free()) return false;
  for (int i = 0; i < missing; ++i) sequence.blocks.push_back(Take());
  return true;
}

void BlockManager::Commit(std::span<const TokenId> tokens, int begin, int end,
                          SequenceBlocks& sequence) {
  if (!caching_) return;
  while (begin < end) {
    const int at = begin / block_size_;
    const int stop = std::min(end, (at + 1) * block_size_);
    const int id = sequence.blocks[at];
    Block& block = blocks_[id];
    const uint64_t hash = sequence.prefix_hashes[at];
    if (!block.indexed) Index(id, hash);
    block.tokens.insert(block.tokens.end(), tokens.begin() + begin,
                        tokens.begin() + stop);
    if (stop == (at + 1) * block_size_) {
      sequence.prefix_hashes.push_back(HashAfter(hash, block.tokens));
    }
    begin = stop;
  }
}

void BlockManager::ReleaseBefore(int position, SequenceBlocks& sequence) {
  const int end = position / block_size_;
  for (; sequence.released < end; ++sequence.released) {
    RemoveUser(sequence.blocks[sequence.released]);
  }
}

void BlockManager::Release(SequenceBlocks& sequence) {
  // The last first, so that it is also the first to go.
  for (int i = static_cast<int>(sequence.blocks.size()) - 1;
       i >= sequence.released; --i) {
    RemoveUser(sequence.blocks[i]);
  }
  sequence = SequenceBlocks();
}

BlockManager::Hit BlockManager::Find(uint64_t prefix_hash,
                                     std::span<const TokenId> tokens) const {
  Hit best;
  // Less than is worth a copy, and no full block.
  if (tokens.size() < static_cast<size_t>(min_copied_tokens_)) return best;
  const auto found = index_.find(prefix_hash);
  if (found == index_.end()) return best;
  for (const int id : found->second) {
    const std::vector<TokenId>& content = blocks_[id].tokens;
    const auto differ = std::mismatch(content.begin(), content.end(),
                                      tokens.begin(), tokens.end());
    const int length = static_cast<int>(differ.first - content.begin());
    if (length > best.length) best = {id, length};
    if (length == block_size_) break;
  }
  if (best.length < block_size_ && best.length < min_copied_tokens_) return {};
  return best;
}

int BlockManager::Take() {
  const int block = unused_.front();
  if (blocks_[block].indexed) Forget(block);
  AddUser(block);
  return block;
}

void BlockManager::AddUser(int block) {
  if (blocks_[block].users++ == 0) unused_.erase(blocks_[block].unused);
}

void BlockManager::RemoveUser(int block) {
  if (blocks_[block].users <= 0) {
    throw std::logic_error("a KV cache block is given back twice");
  }
  if (--blocks_[block].users > 0) return;
  // One without content is of no use to anybody, and is taken first.
  blocks_[block].unused = unused_.insert(
      blocks_[block].indexed ? unused_.end() : unused_.begin(), block);
}

void BlockManager::Index(int block, uint64_t prefix_hash) {
  blocks_[block].prefix_hash = prefix_hash;
  blocks_[block].indexed = true;
  index_[prefix_hash].push_back(block);
}

void BlockManager::Forget(int block) {
  const auto found = index_.find(blocks_[block].prefix_hash);
  std::erase(found->second, block);
  if (found->second.empty()) index_.erase(found);
  blocks_[block].indexed = false;
  blocks_[block].tokens.clear();
}

uint64_t BlockManager::HashAfter(uint64_t prefix_hash,
                                 std::span<const TokenId> tokens) const {
  return Hash64(std::string_view(reinterpret_cast<const char*>(tokens.data()),
                                 tokens.size_bytes()),
                prefix_hash);
}

}  // namespace rbln
