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

// The rows of an input at one step. Of each four rows one address is held and
// the others are reached by the stride: left to itself GCC 12 holds an address
// for each row, runs out of registers and loads them from the stack.
template <int kRows>
struct RowPointers {
  const std::byte* fourth[(kRows + 3) / 4];
  uint64_t stride;
  uint64_t triple;

  RBLN_INLINE_MEMBER RowPointers(const std::byte* x, uint64_t row_bytes)
      : stride(row_bytes), triple(3 * row_bytes) {
    Unroll<(kRows + 3) / 4>([&](auto i) __attribute__((always_inline)) {
      fourth[i.value] = x + i.value * 4 * row_bytes;
      asm("" : "+r"(fourth[i.value]));
    });
  }
  template <int kRow>
  RBLN_INLINE_MEMBER const std::byte* At(Index<kRow>) const {
    const std::byte* base = fourth[kRow / 4];
    if constexpr (kRow % 4 == 3) return base + triple;
    return base + kRow % 4 * stride;
  }
};

// How one weight format is walked: kStep inputs at a time, `Accumulate` adding
// to the sums of kRows by kPanels, kMaxTilePanels * 16 apart;
// kMaxRows<kPanels> is what registers hold.
template <typename P>
struct FloatPanels {
  template <int kPanels>
  static constexpr int kMaxRows =
      kFloatRegisters / kPanels < kMaxTileRows ? kFloatRegisters / kPanels
                                               : kMaxTileRows;

  template <int kRows, int kPanels>
  RBLN_INLINE void Accumulate(Walk walk, Fetch& fetch, float* sums) {
    Fetch ahead = fetch;  // in registers
    V acc[kRows][kPanels];
    Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        acc[r.value][p.value] =
            Load(sums + (r.value * kMaxTilePanels + p.value) * 16);
      });
    });
    for (int step = 0; step < walk.steps; ++step) {
      ahead.Step();
      const RowPointers<kRows> rows(walk.x, walk.x_row_bytes);
      typename P::W w[kPanels];
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        w[p.value] = P::LoadWeights(walk.weights + p.value * walk.panel_bytes);
      });
      Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        const typename P::X input = P::LoadInput(rows.At(r));
        Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          acc[r.value][p.value] =
              P::Dot(input, w[p.value], acc[r.value][p.value]);
        });
      });
      walk.weights += P::kStepBytes;
      walk.x += P::kInputBytes;
    }
    fetch = ahead;
    Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        Store(sums + (r.value * kMaxTilePanels + p.value) * 16,
              acc[r.value][p.value]);
      });
    });
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

// The integer formats: whole sums of a group, then scaled and added. The whole
// sums have the registers; the float sums, touched once a group, stay in
// memory, so that a tile can be wide enough to use each load of an input
// several times. The instruction sets come to the same whole sums in different
// ways.
template <typename P>
struct GroupPanels {
  static constexpr int kStep = kGroupPair;
  static constexpr int kInputBytes = 2 * sizeof(QuantizedGroup);
  template <int kPanels>
  static constexpr int kMaxRows =
      kGroupRegisters / kPanels > kMaxTileRows ? kMaxTileRows
      : kGroupRegisters >= kPanels             ? kGroupRegisters / kPanels
                                               : 1;

  template <int kRows, int kPanels>
  RBLN_INLINE void Accumulate(Walk walk, Fetch& fetch, float* totals) {
    Fetch ahead = fetch;  // in registers
    constexpr int kQuadsBytes = 64;
    const auto add_group = [&](int g) __attribute__((always_inline)) {
      const std::byte* const scales = walk.weights + g * (kPairScaleBytes / 2);
      const std::byte* const values =
          walk.weights + kPairScaleBytes +
          g * (kGroup / 4 / P::kQuads * kQuadsBytes);
      const RowPointers<kRows> rows(walk.x, walk.x_row_bytes);
      const auto group = [&](auto r) __attribute__((always_inline)) {
        return reinterpret_cast<const QuantizedGroup*>(rows.At(r));
      };
      Sums sums[kRows][kPanels];
      Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
        Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          sums[r.value][p.value] = P::Start(group(r)->offset);
        });
      });
      Unroll<kGroup / 4 / P::kQuads>([&](
          auto i) __attribute__((always_inline)) {
        Bytes w[kPanels][P::kQuads];
        Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
          const std::byte* at =
              values + p.value * walk.panel_bytes + i.value * kQuadsBytes;
          P::LoadQuads(reinterpret_cast<const uint8_t*>(at), w[p.value]);
        });
        Unroll<P::kQuads>([&](auto q) __attribute__((always_inline)) {
          Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
            const int8_t* x =
                group(r)->values + (i.value * P::kQuads + q.value) * 4;
            Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
              sums[r.value][p.value] =
                  P::Dot(sums[r.value][p.value], w[p.value][q.value], x);
            });
          });
        });
      });
      Unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
        const V scale = P::WideScale(LoadHalf(reinterpret_cast<const uint16_t*>(
            scales + p.value * walk.panel_bytes)));
        Unroll<kRows>([&](auto r) __attribute__((always_inline)) {
          float* total = totals + (r.value * kMaxTilePanels + p.value) * 16;
          Store(total,
                Fma(ToFloat(P::End(sums[r.value][p.value], group(r)->offset)),
                    Mul(scale, Broadcast(group(r)->scale)), Load(total)));
        });
      });
      walk.x += sizeof(QuantizedGroup);
    };
    for (int step = 0; step < walk.steps; ++step) {
      ahead.Step();
      add_group(0);
      add_group(1);
      walk.weights += P::kStepBytes;
    }
    fetch = ahead;
  }
};
struct Int8Panels : GroupPanels<Int8Panels> {
  static constexpr int kStepBytes = kInt8PairBytes;
  static constexpr int kQuads = 1;  // of each 64 bytes
  RBLN_INLINE void LoadQuads(const uint8_t* p, Bytes (&w)[1]) {
    w[0] = LoadBytes(p);
  }
  RBLN_INLINE Sums Start(int32_t offset) { return StartInt8(offset); }
  RBLN_INLINE Sums Dot(Sums sums, const Bytes& w, const int8_t* x) {
    return DotInt8(sums, w, x);
  }
  RBLN_INLINE Sums End(Sums sums, int32_t) { return sums; }
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
  RBLN_INLINE Sums Start(int32_t offset) { return StartInt4(offset); }
  RBLN_INLINE Sums Dot(Sums sums, const Bytes& w, const int8_t* x) {
    return DotInt4(sums, w, x);
  }
  RBLN_INLINE Sums End(Sums sums, int32_t offset) {
    return EndInt4(sums, offset);
  }
  // The sums are those of sixteen times the values, as if these stood in the
  // upper halves of bytes: what the offset of 128 is for.
  RBLN_INLINE V WideScale(V scale) {
    return Mul(scale, Broadcast(1.0f / 16.0f));
  }
};

// One cache block of inputs, one register tile of rows and panels. The weights
// of the next one are fetched meanwhile, into the second-level cache.
struct Block {
  int64_t panel;  // first panel of the tile
  int panels;
  int place;  // among the sums: 1 for a gate's other panel, when alone
  int64_t first_result;  // panel for the epilogue: the gate's, were it alone
  int results;           // and how many
  int row;               // first row of the tile
  int first_step;
  int last_step;  // one past
  bool first;     // begins the sums
  bool last;      // ends them
  bool whole;     // and then all is there that the epilogue needs
};

// Sums of row r, tile panel p lie at TileSums() + (r * kMaxTilePanels + p) * 16
// between the blocks of inputs of a tile.
RBLN_INLINE float* TileSums(const MatmulArgs& args, int row) {
  return args.scratch + static_cast<int64_t>(row) * kMaxTilePanels * 16;
}

template <typename P, int kRows, int kPanels>
void AccumulateTile(const MatmulArgs& args, const Block& block, Fetch& fetch) {
  float* sums = TileSums(args, block.row) + block.place * 16;
  if (block.first) {
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPanels; ++p) {
        Store(sums + (r * kMaxTilePanels + p) * 16, Zero());
      }
    }
  }
  P::template Accumulate<kRows, kPanels>(
      Walk{.weights = args.weights + block.panel * args.panel_bytes +
                      static_cast<int64_t>(block.first_step) * P::kStepBytes,
           .panel_bytes = args.panel_bytes,
           .x = args.x + block.row * args.x_row_bytes +
                static_cast<int64_t>(block.first_step) * P::kInputBytes,
           .x_row_bytes = args.x_row_bytes,
           .steps = block.last_step - block.first_step},
      fetch, sums);
}

// The bias and the epilogue, once the sums of a tile are whole.
void FinishTile(const MatmulArgs& args, const Block& block, int rows) {
  const int64_t panel = block.first_result;
  const int panels = block.results;
  const auto result = [&](int r, int p) __attribute__((always_inline)) {
    const V sum =
        Load(TileSums(args, block.row + r) + static_cast<int64_t>(p) * 16);
    return args.bias == nullptr ? sum
                                : Add(sum, Load(args.bias + (panel + p) * 16));
  };
  for (int r = 0; r < rows; ++r) {
    std::byte* out = args.out + (block.row + r) * args.out_row_bytes;
    switch (args.epilogue) {
      case kStoreResult:
        if (args.past_caches) {
          float* const at = reinterpret_cast<float*>(out) + panel * 16;
          for (int p = 0; p < panels; ++p) StorePast(at + p * 16, result(r, p));
          break;
        }
        for (int p = 0; p < panels; ++p) {
          StoreColumns(out, (panel + p) * 16, args.out_format, result(r, p));
        }
        break;
      case kAddResult:
        for (int p = 0; p < panels; ++p) {
          float* at = reinterpret_cast<float*>(out) + (panel + p) * 16;
          Store(at, Add(Load(at), result(r, p)));
        }
        break;
      case kSiluGateResult:
        for (int p = 0; p < panels; p += 2) {
          StoreColumns(out, (panel + p) / 2 * 16, args.out_format,
                       Mul(Silu(result(r, p)), result(r, p + 1)));
        }
        break;
    }
  }
}

// Asks for where FinishTile will store, which may be far from the caches.
RBLN_INLINE void FetchResults(const MatmulArgs& args, const Block& block,
                              int rows) {
  const int shared = args.epilogue == kSiluGateResult ? 2 : 1;
  const int bytes = 16 * (args.out_format == kFormatFloat32 ? 4 : 2);
  std::byte* out = args.out + block.row * args.out_row_bytes +
                   block.first_result / shared * bytes;
  const int across = block.results / shared * bytes;
  for (int r = 0; r < rows; ++r) {
    for (int at = 0; at < across; at += 64) PrefetchToStore(out + at);
    out += args.out_row_bytes;
  }
}

// The rows of one tile of panels, in register tiles.
template <typename P, int kPanels>
void MatmulAllRows(const MatmulArgs& args, Block block, Fetch fetch) {
  using Tile = void (*)(const MatmulArgs&, const Block&, Fetch&);
  constexpr int kMost = P::template kMaxRows<kPanels>;
  struct Tiles {
    Tile of[kMost];
  };
  static constexpr Tiles kTiles = [] {
    Tiles tiles{};
    Unroll<kMost>([&](auto r) {
      tiles.of[r.value] = AccumulateTile<P, r.value + 1, kPanels>;
    });
    return tiles;
  }();
  const int most = args.tile.rows < 1       ? 1
                   : args.tile.rows < kMost ? args.tile.rows
                                            : kMost;
  fetch.Spread(int64_t{(args.rows + most - 1) / most} *
               (block.last_step - block.first_step));
  for (block.row = 0; block.row < args.rows;) {
    const int left = args.rows - block.row;
    const int rows = left < most ? left : most;
    if (block.whole && !args.past_caches) FetchResults(args, block, rows);
    kTiles.of[rows - 1](args, block, fetch);
    if (block.whole) FinishTile(args, block, rows);
    block.row += rows;
  }
}

template <typename P>
void Matmul(const MatmulArgs& args) {
  if (args.panel_begin >= args.panel_end) return;
  const int steps = (args.inputs + P::kStep - 1) / P::kStep;
  const bool paired = args.epilogue == kSiluGateResult;
  const auto block_at = [&](int64_t panel, int step) {
    const auto [panels, together] = MatmulBlockShape(
        args.tile, args.panel_end - panel, steps, P::kStep, P::kStepBytes);
    const int end = step + together;
    const bool last = end >= steps;
    const int place = paired && panels == 1 ? static_cast<int>(panel % 2) : 0;
    return Block{.panel = panel,
                 .panels = panels,
                 .place = place,
                 .first_result = panel - place,
                 .results = panels + place,
                 .row = 0,
                 .first_step = step,
                 .last_step = last ? steps : end,
                 .first = step == 0,
                 .last = last,
                 .whole = last && (!paired || panels > 1 || place == 1)};
  };
  const auto fetch_of = [](const WeightBlock& block) {
    return Fetch(block.panels, block.bytes,
                 [&](int i) { return block.at + i * block.panel_bytes; });
  };
  const auto weights_of = [&](const Block& block) {
    const int of_step = P::kStepBytes;
    return WeightBlock{
        args.weights + block.panel * args.panel_bytes +
            int64_t{block.first_step} * of_step,
        args.panel_bytes, block.panels,
        static_cast<uint64_t>(block.last_step - block.first_step) * of_step};
  };
  Block block = block_at(args.panel_begin, 0);
  if (!args.fetched) {
    fetch_of(weights_of(block)).All();
  }
  for (bool more = true; more;) {
    const int64_t panel = block.panel + (block.last ? block.panels : 0);
    more = panel < args.panel_end;
    const Block next =
        more ? block_at(panel, block.last ? 0 : block.last_step) : block;
    const Fetch fetch = fetch_of(more ? weights_of(next) : args.next);
    switch (block.panels) {
      case 4:
        MatmulAllRows<P, 4>(args, block, fetch);
        break;
      case 2:
        MatmulAllRows<P, 2>(args, block, fetch);
        break;
      default:
        MatmulAllRows<P, 1>(args, block, fetch);
    }
    block = next;
  }
  if (args.past_caches) EndStoresPast();
}

}  // namespace
}  // namespace rbln
