// Norms and embedding: what works on one row.
#pragma once

#include "kernels/generic_math.h"
#include "kernels/generic_quantize.h"

namespace rbln {
namespace {

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
  if (out_format == kFormatInt8) {
    QuantizedGroup* pair = reinterpret_cast<QuantizedGroup*>(out);
    for (int column = 0; column < columns; column += kGroupPair) {
      V v[2 * kGroupVectors];
      for (int i = 0; i < 2 * kGroupVectors; ++i) {
        const int at = column + 16 * i;
        v[i] = Mul(Mul(LoadColumns(x, at, columns), scale),
                   LoadColumns(weight, at, columns));
      }
      QuantizePair(v, columns - column, pair);
      pair += 2;
    }
    return;
  }
  int i = 0;
  for (; i < columns; i += 16) {
    V v = Mul(Mul(Load(x + i), scale), Load(weight + i));
    if (columns - i < 16) v = KeepLanes(v, 0, columns - i, Zero());
    StoreColumns(out, i, out_format, v);
  }
  const uint64_t used =
      static_cast<uint64_t>(i) *
      (out_format == kFormatFloat32 ? sizeof(float) : sizeof(uint16_t));
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

// The scale of one token's group of a quantized panel.
RBLN_INLINE float GroupScale(const std::byte* pair, int group, int lane) {
  float scales[16];
  Store(scales, LoadHalf(reinterpret_cast<const uint16_t*>(pair) + group * 16));
  return scales[lane];
}

void EmbedInt8(const std::byte* weights, int inputs, int64_t token,
               float* out) {
  const int pairs = (inputs + kGroupPair - 1) / kGroupPair;
  const std::byte* pair = weights + token / 16 * pairs * kInt8PairBytes;
  const int lane = static_cast<int>(token % 16);
  for (int i = 0; i < inputs; ++i) {
    const int k = i % kGroupPair;
    const uint8_t* bytes =
        reinterpret_cast<const uint8_t*>(pair) + kPairScaleBytes;
    out[i] = GroupScale(pair, k / kGroup, lane) *
             static_cast<float>(bytes[(k / 4 * 16 + lane) * 4 + k % 4] - 128);
    if (k == kGroupPair - 1) pair += kInt8PairBytes;
  }
}

void EmbedInt4(const std::byte* weights, int inputs, int64_t token,
               float* out) {
  const int pairs = (inputs + kGroupPair - 1) / kGroupPair;
  const std::byte* pair = weights + token / 16 * pairs * kInt4PairBytes;
  const int lane = static_cast<int>(token % 16);
  for (int i = 0; i < inputs; ++i) {
    const int k = i % kGroupPair;
    const uint8_t* bytes =
        reinterpret_cast<const uint8_t*>(pair) + kPairScaleBytes;
    const int byte = bytes[(k / 8 * 16 + lane) * 4 + k % 4];
    out[i] = GroupScale(pair, k / kGroup, lane) *
             static_cast<float>((byte >> (k / 4 % 2 * 4) & 15) - 8);
    if (k == kGroupPair - 1) pair += kInt4PairBytes;
  }
}

}  // namespace
}  // namespace rbln
