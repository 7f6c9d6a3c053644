// Sixteen float lanes as one AVX-512 register. See vec_scalar.h for what each
// function means.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace rbln {
namespace {

#define RBLN_INLINE static inline __attribute__((always_inline))
#define RBLN_INLINE_MEMBER inline __attribute__((always_inline))

using V = __m512;

RBLN_INLINE V Zero() { return _mm512_setzero_ps(); }
RBLN_INLINE V Broadcast(float x) { return _mm512_set1_ps(x); }
RBLN_INLINE V Load(const float* p) { return _mm512_loadu_ps(p); }
RBLN_INLINE void Store(float* p, V v) { _mm512_storeu_ps(p, v); }
RBLN_INLINE void StorePast(float* p, V v) { _mm512_stream_ps(p, v); }
RBLN_INLINE void EndStoresPast() { _mm_sfence(); }
RBLN_INLINE V Add(V a, V b) { return _mm512_add_ps(a, b); }
RBLN_INLINE V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
RBLN_INLINE V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
RBLN_INLINE V Div(V a, V b) { return _mm512_div_ps(a, b); }
RBLN_INLINE V Max(V a, V b) { return _mm512_max_ps(a, b); }
RBLN_INLINE V Min(V a, V b) { return _mm512_min_ps(a, b); }
RBLN_INLINE V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
RBLN_INLINE V Round(V x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT);
}
RBLN_INLINE V PowerOfTwo(V n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
RBLN_INLINE V Fraction(V x) {
  return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
RBLN_INLINE V TimesPowerOfTwo(V p, V x) { return _mm512_scalef_ps(p, x); }
RBLN_INLINE V SelectLess(V x, V bound, V a, V b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, bound, _CMP_LT_OQ), b, a);
}
// The first n lanes, for any n.
RBLN_INLINE uint32_t FirstLanes(int n) {
  return n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1;
}
RBLN_INLINE V KeepLanes(V v, int begin, int end, V fill) {
  const uint32_t keep = FirstLanes(end) & ~FirstLanes(begin);
  return _mm512_mask_blend_ps(static_cast<__mmask16>(keep), fill, v);
}

RBLN_INLINE V LoadBf16(const uint16_t* p) {
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
RBLN_INLINE void StoreBf16(uint16_t* p, V v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      (__m256i)_mm512_cvtneps_pbh(v));
}
RBLN_INLINE uint16_t ToBf16(float x) {
  return static_cast<uint16_t>(
      _mm_cvtsi128_si32((__m128i)_mm_cvtneps_pbh(_mm_set_ss(x))));
}

RBLN_INLINE float Sum(V v) {
  const __m256 a =
      _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
RBLN_INLINE float Largest(V v) { return _mm512_reduce_max_ps(v); }
RBLN_INLINE V LargestOfFour(const V* v) {
  // Quarters of two vectors side by side, then of four, then lanes.
  const V a = _mm512_max_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44),
                            _mm512_shuffle_f32x4(v[0], v[1], 0xee));
  const V b = _mm512_max_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44),
                            _mm512_shuffle_f32x4(v[2], v[3], 0xee));
  V c = _mm512_max_ps(_mm512_shuffle_f32x4(a, b, 0x88),
                      _mm512_shuffle_f32x4(a, b, 0xdd));
  c = _mm512_max_ps(c, _mm512_permute_ps(c, 0x4e));
  c = _mm512_max_ps(c, _mm512_permute_ps(c, 0xb1));
  const __m512i firsts =
      _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_permutexvar_ps(firsts, c);
}

using Bf16Pair = __m512bh;
RBLN_INLINE Bf16Pair LoadPanelPair(const uint16_t* p) {
  return (__m512bh)_mm512_loadu_si512(p);
}
RBLN_INLINE Bf16Pair BroadcastPair(const uint16_t* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return (__m512bh)_mm512_set1_epi32(bits);
}
RBLN_INLINE V DotPair(Bf16Pair x, Bf16Pair w, V acc) {
  return _mm512_dpbf16_ps(acc, w, x);
}
RBLN_INLINE void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
// Every x86-64 processor takes the instruction, if only to do nothing.
RBLN_INLINE void PrefetchToStore(const void* p) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
}

using Sums = __m512i;
using Bytes = __m512i;
RBLN_INLINE Sums BroadcastInt(int32_t x) { return _mm512_set1_epi32(x); }
RBLN_INLINE Sums Times128(Sums v) { return _mm512_slli_epi32(v, 7); }
RBLN_INLINE V ToFloat(Sums v) { return _mm512_cvtepi32_ps(v); }
RBLN_INLINE Bytes LoadBytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
RBLN_INLINE Bytes HighHalves(Bytes b) {
  return _mm512_and_si512(b, _mm512_set1_epi8(static_cast<char>(0xf0)));
}
RBLN_INLINE Bytes LowHalves(Bytes b) {
  return HighHalves(_mm512_slli_epi16(b, 4));
}
RBLN_INLINE Sums StartInt8(int32_t offset) { return BroadcastInt(offset); }
RBLN_INLINE Sums DotInt8(Sums sums, const Bytes& w, const int8_t* x) {
  int32_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  return _mm512_dpbusd_epi32(sums, w, _mm512_set1_epi32(bits));
}
// The same, by hand: in loops over many sums GCC 12 copies each there and back
// around the intrinsic.
RBLN_INLINE Sums DotInt8InPlace(Sums sums, const Bytes& w, const int8_t* x) {
  int32_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  asm("vpdpbusd %2, %1, %0"
      : "+v"(sums)
      : "v"(w), "v"(_mm512_set1_epi32(bits)));
  return sums;
}
RBLN_INLINE Sums DotWeights(Sums sums, const uint8_t* w, const Bytes& v) {
  int32_t bits;
  __builtin_memcpy(&bits, w, sizeof bits);
  asm("vpdpbusd %2, %1, %0"
      : "+v"(sums)
      : "v"(_mm512_set1_epi32(bits)), "v"(v));
  return sums;
}
RBLN_INLINE void StoreWeights(uint8_t* hi, uint8_t* lo, const V (&v)[4]) {
  // Packing takes a quarter of each in turn.
  const __m512i in_order =
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const auto pack = [in_order](__m512i a, __m512i b)
      __attribute__((always_inline)) {
    return _mm512_permutexvar_epi32(in_order, _mm512_packus_epi16(a, b));
  };
  const __m512i a =
      _mm512_packus_epi32(_mm512_cvtps_epi32(v[0]), _mm512_cvtps_epi32(v[1]));
  const __m512i b =
      _mm512_packus_epi32(_mm512_cvtps_epi32(v[2]), _mm512_cvtps_epi32(v[3]));
  const __m512i mask = _mm512_set1_epi16(127);
  _mm512_storeu_si512(hi,
                      pack(_mm512_srli_epi16(a, 7), _mm512_srli_epi16(b, 7)));
  _mm512_storeu_si512(
      lo, pack(_mm512_and_si512(a, mask), _mm512_and_si512(b, mask)));
}
RBLN_INLINE Sums StartInt4(int32_t offset) { return BroadcastInt(offset); }
RBLN_INLINE Sums DotInt4(Sums sums, const Bytes& w, const int8_t* x) {
  return DotInt8(sums, w, x);
}
RBLN_INLINE Sums EndInt4(Sums sums, int32_t) { return sums; }
RBLN_INLINE V LoadHalf(const uint16_t* p) {
  return _mm512_cvtph_ps(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
RBLN_INLINE void StoreHalf(uint16_t* p, V v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
RBLN_INLINE V LoadInt8(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
RBLN_INLINE V Absolute(V v) { return _mm512_abs_ps(v); }
RBLN_INLINE void StoreInt8(int8_t* p, V v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}

// Registers for the sums of a tile: floats, and whole sums of groups, and the
// independent chains that keep the multipliers busy. Rows of a tile at most.
constexpr int kFloatRegisters = 24;
constexpr int kGroupRegisters = 16;
constexpr int kProbeChains = 12;
constexpr int kMaxTileRows = 12;

}  // namespace
}  // namespace rbln
