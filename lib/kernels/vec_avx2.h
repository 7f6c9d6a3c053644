// Sixteen float lanes as two AVX2 registers, with AVX-VNNI where the file is
// compiled for it: the same bits, faster. See vec_scalar.h for what each
// function means.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace rbln {
namespace {

#define RBLN_INLINE static inline __attribute__((always_inline))
#define RBLN_INLINE_MEMBER inline __attribute__((always_inline))

struct V {
  __m256 lo, hi;
};

RBLN_INLINE V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
RBLN_INLINE V Broadcast(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
RBLN_INLINE V Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
RBLN_INLINE void Store(float* p, V v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
RBLN_INLINE void StorePast(float* p, V v) {
  _mm256_stream_ps(p, v.lo);
  _mm256_stream_ps(p + 8, v.hi);
}
RBLN_INLINE void EndStoresPast() { _mm_sfence(); }
RBLN_INLINE V Add(V a, V b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
RBLN_INLINE V Sub(V a, V b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
RBLN_INLINE V Mul(V a, V b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
RBLN_INLINE V Div(V a, V b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
RBLN_INLINE V Max(V a, V b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
RBLN_INLINE V Min(V a, V b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
RBLN_INLINE V Fma(V a, V b, V c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
RBLN_INLINE V Round(V x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.lo, kNearest), _mm256_round_ps(x.hi, kNearest)};
}
RBLN_INLINE V PowerOfTwo(V n) {
  const __m256i bias = _mm256_set1_epi32(127);
  const auto half = [bias](__m256 h) __attribute__((always_inline)) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(h), bias), 23));
  };
  return {half(n.lo), half(n.hi)};
}
constexpr float kLowestExponent = -126.5f;  // as in vec_scalar.h
RBLN_INLINE V Fraction(V x) {
  const V c = Max(x, Broadcast(kLowestExponent));
  return Sub(c, {_mm256_floor_ps(c.lo), _mm256_floor_ps(c.hi)});
}
RBLN_INLINE V TimesPowerOfTwo(V p, V x) {
  const V c = Max(x, Broadcast(kLowestExponent));
  return Mul(p, PowerOfTwo({_mm256_floor_ps(c.lo), _mm256_floor_ps(c.hi)}));
}
RBLN_INLINE V SelectLess(V x, V bound, V a, V b) {
  return {
      _mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, bound.lo, _CMP_LT_OQ)),
      _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, bound.hi, _CMP_LT_OQ))};
}
RBLN_INLINE V KeepLanes(V v, int begin, int end, V fill) {
  const __m256i first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i from = _mm256_set1_epi32(begin - 1);
  const __m256i to = _mm256_set1_epi32(end);
  const auto half = [&](__m256 h, __m256 f, int offset)
      __attribute__((always_inline)) {
    const __m256i lane = _mm256_add_epi32(first, _mm256_set1_epi32(offset));
    const __m256i keep = _mm256_and_si256(_mm256_cmpgt_epi32(lane, from),
                                          _mm256_cmpgt_epi32(to, lane));
    return _mm256_blendv_ps(f, h, _mm256_castsi256_ps(keep));
  };
  return {half(v.lo, fill.lo, 0), half(v.hi, fill.hi, 8)};
}

RBLN_INLINE __m256 Bf16ToFloat(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
RBLN_INLINE V LoadBf16(const uint16_t* p) {
  return {
      Bf16ToFloat(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
      Bf16ToFloat(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
// Rounds to nearest even; a NaN stays one. The result is in the low halves.
RBLN_INLINE __m256i RoundToBf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))),
      16);
  const __m256i nan =
      _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  return _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(nan),
                       _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
RBLN_INLINE void StoreBf16(uint16_t* p, V v) {
  const __m256i packed =
      _mm256_packus_epi32(RoundToBf16(v.lo), RoundToBf16(v.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_permute4x64_epi64(packed, 0xd8));
}
RBLN_INLINE uint16_t ToBf16(float x) {
  return static_cast<uint16_t>(
      _mm256_cvtsi256_si32(RoundToBf16(_mm256_set1_ps(x))));
}

RBLN_INLINE float Sum(V v) {
  const __m256 a = _mm256_add_ps(v.lo, v.hi);
  const __m128 b =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
RBLN_INLINE float Largest(V v) {
  const __m256 a = _mm256_max_ps(v.lo, v.hi);
  const __m128 b =
      _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

RBLN_INLINE V LargestOfFour(const V* v) {
  float lanes[16] = {};
  for (int i = 0; i < 4; ++i) lanes[i] = Largest(v[i]);
  return Load(lanes);
}

struct Bf16Pair {
  V first, second;
};
RBLN_INLINE __m256 EvenBf16(__m256i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}
RBLN_INLINE __m256 OddBf16(__m256i x) {
  return _mm256_castsi256_ps(
      _mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
RBLN_INLINE Bf16Pair LoadPanelPair(const uint16_t* p) {
  const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i hi =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  return {{EvenBf16(lo), EvenBf16(hi)}, {OddBf16(lo), OddBf16(hi)}};
}
RBLN_INLINE Bf16Pair BroadcastPair(const uint16_t* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  const __m256i x = _mm256_set1_epi32(bits);
  return {{EvenBf16(x), EvenBf16(x)}, {OddBf16(x), OddBf16(x)}};
}
RBLN_INLINE V DotPair(Bf16Pair x, Bf16Pair w, V acc) {
  return Fma(x.second, w.second, Fma(x.first, w.first, acc));
}
RBLN_INLINE void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
// Every x86-64 processor takes the instruction, if only to do nothing.
RBLN_INLINE void PrefetchToStore(const void* p) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
}

struct Sums {
  __m256i lo, hi;
};
struct Bytes {
  __m256i lo, hi;
};
RBLN_INLINE Sums BroadcastInt(int32_t x) {
  const __m256i v = _mm256_set1_epi32(x);
  return {v, v};
}
RBLN_INLINE Sums Times128(Sums v) {
  return {_mm256_slli_epi32(v.lo, 7), _mm256_slli_epi32(v.hi, 7)};
}
RBLN_INLINE V ToFloat(Sums v) {
  return {_mm256_cvtepi32_ps(v.lo), _mm256_cvtepi32_ps(v.hi)};
}
RBLN_INLINE Bytes LoadBytes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
RBLN_INLINE __m256i BroadcastQuad(const void* x) {
  int32_t bits;
  __builtin_memcpy(&bits, x, sizeof bits);
  return _mm256_set1_epi32(bits);
}
#ifdef __AVXVNNI__
RBLN_INLINE Bytes HighHalves(Bytes b) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(0xf0));
  return {_mm256_and_si256(b.lo, mask), _mm256_and_si256(b.hi, mask)};
}
RBLN_INLINE Bytes LowHalves(Bytes b) {
  return HighHalves({_mm256_slli_epi16(b.lo, 4), _mm256_slli_epi16(b.hi, 4)});
}
RBLN_INLINE Sums StartInt8(int32_t offset) { return BroadcastInt(offset); }
RBLN_INLINE Sums DotInt8(Sums sums, const Bytes& w, const int8_t* x) {
  const __m256i quad = BroadcastQuad(x);
  return {_mm256_dpbusd_avx_epi32(sums.lo, w.lo, quad),
          _mm256_dpbusd_avx_epi32(sums.hi, w.hi, quad)};
}
RBLN_INLINE Sums DotWeights(Sums sums, const uint8_t* w, const Bytes& v) {
  const __m256i quad = BroadcastQuad(w);
  return {_mm256_dpbusd_avx_epi32(sums.lo, quad, v.lo),
          _mm256_dpbusd_avx_epi32(sums.hi, quad, v.hi)};
}
RBLN_INLINE Sums StartInt4(int32_t offset) { return BroadcastInt(offset); }
RBLN_INLINE Sums DotInt4(Sums sums, const Bytes& w, const int8_t* x) {
  return DotInt8(sums, w, x);
}
RBLN_INLINE Sums EndInt4(Sums sums, int32_t) { return sums; }
#else
// Products of bytes are added by twos in 16 bits, with saturation, so they must
// stay small: of Int8 the signed value, at most 127, with the input's sign
// moved to it; of Int4 the half as it is, at most 15, a whole group of which
// fits.
RBLN_INLINE Sums StartInt8(int32_t) { return BroadcastInt(0); }
RBLN_INLINE Sums DotInt8(Sums sums, const Bytes& w, const int8_t* x) {
  const __m256i quad = BroadcastQuad(x);
  const __m256i magnitude = _mm256_abs_epi8(quad);
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i ones = _mm256_set1_epi16(1);
  const auto half = [&](__m256i sum, __m256i bytes)
      __attribute__((always_inline)) {
    const __m256i value = _mm256_sign_epi8(_mm256_xor_si256(bytes, flip), quad);
    return _mm256_add_epi32(
        sum, _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, value), ones));
  };
  return {half(sums.lo, w.lo), half(sums.hi, w.hi)};
}
// Two products of at most 127 * 127 fit.
RBLN_INLINE Sums DotWeights(Sums sums, const uint8_t* w, const Bytes& v) {
  const __m256i quad = BroadcastQuad(w);
  const __m256i ones = _mm256_set1_epi16(1);
  return {
      _mm256_add_epi32(
          sums.lo, _mm256_madd_epi16(_mm256_maddubs_epi16(quad, v.lo), ones)),
      _mm256_add_epi32(
          sums.hi, _mm256_madd_epi16(_mm256_maddubs_epi16(quad, v.hi), ones))};
}
RBLN_INLINE Bytes LowHalves(Bytes b) {
  const __m256i mask = _mm256_set1_epi8(0x0f);
  return {_mm256_and_si256(b.lo, mask), _mm256_and_si256(b.hi, mask)};
}
RBLN_INLINE Bytes HighHalves(Bytes b) {
  return LowHalves({_mm256_srli_epi16(b.lo, 4), _mm256_srli_epi16(b.hi, 4)});
}
RBLN_INLINE Sums StartInt4(int32_t) { return BroadcastInt(0); }
RBLN_INLINE Sums DotInt4(Sums sums, const Bytes& w, const int8_t* x) {
  const __m256i quad = BroadcastQuad(x);
  return {_mm256_add_epi16(sums.lo, _mm256_maddubs_epi16(w.lo, quad)),
          _mm256_add_epi16(sums.hi, _mm256_maddubs_epi16(w.hi, quad))};
}
RBLN_INLINE Sums EndInt4(Sums sums, int32_t offset) {
  const __m256i sixteen = _mm256_set1_epi16(16);
  const __m256i start = _mm256_set1_epi32(offset);
  return {_mm256_add_epi32(start, _mm256_madd_epi16(sums.lo, sixteen)),
          _mm256_add_epi32(start, _mm256_madd_epi16(sums.hi, sixteen))};
}
#endif
RBLN_INLINE Sums DotInt8InPlace(Sums sums, const Bytes& w, const int8_t* x) {
  return DotInt8(sums, w, x);
}
RBLN_INLINE V LoadHalf(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(
              _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
RBLN_INLINE void StoreHalf(uint16_t* p, V v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}
RBLN_INLINE V LoadInt8(const int8_t* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
RBLN_INLINE V Absolute(V v) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, v.lo), _mm256_andnot_ps(sign, v.hi)};
}
RBLN_INLINE void StoreInt8(int8_t* p, V v) {
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi)),
      0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(words),
                                   _mm256_extracti128_si256(words, 1)));
}

RBLN_INLINE void StoreBytes(uint8_t* p, __m256i a, __m256i b) {
  const __m256i words =
      _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(words),
                                    _mm256_extracti128_si256(words, 1)));
}
RBLN_INLINE void StoreWeights(uint8_t* hi, uint8_t* lo, const V (&v)[4]) {
  const __m256i mask = _mm256_set1_epi32(127);
  for (int g = 0; g < 4; ++g) {
    const __m256i a = _mm256_cvtps_epi32(v[g].lo);
    const __m256i b = _mm256_cvtps_epi32(v[g].hi);
    StoreBytes(hi + g * 16, _mm256_srli_epi32(a, 7), _mm256_srli_epi32(b, 7));
    StoreBytes(lo + g * 16, _mm256_and_si256(a, mask),
               _mm256_and_si256(b, mask));
  }
}

// Registers for the sums of a tile: floats, and whole sums of groups, and the
// independent chains that keep the multipliers busy. Rows of a tile at most.
constexpr int kFloatRegisters = 6;
constexpr int kGroupRegisters = 4;
constexpr int kProbeChains = 5;
constexpr int kMaxTileRows = 4;

}  // namespace
}  // namespace rbln
