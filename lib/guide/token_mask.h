// Sets of token ids.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace rbln {

// Which tokens are allowed: bit id % 64 of word id / 64.
using TokenMask = std::vector<uint64_t>;

inline bool Allows(const TokenMask& mask, TokenId id) {
  return (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
}
inline void Allow(TokenMask& mask, TokenId id) {
  mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
}

}  // namespace rbln
