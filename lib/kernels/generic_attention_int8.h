// Attention over an int8 KV cache, in whole numbers.
//
// A query is held as 14 bits, hi * 128 + lo, times one scale; so are the
// softmax weights of a tile of keys, each times the scale of its V. Both
// products are then sums of bytes times int8, first over hi, then, 128 times
// that, over lo: a query's parts are the signed ones of theirs, weights, which
// are never negative, the bytes. What is lost beside the cache's own rounding
// is 2^-14 of the largest number. The sums hold for heads of up to 1024.
//
// A group of 16 positions: K by fours of the head's dimensions, each (16
// positions, 4 dimensions), as bytes 128 above what they are; V by fours of
// positions, each (padded head, 4 positions), as int8; then 16 scales of K and
// 16 of V.
#pragma once

#include "kernels/generic_math.h"

namespace rbln {
namespace {

constexpr float kHalves = 128.0f;  // hi counts for so much
// What the largest number becomes: of queries, whose halves have signs, and of
// weights.
constexpr float kWholeQuery = 127.0f * kHalves;
constexpr float kWholeWeight = 127.0f * kHalves + 127.0f;

// Of a group of 16 positions.
struct Int8Group {
  int dim;     // of the head
  int padded;  // to whole vectors

  RBLN_INLINE_MEMBER int Quads() const { return (dim + 3) / 4; }
  RBLN_INLINE_MEMBER int64_t KeyAt(int lane, int d) const {
    return d / 4 * 64 + lane * 4 + d % 4;
  }
  RBLN_INLINE_MEMBER int64_t ValueAt(int lane, int d) const {
    return int64_t{Quads()} * 64 + lane / 4 * (padded * 4) + d * 4 + lane % 4;
  }
  // K's of the positions, then V's.
  RBLN_INLINE_MEMBER int64_t Scales() const {
    return int64_t{Quads()} * 64 + 16 * int64_t{padded};
  }
  RBLN_INLINE_MEMBER V LoadScales(const std::byte* group, int which) const {
    return Load(reinterpret_cast<const float*>(group + Scales()) + 16 * which);
  }
};

// One head of one position, `above` what it is; `at(d)` is where dimension d
// goes. Returns the scale.
template <typename At>
RBLN_INLINE float QuantizeHead(const float* x, int dim, int above,
                               std::byte* group, At&& at) {
  float largest = 0.0f;
  for (int i = 0; i < dim; ++i) {
    const float magnitude = __builtin_fabsf(x[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  const float inverse = largest > 1e-30f ? 127.0f / largest : 0.0f;
  for (int i = 0; i < dim; ++i) {
    group[at(i)] = static_cast<std::byte>(
        static_cast<int>(__builtin_rintf(x[i] * inverse)) + above);
  }
  return inverse > 0.0f ? largest / 127.0f : 0.0f;
}

// A query as whole numbers: a header, then the hi of all dimensions, then the
// lo, both filled up to whole quads with zeros.
struct Int8Query {
  float scale;
  int32_t offset;  // of hi; makes up for the bytes' being 128 above
};
constexpr int kInt8QueryHeader = 16;
RBLN_INLINE int64_t Int8QueryBytes(int dim) {
  return kInt8QueryHeader + 2 * int64_t{(dim + 3) / 4 * 4};
}
// q times `factor`.
RBLN_INLINE void QuantizeQuery(const float* q, float factor, int dim,
                               std::byte* out) {
  const int filled = (dim + 3) / 4 * 4;
  int8_t* hi = reinterpret_cast<int8_t*>(out + kInt8QueryHeader);
  int8_t* lo = hi + filled;
  float largest = 0.0f;
  for (int i = 0; i < dim; ++i) {
    const float magnitude = __builtin_fabsf(q[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  const float inverse = largest > 1e-30f ? kWholeQuery / largest : 0.0f;
  int hi_sum = 0;
  int lo_sum = 0;
  for (int i = 0; i < filled; ++i) {
    const float y = i < dim ? q[i] * inverse : 0.0f;
    const float high = __builtin_rintf(y * (1.0f / kHalves));
    hi[i] = static_cast<int8_t>(high);
    lo[i] = static_cast<int8_t>(__builtin_rintf(y - high * kHalves));
    hi_sum += hi[i];
    lo_sum += lo[i];
  }
  const Int8Query header = {
      inverse > 0.0f ? largest / kWholeQuery * factor : 0.0f,
      -128 * hi_sum - lo_sum};
  memcpy(out, &header, sizeof header);
}

// Groups of keys, and columns of V, that are summed at once: as many as there
// are registers for.
template <int kQueries>
constexpr int kInt8Width = kGroupRegisters >= 4 * kQueries   ? 4
                           : kGroupRegisters >= 2 * kQueries ? 2
                                                             : 1;

constexpr int kScoreParts = 4;
constexpr int kQuadsUnrolled = 4;
// Steps of what is fetched that come with kInt8Width groups of ScoreInt8.
RBLN_INLINE int ScoreSteps(int quads) { return 2 * (quads / kQuadsUnrolled); }
// scores[query][key] = q . k, for kInt8Width groups of a tile from `first` on,
// in parts: between(part) comes before each.
template <int kQueries, typename Between>
RBLN_INLINE void ScoreInt8(const std::byte* const* queries,
                           const std::byte* const* groups, Fetch& fetch,
                           const Between& between, int first, Int8Group layout,
                           float* scores) {
  constexpr int kGroups = kInt8Width<kQueries>;
  const int quads = layout.Quads();
  Int8Query header[kQueries];
  Sums sums[kQueries][kGroups];
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    memcpy(&header[i.value], queries[i.value], sizeof(Int8Query));
    Unroll<kGroups>([&](auto g) __attribute__((always_inline)) {
      sums[i.value][g.value] = StartInt8(header[i.value].offset);
    });
  });
  Unroll<kScoreParts>([&](auto part) __attribute__((always_inline)) {
    constexpr int kHalf = part.value / 2;
    between(part.value);
    if (part.value == kScoreParts / 2) {
      Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
        Unroll<kGroups>([&](auto g) __attribute__((always_inline)) {
          sums[i.value][g.value] = Times128(sums[i.value][g.value]);
        });
      });
    }
    const int64_t half = kInt8QueryHeader + kHalf * int64_t{quads} * 4;
    const auto add = [&](int quad) __attribute__((always_inline)) {
      Bytes k[kGroups];
      Unroll<kGroups>([&](auto g) __attribute__((always_inline)) {
        k[g.value] = LoadBytes(reinterpret_cast<const uint8_t*>(
            groups[first + g.value] + quad * 64));
      });
      Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
        const int8_t* x =
            reinterpret_cast<const int8_t*>(queries[i.value] + half + quad * 4);
        Unroll<kGroups>([&](auto g) __attribute__((always_inline)) {
          sums[i.value][g.value] =
              DotInt8InPlace(sums[i.value][g.value], k[g.value], x);
        });
      });
    };
    const int middle = quads / 2 / kQuadsUnrolled * kQuadsUnrolled;
    int quad = part.value % 2 == 0 ? 0 : middle;
    const int end = part.value % 2 == 0 ? middle : quads;
    for (; quad + kQuadsUnrolled <= end; quad += kQuadsUnrolled) {
      fetch.SharedStep();
      Unroll<kQuadsUnrolled>([&](auto i) __attribute__((always_inline)) {
        add(quad + i.value);
      });
    }
    for (; quad < end; ++quad) add(quad);
  });
  Unroll<kGroups>([&](auto g) __attribute__((always_inline)) {
    const V scales = layout.LoadScales(groups[first + g.value], 0);
    Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
      Store(scores + i.value * kKeyTile + (first + g.value) * 16,
            Mul(ToFloat(sums[i.value][g.value]),
                Mul(Broadcast(header[i.value].scale), scales)));
    });
  });
}

// The softmax weights of a tile as whole numbers of seven bits twice.
struct Int8Weights {
  alignas(64) uint8_t hi[kKeyTile];
  alignas(64) uint8_t lo[kKeyTile];
};
// What V's of the keys are to be multiplied by, so that no weight of at most 1
// becomes more than kWholeWeight; and what the sums are to be multiplied by.
struct Int8Scales {
  V of_keys[kKeyTile / 16];
  float of_sums;
};
// Of keys [begin, end) of a tile: those of others may be no numbers.
RBLN_INLINE Int8Scales LoadInt8Scales(const std::byte* const* groups,
                                      Int8Group layout, int begin, int end) {
  Int8Scales scales;
  V widest = Zero();
  Unroll<kKeyTile / 16>([&](auto g) __attribute__((always_inline)) {
    scales.of_keys[g.value] =
        KeepLanes(layout.LoadScales(groups[g.value], 1), begin - g.value * 16,
                  end - g.value * 16, Zero());
    widest = Max(widest, scales.of_keys[g.value]);
  });
  const float most = Largest(widest);
  const V inverse = Broadcast(most > 1e-30f ? kWholeWeight / most : 0.0f);
  Unroll<kKeyTile / 16>([&](auto g) __attribute__((always_inline)) {
    scales.of_keys[g.value] = Mul(scales.of_keys[g.value], inverse);
  });
  scales.of_sums = most > 1e-30f ? most / kWholeWeight : 0.0f;
  return scales;
}

// Steps of what is fetched that come with a whole tile of WeighInt8.
constexpr int kWeighSteps = 2 * kKeyTile / 16;
// out[query] = out[query] * before[query] + weights x V * now[query], kVectors
// * 16 columns, over groups [begin, end) of a tile.
template <int kQueries, int kVectors>
RBLN_INLINE void WeighInt8(const Int8Weights* weights,
                           const std::byte* const* groups, Fetch& fetch,
                           Int8Group layout, int column, int begin, int end,
                           const float* before, const float* now, float* out) {
  Sums sums[kQueries][kVectors];
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      sums[i.value][c.value] = BroadcastInt(0);
    });
  });
  Unroll<2>([&](auto half) __attribute__((always_inline)) {
    if (half.value == 1) {
      Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
        Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
          sums[i.value][c.value] = Times128(sums[i.value][c.value]);
        });
      });
    }
    for (int g = begin; g < end; ++g) {
      fetch.SharedStep();
      const uint8_t* at = reinterpret_cast<const uint8_t*>(groups[g]) +
                          layout.ValueAt(0, column);
      Unroll<4>([&](auto quad) __attribute__((always_inline)) {
        Bytes v[kVectors];
        Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
          v[c.value] = LoadBytes(at + c.value * 64);
        });
        Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
          Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
            const Int8Weights& of = weights[i.value];
            const uint8_t* quads = half.value == 0 ? of.hi : of.lo;
            sums[i.value][c.value] =
                DotWeights(sums[i.value][c.value],
                           quads + g * 16 + quad.value * 4, v[c.value]);
          });
        });
        at += layout.padded * 4;
      });
    }
  });
  Unroll<kQueries>([&](auto i) __attribute__((always_inline)) {
    Unroll<kVectors>([&](auto c) __attribute__((always_inline)) {
      float* to = out + i.value * layout.padded + column + c.value * 16;
      Store(to, Fma(ToFloat(sums[i.value][c.value]), Broadcast(now[i.value]),
                    Mul(Load(to), Broadcast(before[i.value]))));
    });
  });
}

}  // namespace
}  // namespace rbln
