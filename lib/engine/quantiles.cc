#include "engine/quantiles.h"

#include <algorithm>
#include <cmath>

namespace rbln {
namespace {

constexpr double kSmallest = 1e-6;
constexpr double kGrowth = 1.02;

}  // namespace

void Quantiles::Add(double seconds) {
  const double ratio = std::max(seconds, kSmallest) / kSmallest;
  const int bucket = static_cast<int>(std::log(ratio) / std::log(kGrowth));
  ++buckets_[std::min<size_t>(bucket, buckets_.size() - 1)];
  ++count_;
}

void Quantiles::Add(const Quantiles& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
}

double Quantiles::Get(double q) const {
  const auto wanted =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(q * count_)));
  int64_t sum = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    sum += buckets_[i];
    if (sum >= wanted) return kSmallest * std::pow(kGrowth, i + 0.5);
  }
  return 0;
}

}  // namespace rbln
