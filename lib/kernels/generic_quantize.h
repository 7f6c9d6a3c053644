// Quantizing: rows of activations as a step runs, panels of weights as a
// compile packs them.
#pragma once

#include "kernels/generic_math.h"

namespace rbln {
namespace {

constexpr int kGroupVectors = kGroup / 16;

// One group of a row: scaled so that its largest magnitude becomes 127.
RBLN_INLINE void QuantizeGroup(const V* x, QuantizedGroup* group) {
  const float largest = Largest(Max(Absolute(x[0]), Absolute(x[1])));
  // Below this the inverse overflows; the values are nothing beside any others.
  const float inverse = largest > 1e-30f ? 127.0f / largest : 0.0f;
  V sum = Zero();
  for (int i = 0; i < kGroupVectors; ++i) {
    const V q = Round(Mul(x[i], Broadcast(inverse)));
    StoreInt8(group->values + i * 16, q);
    sum = Add(sum, q);
  }
  group->scale = inverse > 0.0f ? largest / 127.0f : 0.0f;
  group->offset = -128 * static_cast<int32_t>(Sum(sum));
}

// One pair of groups, of whose inputs the first `left` are there.
RBLN_INLINE void QuantizePair(V* x, int left, QuantizedGroup* pair) {
  if (left < kGroupPair) {
    for (int i = 0; i < 2 * kGroupVectors; ++i) {
      x[i] = KeepLanes(x[i], 0, left - 16 * i, Zero());
    }
  }
  QuantizeGroup(x, pair);
  QuantizeGroup(x + kGroupVectors, pair + 1);
}

// Rows are padded to whole vectors, not to pairs of groups.
RBLN_INLINE V LoadColumns(const float* x, int column, int columns) {
  return column < columns ? Load(x + column) : Zero();
}

void Quantize(const float* x, int columns, int begin, int end, std::byte* out) {
  QuantizedGroup* groups = reinterpret_cast<QuantizedGroup*>(out);
  for (int pair = begin; pair < end; ++pair) {
    const int column = pair * kGroupPair;
    V v[2 * kGroupVectors];
    for (int i = 0; i < 2 * kGroupVectors; ++i) {
      v[i] = LoadColumns(x, column + 16 * i, columns);
    }
    QuantizePair(v, columns - column, groups + 2 * pair);
  }
}

// ---- weights ----
// Fused multiply-adds are not used: every instruction set packs the same bytes.

// Inputs [first, first + kGroup) of sixteen rows, a lane for each row.
RBLN_INLINE void LoadGroup(const float* rows, int inputs, int first,
                           float (*w)[16]) {
  const int count = inputs - first < kGroup ? inputs - first : kGroup;
  if (count < kGroup) memset(w, 0, kGroup * sizeof *w);
  for (int lane = 0; lane < 16; ++lane) {
    const float* row = rows + static_cast<int64_t>(lane) * inputs + first;
    for (int k = 0; k < count; ++k) w[k][lane] = row[k];
  }
}

// 1 / x, and 0 where x is next to nothing.
RBLN_INLINE V InverseOrZero(V x) {
  return SelectLess(Absolute(x), Broadcast(1e-30f), Zero(),
                    Div(Broadcast(1.0f), x));
}

RBLN_INLINE V ToGrid(V w, V inverse, float lowest, float highest) {
  return Min(Max(Round(Mul(w, inverse)), Broadcast(lowest)),
             Broadcast(highest));
}

// The values of a group less `origin`, as bytes [input][16].
RBLN_INLINE void StoreGrid(const float (*w)[16], V inverse, float lowest,
                           float highest, float origin, int8_t (*out)[16]) {
  for (int k = 0; k < kGroup; ++k) {
    StoreInt8(out[k], Sub(ToGrid(Load(w[k]), inverse, lowest, highest),
                          Broadcast(origin)));
  }
}

void PackInt8(const float* rows, int inputs, std::byte* out) {
  for (int first = 0; first < inputs; first += kGroupPair) {
    uint16_t* scales = reinterpret_cast<uint16_t*>(out);
    uint8_t* bytes = reinterpret_cast<uint8_t*>(out) + kPairScaleBytes;
    for (int group = 0; group < 2; ++group) {
      alignas(64) float w[kGroup][16];
      LoadGroup(rows, inputs, first + group * kGroup, w);
      V largest = Zero();
      for (int k = 0; k < kGroup; ++k) {
        largest = Max(largest, Absolute(Load(w[k])));
      }
      StoreHalf(scales + group * 16, Mul(largest, Broadcast(1.0f / 127.0f)));
      int8_t grid[kGroup][16];
      StoreGrid(w, InverseOrZero(LoadHalf(scales + group * 16)), -127.0f,
                127.0f, 0.0f, grid);
      for (int quad = 0; quad < kGroup / 4; ++quad) {
        uint32_t words[16] = {};
        for (int k = 0; k < 4; ++k) {
          for (int lane = 0; lane < 16; ++lane) {
            const auto byte = static_cast<uint8_t>(grid[quad * 4 + k][lane]);
            words[lane] |= static_cast<uint32_t>(byte) << (k * 8);
          }
        }
        // 128 above what they are.
        for (int lane = 0; lane < 16; ++lane) words[lane] ^= 0x80808080;
        memcpy(bytes + (group * (kGroup / 4) + quad) * sizeof words, words,
               sizeof words);
      }
    }
    out += kInt8PairBytes;
  }
}

// The grids tried: the largest magnitude of a group on 6.2, 6.5, ... 8,
// ... 9.2. On normal weights the root mean square error is 5.8% below that of
// the largest magnitude on 8, and within 0.1% of what 64 trials leave.
constexpr int kInt4Trials = 11;
constexpr float kInt4Nearest = 6.2f;
constexpr float kInt4Step = 0.3f;

void PackInt4(const float* rows, int inputs, std::byte* out) {
  for (int first = 0; first < inputs; first += kGroupPair) {
    uint16_t* scales = reinterpret_cast<uint16_t*>(out);
    uint8_t* bytes = reinterpret_cast<uint8_t*>(out) + kPairScaleBytes;
    for (int group = 0; group < 2; ++group) {
      alignas(64) float w[kGroup][16];
      LoadGroup(rows, inputs, first + group * kGroup, w);
      V highest = Zero();
      V lowest = Zero();
      for (int k = 0; k < kGroup; ++k) {
        highest = Max(highest, Load(w[k]));
        lowest = Min(lowest, Load(w[k]));
      }
      // The grid reaches further down than up, so the end of larger magnitude
      // goes down. For a grid that is given, w . q / q . q is the scale of
      // least squared error, and (w . q)^2 / q . q what it saves.
      const V end = SelectLess(highest, Sub(Zero(), lowest), lowest, highest);
      const V step = InverseOrZero(end);
      V best_saved = Broadcast(-1.0f);
      V best_inverse = Zero();
      V best_scale = Zero();
      for (int trial = 0; trial < kInt4Trials; ++trial) {
        const V inverse = Mul(
            step,
            Broadcast(-kInt4Nearest - kInt4Step * static_cast<float>(trial)));
        V product = Zero();
        V square = Zero();
        for (int k = 0; k < kGroup; ++k) {
          const V q = ToGrid(Load(w[k]), inverse, -8.0f, 7.0f);
          product = Add(product, Mul(Load(w[k]), q));
          square = Add(square, Mul(q, q));
        }
        const V scale = Mul(product, InverseOrZero(square));
        const V saved = Mul(scale, product);
        best_inverse = SelectLess(best_saved, saved, inverse, best_inverse);
        best_scale = SelectLess(best_saved, saved, scale, best_scale);
        best_saved = SelectLess(best_saved, saved, saved, best_saved);
      }
      StoreHalf(scales + group * 16, best_scale);
      int8_t grid[kGroup][16];
      StoreGrid(w, best_inverse, -8.0f, 7.0f, -8.0f, grid);
      for (int eight = 0; eight < kGroup / 8; ++eight) {
        uint32_t words[16] =
            {};  // of a lane: the first four low, the others high
        for (int k = 0; k < 8; ++k) {
          for (int lane = 0; lane < 16; ++lane) {
            words[lane] |= static_cast<uint32_t>(grid[eight * 8 + k][lane])
                           << (k % 4 * 8 + k / 4 * 4);
          }
        }
        memcpy(bytes + (group * 4 + eight) * sizeof words, words, sizeof words);
      }
    }
    out += kInt4PairBytes;
  }
}

}  // namespace
}  // namespace rbln
