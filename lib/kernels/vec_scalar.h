// Sixteen float lanes in portable C++: what the generic kernels are written
// against. Included once by scalar.cc; the other vec_*.h give the same names.
#pragma once

#include <stdint.h>
#include <string.h>

namespace rbln {
namespace {

typedef float V __attribute__((vector_size(64)));
typedef int32_t VInt __attribute__((vector_size(64)));

#define RBLN_INLINE static inline __attribute__((always_inline))
#define RBLN_INLINE_MEMBER inline __attribute__((always_inline))

RBLN_INLINE V Zero() { return V{}; }
RBLN_INLINE V Broadcast(float x) { return V{} + x; }
RBLN_INLINE V Load(const float* p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
RBLN_INLINE void Store(float* p, V v) { memcpy(p, &v, sizeof v); }
// Past the caches, where that can be, to aligned memory: what is not read soon
// then costs no reading of what it replaces. Others see it after EndStoresPast.
RBLN_INLINE void StorePast(float* p, V v) { Store(p, v); }
RBLN_INLINE void EndStoresPast() {}
RBLN_INLINE V Add(V a, V b) { return a + b; }
RBLN_INLINE V Sub(V a, V b) { return a - b; }
RBLN_INLINE V Mul(V a, V b) { return a * b; }
RBLN_INLINE V Div(V a, V b) { return a / b; }
RBLN_INLINE V Max(V a, V b) { return a > b ? a : b; }
RBLN_INLINE V Min(V a, V b) { return a < b ? a : b; }
// a * b + c
RBLN_INLINE V Fma(V a, V b, V c) { return a * b + c; }

RBLN_INLINE V Round(V x) {
  // Adding and taking away 1.5 * 2^23 rounds to nearest even, |x| < 2^22.
  const V magic = Broadcast(12582912.0f);
  return (x + magic) - magic;
}
// 2^n for whole n in [-126, 127], and 0 for -127.
RBLN_INLINE V PowerOfTwo(V n) {
  VInt bits = (__builtin_convertvector(n, VInt) + 127) << 23;
  V v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
// x - n, from 0 to 1, and p * 2^n, where x is at most 0 and may be minus
// infinity. Both take the same n: the whole number at or below x, or one less
// where x is whole. From -126 down n may be -127, whose power is 0.
constexpr float kLowestExponent = -126.5f;
RBLN_INLINE V Fraction(V x) {
  const V c = Max(x, Broadcast(kLowestExponent));
  return c - Round(c - 0.5f);
}
RBLN_INLINE V TimesPowerOfTwo(V p, V x) {
  return p * PowerOfTwo(Round(Max(x, Broadcast(kLowestExponent)) - 0.5f));
}
// a where x < bound, else b, lane by lane.
RBLN_INLINE V SelectLess(V x, V bound, V a, V b) { return x < bound ? a : b; }

// Lane i where begin <= i < end from v, else from fill.
RBLN_INLINE V KeepLanes(V v, int begin, int end, V fill) {
  const VInt lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return (lane >= begin) & (lane < end) ? v : fill;
}

RBLN_INLINE V LoadBf16(const uint16_t* p) {
  V v;
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = static_cast<uint32_t>(p[i]) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    v[i] = x;
  }
  return v;
}
RBLN_INLINE uint16_t ToBf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40);  // keep it a NaN
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
RBLN_INLINE void StoreBf16(uint16_t* p, V v) {
  for (int i = 0; i < 16; ++i) p[i] = ToBf16(v[i]);
}

// ((0+8)+(4+12)) and so on: the tree that the wider sets take.
RBLN_INLINE float Sum(V v) {
  float a[8], b[4];
  for (int i = 0; i < 8; ++i) a[i] = v[i] + v[i + 8];
  for (int i = 0; i < 4; ++i) b[i] = a[i] + a[i + 4];
  return (b[0] + b[2]) + (b[1] + b[3]);
}
RBLN_INLINE float Largest(V v) {
  float m = v[0];
  for (int i = 1; i < 16; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// The largest lane of each of four, in the first four lanes.
RBLN_INLINE V LargestOfFour(const V* v) {
  float lanes[16] = {};
  for (int i = 0; i < 4; ++i) lanes[i] = Largest(v[i]);
  return Load(lanes);
}

// Sixteen columns of one input pair of a BFloat16 panel, and the pair of one
// row that goes with them.
struct Bf16Pair {
  V first, second;
};
RBLN_INLINE Bf16Pair LoadPanelPair(const uint16_t* p) {
  Bf16Pair pair;
  for (int i = 0; i < 16; ++i) {
    uint32_t bits[2] = {static_cast<uint32_t>(p[2 * i]) << 16,
                        static_cast<uint32_t>(p[2 * i + 1]) << 16};
    float x[2];
    memcpy(x, bits, sizeof x);
    pair.first[i] = x[0];
    pair.second[i] = x[1];
  }
  return pair;
}
RBLN_INLINE Bf16Pair BroadcastPair(const uint16_t* p) {
  uint32_t bits[2] = {static_cast<uint32_t>(p[0]) << 16,
                      static_cast<uint32_t>(p[1]) << 16};
  float x[2];
  memcpy(x, bits, sizeof x);
  return {Broadcast(x[0]), Broadcast(x[1])};
}
RBLN_INLINE V DotPair(Bf16Pair x, Bf16Pair w, V acc) {
  return Fma(x.second, w.second, Fma(x.first, w.first, acc));
}
RBLN_INLINE void Prefetch(const void*) {}
RBLN_INLINE void PrefetchToStore(const void*) {}

// Sixteen 32-bit sums, and 64 unsigned bytes: four inputs of sixteen columns.
typedef VInt Sums;
struct Bytes {
  uint8_t at[64];
};
RBLN_INLINE Sums BroadcastInt(int32_t x) { return VInt{} + x; }
RBLN_INLINE Sums Times128(Sums v) { return v * 128; }
RBLN_INLINE V ToFloat(Sums v) { return __builtin_convertvector(v, V); }
RBLN_INLINE Bytes LoadBytes(const uint8_t* p) {
  Bytes b;
  memcpy(b.at, p, sizeof b.at);
  return b;
}
// The low or high halves of the bytes, as DotInt4 wants them.
RBLN_INLINE Bytes LowHalves(Bytes b) {
  for (uint8_t& x : b.at) x = static_cast<uint8_t>(x << 4);
  return b;
}
RBLN_INLINE Bytes HighHalves(Bytes b) {
  for (uint8_t& x : b.at) x &= 0xf0;
  return b;
}
// Whole sums of a group: Start, then Dot for four inputs at a time, then for
// Int4 End. `offset` is the row's, and part of the result: for Int8
//   offset + sum over the inputs of byte * x
// and for Int4 sixteen times the halves in place of the bytes.
RBLN_INLINE Sums StartInt8(int32_t offset) { return BroadcastInt(offset); }
RBLN_INLINE Sums DotInt8(Sums sums, const Bytes& w, const int8_t* x) {
  for (int i = 0; i < 16; ++i) {
    sums[i] += w.at[4 * i] * x[0] + w.at[4 * i + 1] * x[1] +
               w.at[4 * i + 2] * x[2] + w.at[4 * i + 3] * x[3];
  }
  return sums;
}
RBLN_INLINE Sums DotInt8InPlace(Sums sums, const Bytes& w, const int8_t* x) {
  return DotInt8(sums, w, x);
}
// sums + sum over four of w * v, w at most 127 and v signed.
RBLN_INLINE Sums DotWeights(Sums sums, const uint8_t* w, const Bytes& v) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) {
      sums[i] += w[j] * static_cast<int8_t>(v.at[4 * i + j]);
    }
  }
  return sums;
}
// Rounds v, from 0 to 127 * 129, and parts it: v = hi * 128 + lo.
RBLN_INLINE void StoreWeights(uint8_t* hi, uint8_t* lo, const V (&v)[4]) {
  for (int g = 0; g < 4; ++g) {
    const VInt whole = __builtin_convertvector(Round(v[g]), VInt);
    for (int i = 0; i < 16; ++i) {
      hi[g * 16 + i] = static_cast<uint8_t>(whole[i] >> 7);
      lo[g * 16 + i] = static_cast<uint8_t>(whole[i] & 127);
    }
  }
}
RBLN_INLINE Sums StartInt4(int32_t offset) { return BroadcastInt(offset); }
RBLN_INLINE Sums DotInt4(Sums sums, const Bytes& w, const int8_t* x) {
  return DotInt8(sums, w, x);
}
RBLN_INLINE Sums EndInt4(Sums sums, int32_t) { return sums; }
RBLN_INLINE V LoadHalf(const uint16_t* p) {
  V v;
  for (int i = 0; i < 16; ++i) {
    const uint32_t sign = static_cast<uint32_t>(p[i] & 0x8000) << 16;
    const uint32_t rest = p[i] & 0x7fff;
    // The exponent's bias is made up for by a product, which also brings
    // subnormal numbers right; scales are finite.
    uint32_t bits = rest << 13;
    float x;
    memcpy(&x, &bits, sizeof x);
    x *= 0x1p112f;
    memcpy(&bits, &x, sizeof bits);
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    v[i] = x;
  }
  return v;
}
// Rounded to nearest even, as float16.
RBLN_INLINE void StoreHalf(uint16_t* p, V v) {
  for (int i = 0; i < 16; ++i) {
    const float x = v[i];
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffffu;
    uint32_t half;
    if (bits >= 0x47800000u) {  // 2^16 and beyond
      half = bits > 0x7f800000u ? 0x7e00 : 0x7c00;
    } else if (bits < 0x38800000u) {  // below 2^-14: subnormal
      // Adding 0.5 leaves the value as multiples of 2^-24 in the low bits.
      float y;
      memcpy(&y, &bits, sizeof y);
      y += 0.5f;
      memcpy(&half, &y, sizeof half);
      half -= 0x3f000000u;
    } else {
      half = (bits - 0x38000000u + 0xfff + (bits >> 13 & 1)) >> 13;
    }
    p[i] = static_cast<uint16_t>(sign | half);
  }
}
RBLN_INLINE V LoadInt8(const int8_t* p) {
  V v;
  for (int i = 0; i < 16; ++i) v[i] = p[i];
  return v;
}
RBLN_INLINE V Absolute(V v) { return v < 0.0f ? -v : v; }
// Whole numbers from -127 to 127.
RBLN_INLINE void StoreInt8(int8_t* p, V v) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(v[i]);
}

// Registers for the sums of a tile: floats, and whole sums of groups, and the
// independent chains that keep the multipliers busy. Rows of a tile at most.
constexpr int kFloatRegisters = 8;
constexpr int kGroupRegisters = 4;
constexpr int kProbeChains = 4;
constexpr int kMaxTileRows = 4;

}  // namespace
}  // namespace rbln
