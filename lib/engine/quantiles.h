// Quantiles of a stream of durations in constant memory.
#pragma once

#include <array>
#include <cstdint>

namespace rbln {

// Counts durations in buckets that are 2% wide, from a microsecond to a day.
class Quantiles {
 public:
  void Add(double seconds);
  void Add(const Quantiles& other);
  // The duration below which a share `q` of them lies, within 2%; 0 where
  // there are none.
  double Get(double q) const;
  int64_t count() const { return count_; }

 private:
  std::array<int64_t, 1300> buckets_ = {};
  int64_t count_ = 0;
};

}  // namespace rbln
