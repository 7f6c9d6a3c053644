// What the kernels share: unrolling, e^x, storing columns.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/table.h"

namespace rbln {
namespace {

// Calls f with Index<0> .. Index<N - 1>: indices that are constants before
// registers are allotted, so that arrays of accumulators stay in registers
// (GCC 12 spills them where a loop is unrolled late).
template <int I>
struct Index {
  static constexpr int value = I;
};
template <int I, int N, typename F>
RBLN_INLINE constexpr void UnrollFrom(F&& f) {
  if constexpr (I < N) {
    f(Index<I>{});
    UnrollFrom<I + 1, N>(f);
  }
}
template <int N, typename F>
RBLN_INLINE constexpr void Unroll(F&& f) {
  UnrollFrom<0, N>(f);
}

// What is asked for of memory before its time, evenly over the steps of what is
// computed meanwhile, so that the bus is never idle: up to four runs of lines.
// The machine's own prefetching follows each instruction that walks memory line
// by line, and runs ahead of it: so one instruction asks, in a loop. Unrolled,
// to several that leap lines, it gets three fifths of the bus from a Zen 5.
class Fetch {
 public:
  static constexpr int kMostRuns = 4;

  Fetch() = default;  // nothing
  // `runs` of `bytes`, whole lines; run i begins at `begin(i)`.
  template <typename Begin>
  RBLN_INLINE_MEMBER Fetch(int runs, uint64_t bytes, Begin&& begin)
      : lines_(static_cast<int>(bytes / 64)), runs_(runs) {
    for (int i = 0; i < runs; ++i) begin_[i] = begin(i);
    run_ = -1;
    NextRun();
  }

  // Spreads it over so many calls of Step.
  RBLN_INLINE_MEMBER void Spread(int64_t steps) {
    if (runs_ == 0) return;
    const int64_t run_steps = steps < runs_ ? 1 : steps / runs_;
    each_ = static_cast<int>((lines_ + run_steps - 1) / run_steps);
  }
  RBLN_INLINE_MEMBER void Step() {
    const int lines = each_ < left_ ? each_ : left_;
#pragma GCC unroll 1
    for (int line = 0; line < lines; ++line) {
      Prefetch(at_);
      at_ += 64;
      asm volatile("");  // stays a loop
    }
    left_ -= lines;
    if (left_ == 0) NextRun();
  }
  // All at once, and Step when there are several calls: these share the one
  // instruction.
  RBLN_INLINE_MEMBER void All() {
    Spread(runs_);
    for (int i = 0; i < runs_; ++i) StepApart();
  }
  RBLN_INLINE_MEMBER void SharedStep() {
    if (each_ > 0) StepApart();
  }

 private:
  __attribute__((noinline)) void StepApart() { Step(); }
  RBLN_INLINE_MEMBER void NextRun() {
    if (++run_ < runs_) {
      at_ = begin_[run_];
      left_ = lines_;
    } else {
      each_ = 0;
      left_ = 1;  // of nothing
    }
  }

  const std::byte* begin_[kMostRuns] = {};
  const std::byte* at_ = nullptr;  // in the run that is being asked for
  int lines_ = 0;                  // of a run
  int runs_ = 0;
  int run_ = 0;
  int left_ = 1;  // lines of the run
  int each_ = 0;  // lines a step
};

constexpr float kLog2E = 1.44269504088896341f;

// The polynomial whose coefficients these are, the highest power's first.
template <int N>
RBLN_INLINE V Polynomial(V x, const float (&coefficients)[N]) {
  V p = Broadcast(coefficients[0]);
  UnrollFrom<1, N>([&](auto i) __attribute__((always_inline)) {
    p = Fma(p, x, Broadcast(coefficients[i.value]));
  });
  return p;
}
// e^x to about one unit in the last place; 0 below -87. The polynomial is that
// of Cephes (Moshier, netlib.org/cephes: expf).
RBLN_INLINE V Exp(V x) {
  const V lowest = Broadcast(-87.0f);
  const V clamped = Min(Max(x, lowest), Broadcast(88.0f));
  const V n = Round(Mul(clamped, Broadcast(kLog2E)));
  // ln 2 in two parts, the first with few bits so that n times it is exact.
  V r = Fma(n, Broadcast(-0.693359375f), clamped);
  r = Fma(n, Broadcast(2.12194440e-4f), r);
  constexpr float kBeyondLinear[] = {1.9875691500e-4f, 1.3981999507e-3f,
                                     8.3334519073e-3f, 4.1665795894e-2f,
                                     1.6666665459e-1f, 5.0000001201e-1f};
  const V p =
      Add(Fma(Mul(r, r), Polynomial(r, kBeyondLinear), r), Broadcast(1.0f));
  return SelectLess(x, lowest, Zero(), Mul(p, PowerOfTwo(n)));
}
// 2^x for x <= 0, minus infinity too, to about two units in the last place;
// what is less than 2^-126 may become 0. The polynomial, of those that are 1 at
// 0, has the least relative error between 0 and 1: 8.2e-8.
RBLN_INLINE V Exp2Down(V x) {
  constexpr float kAll[] = {1.867130123e-3f, 9.017030176e-3f, 5.579991325e-2f,
                            2.401644501e-1f, 6.931513118e-1f, 1.0f};
  return TimesPowerOfTwo(Polynomial(Fraction(x), kAll), x);
}
// The largest lane of each, in as many lanes.
template <int kCount>
RBLN_INLINE V LargestOf(const V (&v)[kCount]) {
  if constexpr (kCount == 4) {
    return LargestOfFour(v);
  } else {
    float lanes[16] = {};
    for (int i = 0; i < kCount; ++i) lanes[i] = Largest(v[i]);
    return Load(lanes);
  }
}

// x * sigmoid(x)
RBLN_INLINE V Silu(V x) {
  const V one = Broadcast(1.0f);
  return Div(x, Add(one, Exp(Sub(Zero(), x))));
}

// Stores columns [column, column + 16) of a row.
RBLN_INLINE void StoreColumns(std::byte* row, int64_t column, Format format,
                              V v) {
  if (format == kFormatFloat32) {
    Store(reinterpret_cast<float*>(row) + column, v);
  } else {
    StoreBf16(reinterpret_cast<uint16_t*>(row) + column, v);
  }
}

}  // namespace
}  // namespace rbln
