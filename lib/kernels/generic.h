// The kernels, written once against sixteen float lanes. Each ISA file includes
// its vec_*.h and then this; everything here has internal linkage, so that no
// copy compiled for one instruction set can be called in place of another's.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/table.h"

namespace rbln {
namespace {

// Calls f with Index<0> .. Index<N - 1>: indices that are constants before
// registers are allotted, so that arrays of accumulators stay in registers
// (GCC 12 spills them where a loop is unrolled late).
template <int I>
struct Index {
  static constexpr int value = I;
};
template <int I, int N, typename F>
RBLN_INLINE void UnrollFrom(F&& f) {
  if constexpr (I < N) {
    f(Index<I>{});
    UnrollFrom<I + 1, N>(f);
  }
}
template <int N, typename F>
RBLN_INLINE void Unroll(F&& f) {
  UnrollFrom<0, N>(f);
}

// e^x to about one unit in the last place; 0 below -87.
// The polynomial is that of Cephes' expf (Moshier, netlib.org/cephes).
RBLN_INLINE V Exp(V x) {
  const V lowest = Broadcast(-87.0f);
  const V clamped = Min(Max(x, lowest), Broadcast(88.0f));
  const V n = Round(Mul(clamped, Broadcast(1.44269504088896341f)));
  // ln 2 in two parts, the first with few bits so that n times it is exact.
  V r = Fma(n, Broadcast(-0.693359375f), clamped);
  r = Fma(n, Broadcast(2.12194440e-4f), r);
  V p = Broadcast(1.9875691500e-4f);
  p = Fma(p, r, Broadcast(1.3981999507e-3f));
  p = Fma(p, r, Broadcast(8.3334519073e-3f));
  p = Fma(p, r, Broadcast(4.1665795894e-2f));
  p = Fma(p, r, Broadcast(1.6666665459e-1f));
  p = Fma(p, r, Broadcast(5.0000001201e-1f));
  p = Add(Fma(Mul(r, r), p, r), Broadcast(1.0f));
  return SelectLess(x, lowest, Zero(), Mul(p, PowerOfTwo(n)));
}
RBLN_INLINE float ExpOne(float x) {
  float lanes[16];
  Store(lanes, Exp(Broadcast(x)));
  return lanes[0];
}

// x * sigmoid(x)
RBLN_INLINE V Silu(V x) {
  const V one = Broadcast(1.0f);
  return Div(x, Add(one, Exp(Sub(Zero(), x))));
}

// Stores columns [column, column + 16) of a row.
RBLN_INLINE void StoreColumns(std::byte* row, int64_t column, Format format,
                              V v) {
  if (format == kFloat32) {
    Store(reinterpret_cast<float*>(row) + column, v);
  } else {
    StoreBf16(reinterpret_cast<uint16_t*>(row) + column, v);
  }
}

// ---- matmul ----

// How one weight format is walked: kStep inputs at a time.
struct F32Panels {
  static constexpr int kStep = 1;
  static constexpr int kStepBytes = 16 * sizeof(float);
  static constexpr int kInputBytes = sizeof(float);
  using W = V;
  using X = V;
  RBLN_INLINE W LoadWeights(const std::byte* p) {
    return Load(reinterpret_cast<const float*>(p));
  }
  RBLN_INLINE X LoadInput(const std::byte* p) {
    return Broadcast(*reinterpret_cast<const float*>(p));
  }
  RBLN_INLINE V Dot(X x, W w, V acc) { return Fma(x, w, acc); }
};
struct Bf16Panels {
  static constexpr int kStep = 2;
  static constexpr int kStepBytes = 32 * sizeof(uint16_t);
  static constexpr int kInputBytes = sizeof(uint16_t);
  using W = Bf16Pair;
  using X = Bf16Pair;
  RBLN_INLINE W LoadWeights(const std::byte* p) {
    return LoadPanelPair(reinterpret_cast<const uint16_t*>(p));
  }
  RBLN_INLINE X LoadInput(const std::byte* p) {
    return BroadcastPair(reinterpret_cast<const uint16_t*>(p));
  }
  RBLN_INLINE V Dot(X x, W w, V acc) { return DotPair(x, w, acc); }
};

// One cache block of inputs, one register tile of rows and panels.
struct Block {
  int64_t panel;  // first panel of the tile
  int row;        // first row of the tile
  int first_step;
  int last_step;  // one past
  bool first;     // begins the sums
  bool last;      // ends them
};

// How far ahead of the reading of a panel its lines are asked for: far enough
// to cover memory's latency at a few streams.
constexpr int kPrefetchBytes = 2048;

template <typename P, int kRows, int kPanels>
RBLN_INLINE void MatmulTileOnce(const MatmulArgs& args, const Block& block) {
  V acc[kRows][kPanels];
  // Partial sums of row r, tile panel p lie at scratch + (r * 4 + p) * 16.
  float* scratch =
      args.scratch + static_cast<int64_t>(block.row) * kMaxTilePanels * 16;
  if (block.first) {
    Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        acc[r.value][p.value] = Zero();
      });
    });
  } else {
    Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        acc[r.value][p.value] =
            Load(scratch + (r.value * kMaxTilePanels + p.value) * 16);
      });
    });
  }

  const std::byte* weights = args.weights + block.panel * args.panel_bytes +
                             static_cast<int64_t>(block.first_step) *
                                 P::kStepBytes;
  const std::byte* x = args.x + block.row * args.x_row_bytes +
                       static_cast<int64_t>(block.first_step) * P::kStep *
                           P::kInputBytes;
  for (int step = block.first_step; step < block.last_step; ++step) {
    typename P::W w[kPanels];
    Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      const std::byte* at = weights + p.value * args.panel_bytes;
      w[p.value] = P::LoadWeights(at);
      if constexpr (kRows < 12) Prefetch(at + kPrefetchBytes);
    });
    Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
      const typename P::X input = P::LoadInput(x + r.value * args.x_row_bytes);
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        acc[r.value][p.value] =
            P::Dot(input, w[p.value], acc[r.value][p.value]);
      });
    });
    weights += P::kStepBytes;
    x += P::kStep * P::kInputBytes;
  }

  if (!block.last) {
    Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        Store(scratch + (r.value * kMaxTilePanels + p.value) * 16,
              acc[r.value][p.value]);
      });
    });
    return;
  }
  if (args.bias != nullptr) {
    Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      const V bias = Load(args.bias + (block.panel + p.value) * 16);
      Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        acc[r.value][p.value] = Add(acc[r.value][p.value], bias);
      });
    });
  }
  std::byte* out = args.out + block.row * args.out_row_bytes;
  switch (args.epilogue) {
    case kStoreResult:
      Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          StoreColumns(out + r.value * args.out_row_bytes,
                       (block.panel + p.value) * 16, args.out_format,
                       acc[r.value][p.value]);
        });
      });
      break;
    case kAddResult:
      Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          float* at =
              reinterpret_cast<float*>(out + r.value * args.out_row_bytes) +
              (block.panel + p.value) * 16;
          Store(at, Add(Load(at), acc[r.value][p.value]));
        });
      });
      break;
    case kSiluGateResult:
      if constexpr (kPanels % 2 == 0) {
        Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
          Unroll<kPanels / 2>([&](auto p) __attribute__((always_inline)) {
            StoreColumns(out + r.value * args.out_row_bytes,
                         (block.panel / 2 + p.value) * 16, args.out_format,
                         Mul(Silu(acc[r.value][2 * p.value]),
                             acc[r.value][2 * p.value + 1]));
          });
        });
      }
      break;
  }
}

template <typename P, int kRows, int kPanels>
void MatmulRows(const MatmulArgs& args, Block block) {
  MatmulTileOnce<P, kRows, kPanels>(args, block);
}

// The rows of one tile of panels, as the widest register tiles that fit.
template <typename P, int kPanels>
void MatmulAllRows(const MatmulArgs& args, Block block) {
  using Tile = void (*)(const MatmulArgs&, Block);
  static constexpr Tile kTiles[] = {
      MatmulRows<P, 1, kPanels>, MatmulRows<P, 2, kPanels>,
      MatmulRows<P, 3, kPanels>, MatmulRows<P, 4, kPanels>,
      MatmulRows<P, kRegisterTileRows < 5 ? 4 : 5, kPanels>,
      MatmulRows<P, kRegisterTileRows < 6 ? 4 : 6, kPanels>};
  for (int row = 0; row < args.rows;) {
    const int left = args.rows - row;
    block.row = row;
    if constexpr (kPanels <= 2 && kWideTileRows > kRegisterTileRows) {
      if (left >= kWideTileRows && args.tile.rows >= kWideTileRows) {
        MatmulRows<P, kWideTileRows, kPanels>(args, block);
        row += kWideTileRows;
        continue;
      }
      if (left >= 8) {
        MatmulRows<P, 8, kPanels>(args, block);
        row += 8;
        continue;
      }
    }
    const int rows = left < kRegisterTileRows ? left : kRegisterTileRows;
    kTiles[rows - 1](args, block);
    row += rows;
  }
}

template <typename P>
void Matmul(const MatmulArgs& args) {
  const int steps = (args.inputs + P::kStep - 1) / P::kStep;
  const int block_steps =
      args.tile.inputs < P::kStep ? steps : args.tile.inputs / P::kStep;
  const bool paired = args.epilogue == kSiluGateResult;
  for (int64_t panel = args.panel_begin; panel < args.panel_end;) {
    const int64_t left = args.panel_end - panel;
    int panels = args.tile.panels < left ? args.tile.panels
                                         : static_cast<int>(left);
    panels = panels >= 4 ? 4 : panels >= 2 || paired ? 2 : 1;
    for (int step = 0; step < steps; step += block_steps) {
      const int end = step + block_steps < steps ? step + block_steps : steps;
      const Block block{panel, 0, step, end, step == 0, end == steps};
      switch (panels) {
        case 4:
          MatmulAllRows<P, 4>(args, block);
          break;
        case 2:
          MatmulAllRows<P, 2>(args, block);
          break;
        default:
          MatmulAllRows<P, 1>(args, block);
      }
    }
    panel += panels;
  }
}

// ---- norms, embedding ----

// Sum of squares over 16 lanes, then the lanes' tree. Reads past `columns` are
// within the row: columns are padded to whole panels.
RBLN_INLINE float InverseRms(const float* x, int columns, float epsilon) {
  V sum = Zero();
  int i = 0;
  for (; i + 16 <= columns; i += 16) {
    const V v = Load(x + i);
    sum = Fma(v, v, sum);
  }
  if (i < columns) {
    const V v = KeepLanes(Load(x + i), 0, columns - i, Zero());
    sum = Fma(v, v, sum);
  }
  const float mean = Sum(sum) / static_cast<float>(columns);
  return 1.0f / __builtin_sqrtf(mean + epsilon);
}

void RmsNormRow(const float* x, const float* weight, int columns, float epsilon,
                std::byte* out, uint64_t out_row_bytes, Format out_format) {
  const V scale = Broadcast(InverseRms(x, columns, epsilon));
  int i = 0;
  for (; i < columns; i += 16) {
    V v = Mul(Mul(Load(x + i), scale), Load(weight + i));
    if (columns - i < 16) v = KeepLanes(v, 0, columns - i, Zero());
    StoreColumns(out, i, out_format, v);
  }
  const uint64_t used =
      static_cast<uint64_t>(i) *
      (out_format == kFloat32 ? sizeof(float) : sizeof(uint16_t));
  memset(out + used, 0, out_row_bytes - used);
}

void EmbedF32(const std::byte* weights, int inputs, int64_t token, float* out) {
  const float* panel = reinterpret_cast<const float*>(weights) +
                       token / 16 * inputs * 16 + token % 16;
  for (int i = 0; i < inputs; ++i) out[i] = panel[static_cast<int64_t>(i) * 16];
}

void EmbedBf16(const std::byte* weights, int inputs, int64_t token,
               float* out) {
  const int64_t pairs = (inputs + 1) / 2;
  const uint16_t* panel = reinterpret_cast<const uint16_t*>(weights) +
                          token / 16 * pairs * 32 + token % 16 * 2;
  for (int i = 0; i < inputs; ++i) {
    const uint32_t bits =
        static_cast<uint32_t>(panel[static_cast<int64_t>(i / 2) * 32 + i % 2])
        << 16;
    memcpy(out + i, &bits, sizeof bits);
  }
}

// ---- RoPE and the KV cache ----

// Where 16 positions of one slice lie.
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
    if (kv.format == kFloat32) {
      float* k_out = reinterpret_cast<float*>(at) + lane;
      float* v_out = reinterpret_cast<float*>(at) + dim * 16 + lane * padded;
      for (int i = 0; i < dim; ++i) k_out[i * 16] = k_head[i];
      for (int i = 0; i < dim; ++i) v_out[i] = v_head[i];
    } else {
      uint16_t* k_out = reinterpret_cast<uint16_t*>(at) + lane;
      uint16_t* v_out =
          reinterpret_cast<uint16_t*>(at) + dim * 16 + lane * padded;
      for (int i = 0; i < dim; ++i) k_out[i * 16] = ToBf16(k_head[i]);
      for (int i = 0; i < dim; ++i) v_out[i] = ToBf16(v_head[i]);
    }
  }
}

// ---- attention ----

struct KvF32 {
  static constexpr int kBytes = 4;
  RBLN_INLINE V LoadKv(const std::byte* p, int64_t element) {
    return Load(reinterpret_cast<const float*>(p) + element);
  }
};
struct KvBf16 {
  static constexpr int kBytes = 2;
  RBLN_INLINE V LoadKv(const std::byte* p, int64_t element) {
    return LoadBf16(reinterpret_cast<const uint16_t*>(p) + element);
  }
};

// Queries that share each load of K or V.
constexpr int kQueryBlock = 4;
constexpr int kTileGroups = kKeyTile / 16;
constexpr float kMinusInfinity = -__builtin_huge_valf();

// The softmax of one query so far, over the keys seen: the largest score, the
// sum of e^(score - largest), and with it the weighted sum of V (apart).
struct Running {
  float largest;
  float sum;
};

// Scratch of one call, all for `queries` queries.
struct AttentionState {
  float* partial;    // (queries, padded head): of this partition
  float* total;      // (queries, padded head): of the partitions before
  float* scores;     // (queries, kKeyTile)
  Running* running;  // of this partition
  Running* combined;
};

// scores[query][key] = q . k * scale, for one tile of keys.
template <typename Kv, int kQueries>
RBLN_INLINE void ScoreTile(const float* const* q, const std::byte* const* groups,
                           int dim, float scale, float* scores) {
  V acc[kQueries][kTileGroups];
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
      acc[i.value][g.value] = Zero();
    });
  });
  for (int d = 0; d < dim; ++d) {
    V k[kTileGroups];
    Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
      k[g.value] = Kv::LoadKv(groups[g.value], d * 16);
    });
    Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
      const V x = Broadcast(q[i.value][d]);
      Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
        acc[i.value][g.value] = Fma(x, k[g.value], acc[i.value][g.value]);
      });
    });
  }
  const V factor = Broadcast(scale);
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
      Store(scores + i.value * kKeyTile + g.value * 16,
            Mul(acc[i.value][g.value], factor));
    });
  });
}

// Turns one query's scores into weights over keys [begin, end) of the tile and
// moves its running softmax on. Returns the factor for what was summed before.
RBLN_INLINE float SoftmaxTile(float* scores, int begin, int end,
                              Running* running) {
  const V nothing = Broadcast(kMinusInfinity);
  V score[kTileGroups];
  Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
    score[g.value] = KeepLanes(Load(scores + g.value * 16),
                               begin - g.value * 16, end - g.value * 16,
                               nothing);
  });
  const float highest = Largest(
      Max(Max(score[0], score[1]), Max(score[2], score[3])));
  if (!(highest > kMinusInfinity)) {  // no key of this tile is seen
    memset(scores, 0, kKeyTile * sizeof(float));
    return 1.0f;
  }
  const float largest = highest > running->largest ? highest : running->largest;
  const V shift = Broadcast(largest);
  V weight[kTileGroups];
  Unroll<kTileGroups>([&](auto g) __attribute__((always_inline)) {
    weight[g.value] = Exp(Sub(score[g.value], shift));
    Store(scores + g.value * 16, weight[g.value]);
  });
  const float sum = Sum(
      Add(Add(weight[0], weight[1]), Add(weight[2], weight[3])));
  const float factor = ExpOne(running->largest - largest);
  running->sum = running->sum * factor + sum;
  running->largest = largest;
  return factor;
}

// out[query] = out[query] * factor[query] + weights x V, 64 columns at a time.
template <typename Kv, int kQueries, int kColumns>
RBLN_INLINE void WeighColumns(const float* scores,
                              const std::byte* const* groups, int dim,
                              int padded, int column, int begin, int end,
                              const float* factor, float* out) {
  constexpr int kVectors = kColumns / 16;
  V acc[kQueries][kVectors];
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    const V f = Broadcast(factor[i.value]);
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      acc[i.value][c.value] =
          Mul(Load(out + i.value * padded + column + c.value * 16), f);
    });
  });
  for (int key = begin; key < end; ++key) {
    const std::byte* group = groups[key / 16];
    const int64_t first = dim * 16 + key % 16 * padded + column;
    V v[kVectors];
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      v[c.value] = Kv::LoadKv(group, first + c.value * 16);
    });
    Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
      const V p = Broadcast(scores[i.value * kKeyTile + key]);
      Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
        acc[i.value][c.value] = Fma(p, v[c.value], acc[i.value][c.value]);
      });
    });
  }
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      Store(out + i.value * padded + column + c.value * 16,
            acc[i.value][c.value]);
    });
  });
}

template <typename Kv, int kQueries>
void AttendTile(const AttentionArgs& args, const AttentionState& state,
                const float* const* q, const int* starts, const int* ends,
                const std::byte* const* groups, int query, int tile) {
  const int dim = args.kv.head_dim;
  const int padded = PaddedHead(args.kv);
  float* scores = state.scores + query * kKeyTile;
  ScoreTile<Kv, kQueries>(q, groups, dim, args.scale, scores);
  float factor[kQueries];
  int first = kKeyTile;
  int last = 0;
  for (int i = 0; i < kQueries; ++i) {
    const int begin = starts[i] - tile;
    const int end = ends[i] - tile;
    factor[i] =
        SoftmaxTile(scores + i * kKeyTile, begin, end, &state.running[query + i]);
    if (end <= 0 || begin >= kKeyTile || begin >= end) continue;
    first = begin < first ? (begin < 0 ? 0 : begin) : first;
    last = end > last ? (end > kKeyTile ? kKeyTile : end) : last;
  }
  float* out = state.partial + static_cast<int64_t>(query) * padded;
  int column = 0;
  for (; column + 64 <= padded; column += 64) {
    WeighColumns<Kv, kQueries, 64>(scores, groups, dim, padded, column, first,
                                   last, factor, out);
  }
  for (; column < padded; column += 16) {
    WeighColumns<Kv, kQueries, 16>(scores, groups, dim, padded, column, first,
                                   last, factor, out);
  }
}

// Adds a partition's softmax to those before it.
RBLN_INLINE void Combine(const AttentionState& state, int query, int padded) {
  Running& total = state.combined[query];
  const Running& part = state.running[query];
  if (!(part.largest > kMinusInfinity)) return;
  const float largest =
      part.largest > total.largest ? part.largest : total.largest;
  const float keep = ExpOne(total.largest - largest);
  const float add = ExpOne(part.largest - largest);
  total.sum = total.sum * keep + part.sum * add;
  total.largest = largest;
  float* out = state.total + static_cast<int64_t>(query) * padded;
  const float* from = state.partial + static_cast<int64_t>(query) * padded;
  for (int i = 0; i < padded; i += 16) {
    Store(out + i, Fma(Load(from + i), Broadcast(add),
                       Mul(Load(out + i), Broadcast(keep))));
  }
}

template <typename Kv>
void AttendRows(const AttentionArgs& args) {
  const KvLayout& kv = args.kv;
  const int dim = kv.head_dim;
  const int padded = PaddedHead(kv);
  const int group = args.num_heads / kv.num_kv_heads;
  const int queries = args.rows * group;

  AttentionState state;
  state.partial = args.scratch;
  state.total = state.partial + static_cast<int64_t>(queries) * padded;
  state.scores = state.total + static_cast<int64_t>(queries) * padded;
  state.running =
      reinterpret_cast<Running*>(state.scores + queries * kKeyTile);
  state.combined = state.running + queries;
  memset(state.total, 0, sizeof(float) * queries * padded);
  for (int i = 0; i < queries; ++i) state.combined[i] = {kMinusInfinity, 0.0f};

  const auto start = [&args](int row) __attribute__((always_inline)) {
    const int from = args.positions[row] + 1 - args.window;
    return args.window == 0 || from < 0 ? 0 : from;
  };
  const int first_key = start(0);
  const int last_key = args.positions[args.rows - 1] + 1;  // one past

  for (int partition = first_key / args.partition_len * args.partition_len;
       partition < last_key; partition += args.partition_len) {
    const int partition_end = partition + args.partition_len < last_key
                                  ? partition + args.partition_len
                                  : last_key;
    memset(state.partial, 0, sizeof(float) * queries * padded);
    for (int i = 0; i < queries; ++i) state.running[i] = {kMinusInfinity, 0.0f};
    // Tiles begin at absolute multiples; a partition need not.
    const int from = first_key > partition ? first_key : partition;
    for (int tile = from / kKeyTile * kKeyTile; tile < partition_end;
         tile += kKeyTile) {
      const std::byte* groups[kTileGroups];
      for (int g = 0; g < kTileGroups; ++g) {
        // Groups past the last key are not there; any will do, they are masked.
        const int position =
            tile + g * 16 < partition_end ? tile + g * 16 : tile;
        groups[g] = args.cache + GroupOffset(kv, args.blocks, args.layer,
                                             args.kv_head, position);
      }
      for (int query = 0; query < queries; query += kQueryBlock) {
        const float* q[kQueryBlock];
        int starts[kQueryBlock];
        int ends[kQueryBlock];
        const int count =
            queries - query < kQueryBlock ? queries - query : kQueryBlock;
        bool any = false;
        for (int i = 0; i < count; ++i) {
          const int row = (query + i) / group;
          const int head = args.kv_head * group + (query + i) % group;
          q[i] = reinterpret_cast<const float*>(args.q +
                                                row * args.q_row_bytes) +
                 static_cast<int64_t>(head) * dim;
          starts[i] = start(row) > partition ? start(row) : partition;
          ends[i] = args.positions[row] + 1 < partition_end
                        ? args.positions[row] + 1
                        : partition_end;
          any |= starts[i] < tile + kKeyTile && ends[i] > tile;
        }
        if (!any) continue;
        switch (count) {
          case 4:
            AttendTile<Kv, 4>(args, state, q, starts, ends, groups, query,
                              tile);
            break;
          case 3:
            AttendTile<Kv, 3>(args, state, q, starts, ends, groups, query,
                              tile);
            break;
          case 2:
            AttendTile<Kv, 2>(args, state, q, starts, ends, groups, query,
                              tile);
            break;
          default:
            AttendTile<Kv, 1>(args, state, q, starts, ends, groups, query,
                              tile);
        }
      }
    }
    for (int query = 0; query < queries; ++query) Combine(state, query, padded);
  }

  for (int query = 0; query < queries; ++query) {
    const int row = query / group;
    const int64_t column =
        static_cast<int64_t>(args.kv_head * group + query % group) * dim;
    const float inverse = 1.0f / state.combined[query].sum;
    const float* from = state.total + static_cast<int64_t>(query) * padded;
    std::byte* out = args.out + row * args.out_row_bytes;
    if (args.out_format == kFloat32) {
      float* at = reinterpret_cast<float*>(out) + column;
      for (int i = 0; i < dim; ++i) at[i] = from[i] * inverse;
    } else {
      uint16_t* at = reinterpret_cast<uint16_t*>(out) + column;
      for (int i = 0; i < dim; ++i) at[i] = ToBf16(from[i] * inverse);
    }
  }
}

void Attention(const AttentionArgs& args) {
  if (args.kv.format == kFloat32) {
    AttendRows<KvF32>(args);
  } else {
    AttendRows<KvBf16>(args);
  }
}

constexpr KernelTable MakeTable(const char* isa) {
  return {isa,     Matmul<F32Panels>, Matmul<Bf16Panels>, RmsNormRow, EmbedF32,
          EmbedBf16, RopeKv,          Attention};
}

}  // namespace
}  // namespace rbln
