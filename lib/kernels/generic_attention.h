// RoPE, the KV cache and attention over it.
#pragma once

#include "kernels/generic_attention_int8.h"
#include "kernels/generic_math.h"

namespace rbln {
namespace {

// Where the group of 16 positions lies that holds `position`.
RBLN_INLINE int64_t GroupOffset(const KvLayout& kv, const int32_t* blocks,
                                int layer, int kv_head, int position) {
  const int block = position / kv.block_size;
  const int group = position % kv.block_size / 16;
  return static_cast<int64_t>(blocks[block]) *
             static_cast<int64_t>(kv.block_bytes) +
         (static_cast<int64_t>(layer) * kv.num_kv_heads + kv_head) *
             static_cast<int64_t>(kv.slice_bytes) +
         group * static_cast<int64_t>(kv.group_bytes);
}
// The groups from `position` on, one after another, which takes no divisions.
class GroupCursor {
 public:
  RBLN_INLINE_MEMBER GroupCursor(const KvLayout& kv, const std::byte* cache,
                                 const int32_t* blocks, int layer, int kv_head,
                                 int position)
      : base_(cache +
              (static_cast<int64_t>(layer) * kv.num_kv_heads + kv_head) *
                  static_cast<int64_t>(kv.slice_bytes)),
        block_(blocks + position / kv.block_size),
        block_bytes_(static_cast<int64_t>(kv.block_bytes)),
        group_bytes_(static_cast<int64_t>(kv.group_bytes)),
        groups_((kv.block_size + 15) / 16),
        group_(position % kv.block_size / 16) {}

  RBLN_INLINE_MEMBER const std::byte* Next() {
    const std::byte* const at =
        base_ + *block_ * block_bytes_ + group_ * group_bytes_;
    if (++group_ == groups_) {
      group_ = 0;
      ++block_;
    }
    return at;
  }

 private:
  const std::byte* base_;
  const int32_t* block_;
  int64_t block_bytes_;
  int64_t group_bytes_;
  int groups_;  // of a block
  int group_;
};
RBLN_INLINE int PaddedHead(const KvLayout& kv) {
  return (kv.head_dim + 15) / 16 * 16;
}

// Norms one head and rotates it: (a, b) -> (a cos - b sin, b cos + a sin) for
// the halves a and b of the head, as Hugging Face's rotate_half does.
RBLN_INLINE void NormAndRotate(float* head, int head_dim, const float* norm,
                               float epsilon, const float* rotary) {
  if (norm != nullptr) {
    // Heads need not be aligned or padded: the squares are gathered singly into
    // the lanes that InverseRms would give them.
    float lanes[16] = {};
    for (int i = 0; i < head_dim; ++i) {
      lanes[i % 16] += head[i] * head[i];
    }
    const float mean = Sum(Load(lanes)) / static_cast<float>(head_dim);
    const float scale = 1.0f / __builtin_sqrtf(mean + epsilon);
    for (int i = 0; i < head_dim; ++i) head[i] = head[i] * scale * norm[i];
  }
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    head[i] = a * rotary[i] - b * rotary[half + i];
    head[i + half] = b * rotary[i] + a * rotary[half + i];
  }
}

// The elements of the KV cache, a group of 16 positions at a time.
struct KvF32 {
  static constexpr bool kWholeNumbers = false;
  static constexpr int kBytes = 4;
  static constexpr int kTilesAhead = 1;  // that are fetched
  RBLN_INLINE V LoadKv(const std::byte* p, int64_t element) {
    return Load(reinterpret_cast<const float*>(p) + element);
  }
};
struct KvBf16 {
  static constexpr bool kWholeNumbers = false;
  static constexpr int kBytes = 2;
  static constexpr int kTilesAhead = 2;
  RBLN_INLINE V LoadKv(const std::byte* p, int64_t element) {
    return LoadBf16(reinterpret_cast<const uint16_t*>(p) + element);
  }
};
void RopeKv(const RopeKvArgs& args, int begin, int end) {
  const KvLayout& kv = args.kv;
  const int group = args.num_heads / kv.num_kv_heads;
  const int dim = kv.head_dim;
  const int padded = PaddedHead(kv);
  const int lane = args.position % 16;
  float* q = args.qkv;
  float* k = q + static_cast<int64_t>(args.num_heads) * dim;
  float* v = k + static_cast<int64_t>(kv.num_kv_heads) * dim;
  for (int head = begin; head < end; ++head) {
    for (int i = 0; i < group; ++i) {
      NormAndRotate(q + static_cast<int64_t>(head * group + i) * dim, dim,
                    args.q_norm, args.epsilon, args.rotary);
    }
    float* k_head = k + static_cast<int64_t>(head) * dim;
    const float* v_head = v + static_cast<int64_t>(head) * dim;
    NormAndRotate(k_head, dim, args.k_norm, args.epsilon, args.rotary);
    std::byte* at = args.cache + GroupOffset(kv, args.blocks, args.layer, head,
                                             args.position);
    if (kv.format == kFormatFloat32) {
      float* k_out = reinterpret_cast<float*>(at) + lane;
      float* v_out = reinterpret_cast<float*>(at) + dim * 16 + lane * padded;
      for (int i = 0; i < dim; ++i) k_out[i * 16] = k_head[i];
      for (int i = 0; i < dim; ++i) v_out[i] = v_head[i];
    } else if (kv.format == kFormatInt8) {
      const Int8Group layout{dim, padded};
      float* scales = reinterpret_cast<float*>(at + layout.Scales());
      scales[lane] = QuantizeHead(k_head, dim, 128, at,
                                  [&](int d) { return layout.KeyAt(lane, d); });
      scales[16 + lane] = QuantizeHead(
          v_head, dim, 0, at, [&](int d) { return layout.ValueAt(lane, d); });
    } else {
      uint16_t* k_out = reinterpret_cast<uint16_t*>(at) + lane;
      uint16_t* v_out =
          reinterpret_cast<uint16_t*>(at) + dim * 16 + lane * padded;
      for (int i = 0; i < dim; ++i) k_out[i * 16] = ToBf16(k_head[i]);
      for (int i = 0; i < dim; ++i) v_out[i] = ToBf16(v_head[i]);
    }
  }
}

// Queries that share each load of K or V.
constexpr int kQueryBlock = 4;
constexpr int kTileGroups = kKeyTile / 16;
constexpr float kMinusInfinity = -__builtin_huge_valf();
// Stands for the largest of no scores: masked ones, minus infinity, then have
// weights of 0, and no difference is NaN.
constexpr float kLowestScore = -__FLT_MAX__ / 2;

// The softmax of one query so far, over the keys seen: the largest score, the
// sum of 2^(score - largest), and with it the weighted sum of V (apart). Scores
// are q . k times the scale times log2 e, so that e^x becomes 2^x.
struct Combined {
  float largest;
  float sum;
};
// The same of one partition and many queries, each sum in lanes, which are
// added at its end.
struct Running {
  float* largest;  // (queries)
  float* lanes;    // (queries, 16), behind the largest

  static constexpr int kFloats = 17;  // of a query
  RBLN_INLINE_MEMBER Running(float* at, int queries)
      : largest(at), lanes(at + queries) {}
  RBLN_INLINE_MEMBER Running From(int query) const {
    Running from = *this;
    from.largest += query;
    from.lanes += query * 16;
    return from;
  }
};

// One row's query of one head, and the keys of a partition that it attends to.
struct Query {
  const float* q;
  int start;
  int end;
};

// Scratch of one call, all for `queries` queries.
struct AttentionState {
  Query* queries;
  float* partial;    // (queries, padded head): of this partition
  float* total;      // (queries, padded head): of the partitions before
  std::byte* whole;  // of int8: (queries, Int8QueryBytes)
  float* running;    // of this partition
  Combined* combined;
  int count;  // of the queries

  RBLN_INLINE_MEMBER Running RunningFrom(int query) const {
    return Running(running, count).From(query);
  }
};

// Dimensions, and keys, with which a step of what is fetched comes.
constexpr int kFetchEvery = 4;
// scores[query][key] = q . k * factor, for one tile of keys.
template <typename Kv, int kQueries>
RBLN_INLINE void ScoreTile(const Query* queries, const std::byte* const* groups,
                           Fetch& fetch, int dim, float factor, float* scores) {
  V acc[kQueries][kTileGroups];
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
      acc[i.value][g.value] = Zero();
    });
  });
  const auto add = [&](int d) __attribute__((always_inline)) {
    V k[kTileGroups];
    Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
      k[g.value] = Kv::LoadKv(groups[g.value], d * 16);
    });
    Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
      const V x = Broadcast(queries[i.value].q[d]);
      Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
        acc[i.value][g.value] = Fma(x, k[g.value], acc[i.value][g.value]);
      });
    });
  };
  int d = 0;
  for (; d + kFetchEvery <= dim; d += kFetchEvery) {
    fetch.SharedStep();
    Unroll<kFetchEvery>([&](auto i) __attribute__((always_inline)) {
      add(d + i.value);
    });
  }
  for (; d < dim; ++d) add(d);
  Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
    Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
      Store(scores + i.value * kKeyTile + g.value * 16,
            Mul(acc[i.value][g.value], Broadcast(factor)));
    });
  });
}

// What a block of queries sees of one tile, and what becomes of it. No query's
// numbers depend on another's.
template <int kQueries>
struct TileSoftmax {
  int begin[kQueries];  // keys of the tile, within it
  int end[kQueries];
  // By query: the largest score of the tiles before and of this one, whose
  // weights are 2^(score - shift); and what the sums of both are multiplied by.
  alignas(64) float old[16];
  alignas(64) float shift[16];
  alignas(64) float before[16];
  alignas(64) float now[16];

  // Masks the scores, and moves the largest ones so far on by the tile.
  RBLN_INLINE_MEMBER void Start(const Query* queries, int tile, float* scores,
                                Running running) {
    static_assert(kQueries <= 16);
    V highest[kQueries];
    for (int i = 0; i < kQueries; ++i) {
      const int from = queries[i].start - tile;
      const int to = queries[i].end - tile;
      begin[i] = from < 0 ? 0 : from > kKeyTile ? kKeyTile : from;
      end[i] = to > kKeyTile ? kKeyTile : to < begin[i] ? begin[i] : to;
      float* const at = scores + i * kKeyTile;
      if (begin[i] > 0 || end[i] < kKeyTile) {
        Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
          Store(at + g.value * 16,
                KeepLanes(Load(at + g.value * 16), begin[i] - g.value * 16,
                          end[i] - g.value * 16, Broadcast(kMinusInfinity)));
        });
      }
      highest[i] =
          Max(Max(Load(at), Load(at + 16)), Max(Load(at + 32), Load(at + 48)));
    }
    // Lanes behind the queries are of no use, and do no harm.
    const V largest = Max(LargestOf(highest), Broadcast(kLowestScore));
    const V so_far = Load(running.largest);
    Store(old, so_far);
    Store(shift, largest);
    float both[16];
    Store(both, Max(so_far, largest));
    for (int i = 0; i < kQueries; ++i) running.largest[i] = both[i];
  }
  // What else the weights need: apart, so that it can be done meanwhile.
  RBLN_INLINE_MEMBER void SetFactors() {
    const V from = Load(old);
    const V to = Load(shift);
    const V both = Max(from, to);
    Store(before, Exp2Down(Sub(from, both)));
    Store(now, Exp2Down(Sub(to, both)));
  }
  // The weights of one query, whose sum moves on by them.
  RBLN_INLINE_MEMBER void Weights(int i, const float* scores, Running running,
                                  V (&weights)[kTileGroups]) const {
    const V down = Broadcast(shift[i]);
    Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
      weights[g.value] =
          Exp2Down(Sub(Load(scores + i * kKeyTile + g.value * 16), down));
    });
    const V sum = Add(Add(weights[0], weights[1]), Add(weights[2], weights[3]));
    float* const lanes = running.lanes + i * 16;
    Store(lanes,
          Fma(sum, Broadcast(now[i]), Mul(Load(lanes), Broadcast(before[i]))));
  }
  // Keys that any query sees.
  RBLN_INLINE_MEMBER int First() const {
    int first = kKeyTile;
    for (int i = 0; i < kQueries; ++i) {
      if (begin[i] < end[i] && begin[i] < first) first = begin[i];
    }
    return first;
  }
  RBLN_INLINE_MEMBER int Last() const {
    int last = 0;
    for (int i = 0; i < kQueries; ++i) {
      if (begin[i] < end[i] && end[i] > last) last = end[i];
    }
    return last;
  }
};

// out[query] = out[query] * before[query] + weights x V * now[query], kColumns
// at a time.
template <typename Kv, int kQueries, int kColumns>
RBLN_INLINE void WeighColumns(const float* scores,
                              const std::byte* const* groups, Fetch& fetch,
                              int dim, int padded, int column, int begin,
                              int end, const float* before, const float* now,
                              float* out) {
  constexpr int kVectors = kColumns / 16;
  V acc[kQueries][kVectors];
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      acc[i.value][c.value] = Zero();
    });
  });
  const std::byte* v;  // of the key
  int key = begin;
  const auto add = [&] __attribute__((always_inline)) {
    V columns[kVectors];
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      columns[c.value] = Kv::LoadKv(v, c.value * 16);
    });
    Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
      const V p = Broadcast(scores[i.value * kKeyTile + key]);
      Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
        acc[i.value][c.value] = Fma(p, columns[c.value], acc[i.value][c.value]);
      });
    });
    v += padded * Kv::kBytes;
    ++key;
  };
  while (key < end) {
    const int group = key / 16;
    const int stop = end < group * 16 + 16 ? end : group * 16 + 16;
    v = groups[group] +
        (dim * 16 + (key - group * 16) * padded + column) * Kv::kBytes;
    while (key + kFetchEvery <= stop) {
      fetch.SharedStep();
      Unroll<kFetchEvery>([&](auto) __attribute__((always_inline)) { add(); });
    }
    while (key < stop) add();
  }
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      float* to = out + i.value * padded + column + c.value * 16;
      Store(to, Fma(acc[i.value][c.value], Broadcast(now[i.value]),
                    Mul(Load(to), Broadcast(before[i.value]))));
    });
  });
}

// Takes tiles past blocks of kQueries queries, a block and a tile at a time;
// Finish() comes last.
template <typename Kv, int kQueries>
class FloatTiles {
 public:
  FloatTiles(const AttentionArgs& args, const AttentionState& state)
      : args_(args), state_(state) {}

  void Add(int query, int tile, const std::byte* const* groups, Fetch& fetch) {
    const int dim = args_.kv.head_dim;
    const int padded = PaddedHead(args_.kv);
    const Query* const queries = state_.queries + query;
    const Running running = state_.RunningFrom(query);
    alignas(64) float scores[kQueries * kKeyTile];
    ScoreTile<Kv, kQueries>(queries, groups, fetch, dim, args_.scale * kLog2E,
                            scores);
    TileSoftmax<kQueries> softmax;
    softmax.Start(queries, tile, scores, running);
    softmax.SetFactors();
    for (int i = 0; i < kQueries; ++i) {
      V weights[kTileGroups];
      softmax.Weights(i, scores, running, weights);
      Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
        Store(scores + i * kKeyTile + g.value * 16, weights[g.value]);
      });
    }
    const int first = softmax.First();
    const int last = softmax.Last();
    float* out = state_.partial + static_cast<int64_t>(query) * padded;
    int column = 0;
    for (; column + 64 <= padded; column += 64) {
      WeighColumns<Kv, kQueries, 64>(scores, groups, fetch, dim, padded, column,
                                     first, last, softmax.before, softmax.now,
                                     out);
    }
    for (; column < padded; column += 16) {
      WeighColumns<Kv, kQueries, 16>(scores, groups, fetch, dim, padded, column,
                                     first, last, softmax.before, softmax.now,
                                     out);
    }
  }
  void Finish() {}
  // Of one Add.
  static int FetchSteps(int dim, int padded) {
    const int columns = padded / 64 + padded % 64 / 16;
    return dim / kFetchEvery + columns * (kKeyTile / kFetchEvery);
  }

 private:
  const AttentionArgs& args_;
  const AttentionState& state_;
};

// The same, in whole numbers. A tile's softmax is computed between the scores
// of the next one and its V is weighed after them: the processor then finds the
// multiplications that it can do while it waits for the softmax.
template <int kQueries>
class Int8Tiles {
 public:
  Int8Tiles(const AttentionArgs& args, const AttentionState& state)
      : args_(args),
        state_(state),
        layout_{args.kv.head_dim, PaddedHead(args.kv)} {}

  void Add(int query, int tile, const std::byte* const* groups, Fetch& fetch) {
    Step& step = steps_[1 - last_];
    step.query = query;
    const std::byte* q[kQueries];
    for (int i = 0; i < kQueries; ++i) {
      q[i] = state_.whole + (query + i) * Int8QueryBytes(layout_.dim);
    }
    for (int g = 0; g < kTileGroups; ++g) step.groups[g] = groups[g];
    for (int g = 0; g < kTileGroups; g += kInt8Width<kQueries>) {
      const auto between = [&](int part) __attribute__((always_inline)) {
        if (g > 0 || !begun_) return;
        if (part == 0) steps_[last_].softmax.SetFactors();
        for (int i = part * kQueries / kScoreParts;
             i < (part + 1) * kQueries / kScoreParts; ++i) {
          MakeWeights(steps_[last_], i);
        }
      };
      ScoreInt8<kQueries>(q, groups, fetch, between, g, layout_, step.scores);
    }
    step.softmax.Start(state_.queries + query, tile, step.scores,
                       state_.RunningFrom(query));
    if (begun_) Weigh(steps_[last_], fetch);
    begun_ = true;
    last_ = 1 - last_;
  }
  void Finish() {
    if (!begun_) return;
    steps_[last_].softmax.SetFactors();
    for (int i = 0; i < kQueries; ++i) MakeWeights(steps_[last_], i);
    Fetch nothing;
    Weigh(steps_[last_], nothing);
  }
  static int FetchSteps(int dim, int padded) {
    constexpr int kVectors = kInt8Width<kQueries>;
    const int vectors = padded / 16;
    return kTileGroups / kVectors * ScoreSteps(Int8Group{dim, padded}.Quads()) +
           (vectors / kVectors + vectors % kVectors) * kWeighSteps;
  }

 private:
  // A tile and a block of queries.
  struct Step {
    int query;
    const std::byte* groups[kTileGroups];
    TileSoftmax<kQueries> softmax;
    alignas(64) float scores[kQueries * kKeyTile];
  };

  // Of one query of the step before.
  RBLN_INLINE_MEMBER void MakeWeights(const Step& step, int i) {
    const TileSoftmax<kQueries>& softmax = step.softmax;
    V weights[kTileGroups];
    softmax.Weights(i, step.scores, state_.RunningFrom(step.query), weights);
    if (i == 0 || softmax.begin[i] != softmax.begin[i - 1] ||
        softmax.end[i] != softmax.end[i - 1]) {
      scales_ = LoadInt8Scales(step.groups, layout_, softmax.begin[i],
                               softmax.end[i]);
    }
    Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
      weights[g.value] = Mul(weights[g.value], scales_.of_keys[g.value]);
    });
    StoreWeights(weights_[i].hi, weights_[i].lo, weights);
    of_sums_[i] = scales_.of_sums * softmax.now[i];
  }
  RBLN_INLINE_MEMBER void Weigh(const Step& step, Fetch& fetch) {
    const TileSoftmax<kQueries>& softmax = step.softmax;
    // Keys that a query does not see have weights of zero.
    const int first = softmax.First() / 16;
    const int last = (softmax.Last() + 15) / 16;
    float* out =
        state_.partial + static_cast<int64_t>(step.query) * layout_.padded;
    constexpr int kVectors = kInt8Width<kQueries>;
    int column = 0;
    for (; column + kVectors * 16 <= layout_.padded; column += kVectors * 16) {
      WeighInt8<kQueries, kVectors>(weights_, step.groups, fetch, layout_,
                                    column, first, last, softmax.before,
                                    of_sums_, out);
    }
    for (; column < layout_.padded; column += 16) {
      WeighInt8<kQueries, 1>(weights_, step.groups, fetch, layout_, column,
                             first, last, softmax.before, of_sums_, out);
    }
  }

  const AttentionArgs& args_;
  const AttentionState& state_;
  const Int8Group layout_;
  Step steps_[2];
  int last_ = 0;  // the step before
  bool begun_ = false;
  // Of the step before.
  Int8Weights weights_[kQueries];
  float of_sums_[kQueries];
  Int8Scales scales_;
};

struct KvInt8 {
  static constexpr bool kWholeNumbers = true;
  static constexpr int kTilesAhead = 2;
};
template <typename Kv, int kQueries>
struct TilesOf {
  using Type = FloatTiles<Kv, kQueries>;
};
template <int kQueries>
struct TilesOf<KvInt8, kQueries> {
  using Type = Int8Tiles<kQueries>;
};

// Adds a partition's softmax to those before it.
RBLN_INLINE void Combine(const AttentionState& state, int query, int padded) {
  Combined& total = state.combined[query];
  const Running part = state.RunningFrom(query);
  const float part_largest = *part.largest;
  const float largest =
      part_largest > total.largest ? part_largest : total.largest;
  float change[16] = {total.largest - largest, part_largest - largest};
  Store(change, Exp2Down(Load(change)));
  const float keep = change[0];
  const float add = change[1];
  total.sum = total.sum * keep + Sum(Load(part.lanes)) * add;
  total.largest = largest;
  float* out = state.total + static_cast<int64_t>(query) * padded;
  const float* from = state.partial + static_cast<int64_t>(query) * padded;
  for (int i = 0; i < padded; i += 16) {
    Store(out + i, Fma(Load(from + i), Broadcast(add),
                       Mul(Load(out + i), Broadcast(keep))));
  }
}

// The keys that the rows of a call attend to: [first, last).
struct KeyRange {
  int first;
  int last;
};
RBLN_INLINE int FirstKey(const AttentionArgs& args, int row) {
  const int from = args.positions[row] + 1 - args.window;
  return args.window == 0 || from < 0 ? 0 : from;
}
RBLN_INLINE KeyRange KeysOf(const AttentionArgs& args) {
  return {FirstKey(args, 0), args.positions[args.rows - 1] + 1};
}
RBLN_INLINE GroupCursor CursorOf(const AttentionArgs& args, int position) {
  return GroupCursor(args.kv, args.cache, args.blocks, args.layer, args.kv_head,
                     position);
}
// The groups of the tile at which the cursor is. Those past the last key, at
// `end`, are not there; any will do, they are masked.
RBLN_INLINE void TakeTile(GroupCursor* cursor, int tile, int end,
                          const std::byte** groups) {
  groups[0] = cursor->Next();
  for (int g = 1; g < kTileGroups; ++g) {
    groups[g] = tile + g * 16 < end ? cursor->Next() : groups[0];
  }
}
RBLN_INLINE int Queries(const AttentionArgs& args) {
  return args.rows * (args.num_heads / args.kv.num_kv_heads);
}

// The tiles of a partition that are fetched before their time, and behind them
// the first ones of what the thread attends to next.
class TilesAhead {
 public:
  RBLN_INLINE_MEMBER TilesAhead(const AttentionArgs& args, int from, int end,
                                int count)
      : next_(end < KeysOf(args).last ? nullptr : args.next),
        count_(count),
        cursor_(CursorOf(args, from)),
        tile_(from),
        end_(end) {}

  // One more tile.
  RBLN_INLINE_MEMBER Fetch Take(const KvLayout& kv) {
    if (tile_ >= end_) {
      if (next_ == nullptr) return Fetch();
      const KeyRange keys = KeysOf(*next_);
      tile_ = keys.first / kKeyTile * kKeyTile;
      cursor_ = CursorOf(*next_, tile_);
      end_ = tile_ + count_ * kKeyTile < keys.last ? tile_ + count_ * kKeyTile
                                                   : keys.last;
      next_ = nullptr;
    }
    const std::byte* groups[kTileGroups];
    TakeTile(&cursor_, tile_, end_, groups);
    tile_ += kKeyTile;
    static_assert(kTileGroups <= Fetch::kMostRuns);
    return Fetch(kTileGroups, kv.group_bytes, [&](int g) { return groups[g]; });
  }

 private:
  const AttentionArgs* next_;
  int count_;  // of its tiles
  GroupCursor cursor_;
  int tile_;
  int end_;
};

// Attention to the keys of the partition that begins at `partition`: fills
// state.partial and state.running.
template <typename Kv>
void AttendPartition(const AttentionArgs& args, const AttentionState& state,
                     int partition) {
  const KvLayout& kv = args.kv;
  const int dim = kv.head_dim;
  const int padded = PaddedHead(kv);
  const int group = args.num_heads / kv.num_kv_heads;
  const int queries = Queries(args);
  const KeyRange keys = KeysOf(args);
  const int partition_end = partition + args.partition_len < keys.last
                                ? partition + args.partition_len
                                : keys.last;
  memset(state.partial, 0, sizeof(float) * queries * padded);
  memset(state.running, 0, sizeof(float) * queries * Running::kFloats);
  for (int i = 0; i < queries; ++i) {
    *state.RunningFrom(i).largest = kLowestScore;
    const int row = i / group;
    const int head = args.kv_head * group + i % group;
    const int start = FirstKey(args, row);
    const int end = args.positions[row] + 1;
    state.queries[i] = {
        reinterpret_cast<const float*>(args.q + row * args.q_row_bytes) +
            static_cast<int64_t>(head) * dim,
        start > partition ? start : partition,
        end < partition_end ? end : partition_end};
    if constexpr (Kv::kWholeNumbers) {
      QuantizeQuery(state.queries[i].q, args.scale * kLog2E, dim,
                    state.whole + i * Int8QueryBytes(dim));
    }
  }
  // Tiles begin at absolute multiples; a partition need not.
  const int from =
      (keys.first > partition ? keys.first : partition) / kKeyTile * kKeyTile;
  GroupCursor cursor = CursorOf(args, from);
  TilesAhead ahead(args, from, partition_end, Kv::kTilesAhead);
  const bool fetched = args.fetched && partition <= keys.first;
  for (int tile = from;
       tile < from + Kv::kTilesAhead * kKeyTile && tile < partition_end;
       tile += kKeyTile) {
    Fetch fetch = ahead.Take(kv);
    if (!fetched) fetch.All();
  }
  const std::byte* groups[kTileGroups];
  typename TilesOf<Kv, 4>::Type by_four(args, state);
  typename TilesOf<Kv, 3>::Type by_three(args, state);
  typename TilesOf<Kv, 2>::Type by_two(args, state);
  typename TilesOf<Kv, 1>::Type by_one(args, state);
  static_assert(kQueryBlock == 4);
  const int fetch_steps = (queries + kQueryBlock - 1) / kQueryBlock *
                          (queries >= 4   ? by_four.FetchSteps(dim, padded)
                           : queries == 3 ? by_three.FetchSteps(dim, padded)
                           : queries == 2 ? by_two.FetchSteps(dim, padded)
                                          : by_one.FetchSteps(dim, padded));
  for (int tile = from; tile < partition_end; tile += kKeyTile) {
    TakeTile(&cursor, tile, partition_end, groups);
    Fetch fetch = ahead.Take(kv);
    fetch.Spread(fetch_steps);
    for (int query = 0; query < queries; query += kQueryBlock) {
      const int count =
          queries - query < kQueryBlock ? queries - query : kQueryBlock;
      bool any = false;
      for (int i = query; i < query + count; ++i) {
        any |= state.queries[i].start < tile + kKeyTile &&
               state.queries[i].end > tile;
      }
      if (!any) continue;
      switch (count) {
        case 4:
          by_four.Add(query, tile, groups, fetch);
          break;
        case 3:
          by_three.Add(query, tile, groups, fetch);
          break;
        case 2:
          by_two.Add(query, tile, groups, fetch);
          break;
        default:
          by_one.Add(query, tile, groups, fetch);
      }
    }
  }
  by_four.Finish();
  by_three.Finish();
  by_two.Finish();
  by_one.Finish();
}
void AttendOnePartition(const AttentionArgs& args, const AttentionState& state,
                        int partition) {
  if (args.kv.format == kFormatFloat32) {
    AttendPartition<KvF32>(args, state, partition);
  } else if (args.kv.format == kFormatInt8) {
    AttendPartition<KvInt8>(args, state, partition);
  } else {
    AttendPartition<KvBf16>(args, state, partition);
  }
}

// The state of a call, in its scratch; nothing combined yet.
RBLN_INLINE AttentionState MakeState(const AttentionArgs& args) {
  const int queries = Queries(args);
  const int64_t floats = int64_t{queries} * PaddedHead(args.kv);
  AttentionState state;
  state.queries = reinterpret_cast<Query*>(args.scratch);
  static_assert(sizeof(Query) == 4 * sizeof(float));
  state.partial = args.scratch + (4 * queries + 15) / 16 * 16;
  state.total = state.partial + floats;
  state.running = state.total + floats;
  state.combined =
      reinterpret_cast<Combined*>(state.running + queries * Running::kFloats);
  state.count = queries;
  state.whole = reinterpret_cast<std::byte*>(state.combined + queries);
  memset(state.total, 0, sizeof(float) * floats);
  for (int i = 0; i < queries; ++i) state.combined[i] = {kLowestScore, 0.0f};
  return state;
}

// The result of what was combined.
void StoreCombined(const AttentionArgs& args, const AttentionState& state) {
  const int dim = args.kv.head_dim;
  const int padded = PaddedHead(args.kv);
  const int group = args.num_heads / args.kv.num_kv_heads;
  for (int query = 0; query < Queries(args); ++query) {
    const int row = query / group;
    const int64_t column =
        static_cast<int64_t>(args.kv_head * group + query % group) * dim;
    const float inverse = 1.0f / state.combined[query].sum;
    const float* from = state.total + static_cast<int64_t>(query) * padded;
    std::byte* out = args.out + row * args.out_row_bytes;
    if (args.out_format == kFormatFloat32) {
      float* at = reinterpret_cast<float*>(out) + column;
      for (int i = 0; i < dim; ++i) at[i] = from[i] * inverse;
    } else {
      uint16_t* at = reinterpret_cast<uint16_t*>(out) + column;
      for (int i = 0; i < dim; ++i) at[i] = ToBf16(from[i] * inverse);
    }
  }
}

void Attention(const AttentionArgs& args) {
  const AttentionState state = MakeState(args);
  const KeyRange keys = KeysOf(args);
  for (int partition = keys.first / args.partition_len * args.partition_len;
       partition < keys.last; partition += args.partition_len) {
    AttendOnePartition(args, state, partition);
    for (int query = 0; query < Queries(args); ++query) {
      Combine(state, query, PaddedHead(args.kv));
    }
  }
  StoreCombined(args, state);
}

// Attention in two steps, by the same functions and so to the same bits. A part
// is what one partition leaves: state.partial and state.running.
RBLN_INLINE void PlacePart(const AttentionArgs& args, float* part,
                           AttentionState* state) {
  state->partial = part;
  state->running = part + int64_t{Queries(args)} * PaddedHead(args.kv);
}
void AttendPart(const AttentionArgs& args, int partition, float* part) {
  AttentionState state = MakeState(args);
  PlacePart(args, part, &state);
  AttendOnePartition(args, state, partition);
}
void CombineParts(const AttentionArgs& args, float* parts, int64_t part_floats,
                  int count) {
  AttentionState state = MakeState(args);
  for (int i = 0; i < count; ++i) {
    PlacePart(args, parts + i * part_floats, &state);
    for (int query = 0; query < Queries(args); ++query) {
      Combine(state, query, PaddedHead(args.kv));
    }
  }
  StoreCombined(args, state);
}

}  // namespace
}  // namespace rbln
