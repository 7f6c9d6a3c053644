// Matrix products: a register tile of rows and panels for each weight format.
#pragma once

#include "kernels/generic_math.h"

namespace rbln {
namespace {

// Inputs of one row in the order of their steps, `x` at the first of them, and
// panels likewise: what a format walks.
struct Walk {
  const std::byte* weights;  // of the first panel
  uint64_t panel_bytes;
  const std::byte* x;  // of the first row
  uint64_t x_row_bytes;
  int steps;
};

// How far ahead of the reading of a panel its lines are asked for: far enough
// to cover memory's latency at a few streams.
constexpr int kPrefetchBytes = 2048;

// How one weight format is walked: kStep inputs at a time, `Accumulate` adding
// to the sums of kRows by kPanels; kMaxRows<kPanels> is what registers hold.
template <typename P>
struct FloatPanels {
  template <int kPanels>
  static constexpr int kMaxRows = kFloatRegisters / kPanels < kMaxTileRows
                                      ? kFloatRegisters / kPanels
                                      : kMaxTileRows;

  template <int kRows, int kPanels>
  RBLN_INLINE void Accumulate(Walk walk, V (&acc)[kRows][kPanels]) {
    for (int step = 0; step < walk.steps; ++step) {
      typename P::W w[kPanels];
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        const std::byte* at = walk.weights + p.value * walk.panel_bytes;
        w[p.value] = P::LoadWeights(at);
        if constexpr (kRows < 12) Prefetch(at + kPrefetchBytes);
      });
      Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        const typename P::X input =
            P::LoadInput(walk.x + r.value * walk.x_row_bytes);
        Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          acc[r.value][p.value] =
              P::Dot(input, w[p.value], acc[r.value][p.value]);
        });
      });
      walk.weights += P::kStepBytes;
      walk.x += P::kInputBytes;
    }
  }
};
struct F32Panels : FloatPanels<F32Panels> {
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
struct Bf16Panels : FloatPanels<Bf16Panels> {
  static constexpr int kStep = 2;
  static constexpr int kStepBytes = 32 * sizeof(uint16_t);
  static constexpr int kInputBytes = 2 * sizeof(uint16_t);
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

// The integer formats: whole sums of a group, then scaled and added. P widens
// the panel's bytes to eight bits; its scales are kScale too large for that.
template <typename P>
struct GroupPanels {
  static constexpr int kStep = kGroupPair;
  static constexpr int kInputBytes = sizeof(Int8Pair);
  template <int kPanels>
  static constexpr int kMaxRows =
      kGroupTiles / kPanels > 0 ? kGroupTiles / kPanels : 1;

  template <int kRows, int kPanels>
  RBLN_INLINE void Accumulate(Walk walk, V (&acc)[kRows][kPanels]) {
    for (int step = 0; step < walk.steps; ++step) {
      Unroll<2>([&](auto group) __attribute__((always_inline)) {
        constexpr int kHalf = group.value;
        const auto pair = [&](int r) __attribute__((always_inline)) {
          return reinterpret_cast<const Int8Pair*>(walk.x +
                                                   r * walk.x_row_bytes);
        };
        Sums sums[kRows][kPanels];
        Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
          Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
            sums[r.value][p.value] =
                BroadcastInt(pair(r.value)->offsets[kHalf]);
          });
        });
        Unroll<kGroup / 4 / P::kQuads>([&](auto i)
                                           __attribute__((always_inline)) {
          Bytes w[kPanels][P::kQuads];
          Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
            const std::byte* at = walk.weights + p.value * walk.panel_bytes +
                                  kPairScaleBytes +
                                  (kHalf * (kGroup / 4 / P::kQuads) + i.value) *
                                      64;
            P::LoadQuads(reinterpret_cast<const uint8_t*>(at), w[p.value]);
            if constexpr (kRows <= 8) Prefetch(at + kPrefetchBytes);
          });
          Unroll<P::kQuads>([&](auto q) __attribute__((always_inline)) {
            Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
              const int8_t* x = pair(r.value)->values + kHalf * kGroup +
                                (i.value * P::kQuads + q.value) * 4;
              Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
                sums[r.value][p.value] =
                    DotBytes(sums[r.value][p.value], w[p.value][q.value], x);
              });
            });
          });
        });
        Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          const V scale = P::WideScale(
              LoadHalf(reinterpret_cast<const uint16_t*>(
                           walk.weights + p.value * walk.panel_bytes) +
                       kHalf * 16));
          Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
            acc[r.value][p.value] =
                Fma(ToFloat(sums[r.value][p.value]),
                    Mul(scale, Broadcast(pair(r.value)->scales[kHalf])),
                    acc[r.value][p.value]);
          });
        });
      });
      walk.weights += P::kStepBytes;
      walk.x += kInputBytes;
    }
  }
};
struct Int8Panels : GroupPanels<Int8Panels> {
  static constexpr int kStepBytes = kInt8PairBytes;
  static constexpr int kQuads = 1;  // of each 64 bytes
  RBLN_INLINE void LoadQuads(const uint8_t* p, Bytes (&w)[1]) {
    w[0] = LoadBytes(p);
  }
  RBLN_INLINE V WideScale(V scale) { return scale; }
};
struct Int4Panels : GroupPanels<Int4Panels> {
  static constexpr int kStepBytes = kInt4PairBytes;
  static constexpr int kQuads = 2;
  RBLN_INLINE void LoadQuads(const uint8_t* p, Bytes (&w)[2]) {
    const Bytes both = LoadBytes(p);
    w[0] = LowHalves(both);
    w[1] = HighHalves(both);
  }
  // In the upper half of a byte a value stands for sixteen times itself.
  RBLN_INLINE V WideScale(V scale) {
    return Mul(scale, Broadcast(1.0f / 16.0f));
  }
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

  P::Accumulate(
      Walk{.weights = args.weights + block.panel * args.panel_bytes +
                      static_cast<int64_t>(block.first_step) * P::kStepBytes,
           .panel_bytes = args.panel_bytes,
           .x = args.x + block.row * args.x_row_bytes +
                static_cast<int64_t>(block.first_step) * P::kInputBytes,
           .x_row_bytes = args.x_row_bytes,
           .steps = block.last_step - block.first_step},
      acc);

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

// The rows of one tile of panels, in register tiles.
template <typename P, int kPanels>
void MatmulAllRows(const MatmulArgs& args, Block block) {
  using Tile = void (*)(const MatmulArgs&, Block);
  constexpr int kMost = P::template kMaxRows<kPanels>;
  struct Tiles {
    Tile of[kMost];
  };
  static constexpr Tiles kTiles = [] {
    Tiles tiles{};
    Unroll<kMost>([&](auto r) {
      tiles.of[r.value] = MatmulRows<P, r.value + 1, kPanels>;
    });
    return tiles;
  }();
  const int most = args.tile.rows < 1       ? 1
                   : args.tile.rows < kMost ? args.tile.rows
                                            : kMost;
  for (block.row = 0; block.row < args.rows;) {
    const int left = args.rows - block.row;
    const int rows = left < most ? left : most;
    kTiles.of[rows - 1](args, block);
    block.row += rows;
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

}  // namespace
}  // namespace rbln
