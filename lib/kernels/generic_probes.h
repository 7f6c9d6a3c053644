// What this machine can do at most with an instruction set: read memory,
// multiply and add. For holding the kernels against.
#pragma once

#include "kernels/generic_math.h"

namespace rbln {
namespace {

// Reads all of `bytes`, a multiple of 4 KiB, in four streams.
float ReadProbe(const std::byte* data, uint64_t bytes) {
  constexpr int kStreams = 4;
  constexpr uint64_t kAhead = 4096;
  const uint64_t part = bytes / kStreams;
  V largest[kStreams];
  Unroll<kStreams>([&](auto s) __attribute__((always_inline)) {
    largest[s.value] = Zero();
  });
  for (uint64_t at = 0; at < part; at += 64) {
    Unroll<kStreams>([&](auto s) __attribute__((always_inline)) {
      const std::byte* p = data + s.value * part + at;
      Prefetch(p + kAhead);
      largest[s.value] =
          Max(largest[s.value], Load(reinterpret_cast<const float*>(p)));
    });
  }
  return Largest(Max(Max(largest[0], largest[1]), Max(largest[2], largest[3])));
}

// Multiply-adds of registers, `rounds` times; returns the operations done, two
// for each. The instructions are those that the kernel of such weights uses.
int64_t PeakProbe(Format format, int64_t rounds) {
  constexpr int kChains = kProbeChains;
  float sink = 0;
  int64_t each = 0;
  if (format == kFormatInt8 || format == kFormatInt4) {
    uint8_t w[64];
    int8_t x[4] = {1, 2, 3, 4};
    for (int i = 0; i < 64; ++i) w[i] = static_cast<uint8_t>(i & 15);
    const Bytes bytes = LoadBytes(w);
    Sums sums[kChains];
    Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      sums[i.value] = BroadcastInt(i.value);
    });
    for (int64_t round = 0; round < rounds; ++round) {
      Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
        sums[i.value] = DotInt8(sums[i.value], bytes, x);
      });
    }
    Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      sink += Sum(ToFloat(sums[i.value]));
    });
    each = 64 * 2;
  } else if (format == kFormatBFloat16) {
    uint16_t w[32];
    for (int i = 0; i < 32; ++i) w[i] = ToBf16(1e-3f * static_cast<float>(i));
    const Bf16Pair pair = LoadPanelPair(w);
    V sums[kChains];
    Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      sums[i.value] = Zero();
    });
    for (int64_t round = 0; round < rounds; ++round) {
      Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
        sums[i.value] = DotPair(pair, pair, sums[i.value]);
      });
    }
    Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      sink += Sum(sums[i.value]);
    });
    each = 32 * 2;
  } else {
    const V factor = Broadcast(0.999f);
    V sums[kChains];
    Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      sums[i.value] = Broadcast(static_cast<float>(i.value));
    });
    for (int64_t round = 0; round < rounds; ++round) {
      Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
        sums[i.value] = Fma(sums[i.value], factor, factor);
      });
    }
    Unroll<kChains>([&](auto i) __attribute__((always_inline)) {
      sink += Sum(sums[i.value]);
    });
    each = 16 * 2;
  }
  asm volatile("" : : "m"(sink));
  return rounds * kChains * each;
}

}  // namespace
}  // namespace rbln
