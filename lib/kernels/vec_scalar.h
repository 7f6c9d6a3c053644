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

RBLN_INLINE V Zero() { return V{}; }
RBLN_INLINE V Broadcast(float x) { return V{} + x; }
RBLN_INLINE V Load(const float* p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
RBLN_INLINE void Store(float* p, V v) { memcpy(p, &v, sizeof v); }
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
// 2^n for whole n in [-126, 127].
RBLN_INLINE V PowerOfTwo(V n) {
  VInt bits = (__builtin_convertvector(n, VInt) + 127) << 23;
  V v;
  memcpy(&v, &bits, sizeof v);
  return v;
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

constexpr int kRegisterTileRows = 4;
constexpr int kWideTileRows = 4;

}  // namespace
}  // namespace rbln
