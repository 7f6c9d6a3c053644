#include "artifact/sharding.h"

#include <fmt/core.h>

#include <algorithm>

#include "artifact/program.h"

namespace rbln {
namespace {

// Of `size`, in units.
ShardRange InUnits(int size, int unit, int rank, int ranks) {
  const int64_t units = (int64_t{size} + unit - 1) / unit;
  const auto at = [&](int64_t i) {
    return static_cast<int>(std::min<int64_t>(units * i / ranks * unit, size));
  };
  return {at(rank), at(rank + 1)};
}

}  // namespace

ShardRange KvHeadShard(int num_kv_heads, int rank, int ranks) {
  if (ranks <= num_kv_heads) return InUnits(num_kv_heads, 1, rank, ranks);
  const int head = static_cast<int>(int64_t{num_kv_heads} * rank / ranks);
  return {head, head + 1};
}

ShardRange HeadShard(int num_heads, int rank, int ranks) {
  return InUnits(num_heads, 1, rank, ranks);
}

ShardRange ColumnShard(int intermediate_size, int rank, int ranks) {
  // Enough for shares of about the same size.
  const bool pairs = intermediate_size / (2 * kGroupSize) >= 8 * ranks;
  return InUnits(intermediate_size, pairs ? 2 * kGroupSize : kPanel, rank,
                 ranks);
}

ShardRange VocabShard(int vocab_size, int rank, int ranks) {
  return InUnits(vocab_size, kPanel, rank, ranks);
}

std::string WhyNotSharded(int num_heads, int num_kv_heads,
                          int intermediate_size, int vocab_size, int ranks) {
  if (num_kv_heads % ranks != 0 && ranks % num_kv_heads != 0) {
    return fmt::format(
        "it must divide the model's {} KV heads or be a multiple of them",
        num_kv_heads);
  }
  if (num_heads % ranks != 0) {
    return fmt::format("it must divide the model's {} attention heads",
                       num_heads);
  }
  if (Panels(intermediate_size) < ranks) {
    return fmt::format(
        "the model's intermediate_size {} gives at most {} "
        "ranks a panel of {} columns",
        intermediate_size, Panels(intermediate_size), kPanel);
  }
  if (Panels(vocab_size) < ranks) {
    return fmt::format(
        "the model's vocab_size {} gives at most {} ranks a "
        "panel of {} tokens",
        vocab_size, Panels(vocab_size), kPanel);
  }
  return "";
}

}  // namespace rbln
