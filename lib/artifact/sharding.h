// Which part of a model each tensor parallel rank has.
#pragma once

#include <string>

#include "base/error.h"

namespace rbln {

// Heads, columns or tokens [begin, end).
struct ShardRange {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
};

// KV heads of a rank: a share of them, or one, which others have too.
ShardRange KvHeadShard(int num_kv_heads, int rank, int ranks);
// Query heads of a rank: those that use its KV heads, or a share of those.
ShardRange HeadShard(int num_heads, int rank, int ranks);
// Of the MLP's inner columns, in whole panels; in whole pairs of groups where
// there are enough, so that quantized weights are those of one rank.
ShardRange ColumnShard(int intermediate_size, int rank, int ranks);
// Of the vocabulary, in whole panels.
ShardRange VocabShard(int vocab_size, int rank, int ranks);

// Why a model cannot be divided into `ranks`, naming the number that does not
// divide; empty where it can.
std::string WhyNotSharded(int num_heads, int num_kv_heads,
                          int intermediate_size, int vocab_size, int ranks);

}  // namespace rbln
