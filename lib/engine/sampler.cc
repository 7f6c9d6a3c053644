#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace rbln {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;

// Largest value; -inf where there is none. A NaN never wins. GCC does not make
// vector instructions of such a loop by itself: it has to be told.
float Max(std::span<const float> values) {
  typedef float Vector __attribute__((vector_size(16)));
  std::array<Vector, 4> best;
  best.fill(Vector{} + kMinusInfinity);
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    std::array<Vector, best.size()> next;
    static_assert(sizeof(next) == kLanes * sizeof(float));
    std::memcpy(&next, &values[i], sizeof(next));
    for (size_t j = 0; j < best.size(); ++j) {
      best[j] = next[j] > best[j] ? next[j] : best[j];
    }
  }
  for (const Vector& other : best) best[0] = other > best[0] ? other : best[0];
  const auto lanes = std::bit_cast<std::array<float, 4>>(best[0]);
  float result = kMinusInfinity;
  for (const float lane : lanes) result = lane > result ? lane : result;
  for (; i < values.size(); ++i) {
    result = values[i] > result ? values[i] : result;
  }
  return result;
}

TokenId ArgMax(std::span<const float> values) {
  // Only the first piece that has the largest value is searched for its place.
  constexpr size_t kPiece = 256;
  float max = kMinusInfinity;
  size_t begin = 0;
  for (size_t at = 0; at < values.size(); at += kPiece) {
    const float largest =
        Max(values.subspan(at, std::min(kPiece, values.size() - at)));
    if (largest > max) {
      max = largest;
      begin = at;
    }
  }
  const auto at = std::find(values.begin() + begin, values.end(), max);
  return at == values.end() ? 0 : static_cast<TokenId>(at - values.begin());
}

// e^x for x <= 0, within 2 units in the last place; 0 below -87. A function of
// our own, since the library's differs from one version to the next.
inline float ExpNegative(float x) {
  const float clamped = x > -87.0f ? x : -87.0f;
  // x = n ln 2 + r with |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds.
  constexpr float kRound = 12582912.0f;
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t exponent =
      (std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound)) << 23;
  const float result =
      std::bit_cast<float>(std::bit_cast<int32_t>(p) + exponent);
  return x > -87.0f ? result : 0.0f;
}

// weights[i] = e^(logits[i] - max); returns their sum.
double ExpAndSum(std::span<const float> logits, float max,
                 std::span<float> weights) {
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = ExpNegative(logits[i] - max);
  }
  std::array<double, kLanes> lanes = {};
  size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += weights[i + lane];
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < weights.size(); ++i) sum += weights[i];
  return sum;
}

}  // namespace

PhiloxBlock Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t c[4] = {static_cast<uint32_t>(counter_low),
                   static_cast<uint32_t>(counter_low >> 32),
                   static_cast<uint32_t>(counter_high),
                   static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k[2] = {static_cast<uint32_t>(key),
                   static_cast<uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
        static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

double RandomUniform(uint64_t seed, uint32_t sequence, uint32_t position) {
  const PhiloxBlock block =
      Philox(seed, (uint64_t{sequence} << 32) | position, 0);
  const uint64_t bits = (uint64_t{block.words[0]} << 32 | block.words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

PositionLogprobs Logprobs(std::span<const float> logits, TokenId chosen,
                          int count) {
  std::vector<float> weights(logits.size());
  const float max = Max(logits);
  const double log_sum = std::log(ExpAndSum(logits, max, weights)) + max;
  const auto entry = [&](TokenId id, int rank) {
    return TokenLogprob{id, static_cast<float>(logits[id] - log_sum), rank};
  };

  PositionLogprobs result;
  const auto greater =
      std::count_if(logits.begin(), logits.end(),
                    [&](float value) { return value > logits[chosen]; });
  result.chosen = entry(chosen, 1 + static_cast<int>(greater));

  const size_t wanted =
      count < 0 ? logits.size() : std::min<size_t>(count, logits.size());
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(
      ids.begin(), ids.begin() + wanted, ids.end(), [&](TokenId a, TokenId b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
      });
  for (size_t i = 0; i < wanted; ++i) {
    const bool tie = i > 0 && logits[ids[i]] == logits[ids[i - 1]];
    result.top.push_back(
        entry(ids[i], tie ? result.top[i - 1].rank : static_cast<int>(i) + 1));
  }
  return result;
}

Sampler::Sampler(int vocab_size)
    : logits_(vocab_size),
      weights_(vocab_size),
      counts_(vocab_size),
      seen_(vocab_size) {}

TokenId Sampler::Sample(std::span<const float> logits,
                        const SamplingState& state) {
  const std::span<const float> processed = Process(logits, state);
  if (state.allowed != nullptr && Max(processed) == kMinusInfinity) {
    return kNoToken;
  }
  return state.params->greedy() ? ArgMax(processed) : Draw(processed, state);
}

std::span<const float> Sampler::Process(std::span<const float> logits,
                                        const SamplingState& state) {
  const SamplingParams& params = *state.params;
  const bool penalties = params.presence_penalty != 0.0 ||
                         params.frequency_penalty != 0.0 ||
                         params.repetition_penalty != 1.0;
  const bool too_short =
      static_cast<int>(state.output.size()) < params.min_tokens;
  if (!penalties && !too_short && params.logit_bias.empty() &&
      state.bad_words.empty() && state.allowed == nullptr) {
    return logits;
  }
  std::copy(logits.begin(), logits.end(), logits_.begin());
  for (const std::vector<TokenId>& word : state.bad_words) {
    const size_t before = word.size() - 1;
    if (before <= state.output.size() &&
        std::equal(word.begin(), word.end() - 1, state.output.end() - before)) {
      logits_[word.back()] = kMinusInfinity;
    }
  }
  if (too_short) {
    for (const TokenId id : state.stop_ids) logits_[id] = kMinusInfinity;
  }
  for (const auto& [id, bias] : params.logit_bias) logits_[id] += bias;
  if (penalties) ApplyPenalties(state);
  if (state.allowed != nullptr) ApplyGuide(logits, state);
  return logits_;
}

void Sampler::ApplyGuide(std::span<const float> logits,
                         const SamplingState& state) {
  // A token that ends the text counts as that only, whatever its bytes are.
  end_logits_.clear();
  for (const TokenId id : state.end_ids) end_logits_.push_back(logits_[id]);
  for (size_t begin = 0; begin < logits_.size(); begin += 64) {
    const size_t end = std::min(begin + 64, logits_.size());
    const uint64_t word = (*state.allowed)[begin / 64];
    if (word == ~uint64_t{0}) continue;
    for (size_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1) == 0) logits_[i] = kMinusInfinity;
    }
  }
  for (const TokenId id : state.end_ids) logits_[id] = kMinusInfinity;
  if (!state.may_end) return;
  for (size_t i = 0; i < state.end_ids.size(); ++i) {
    logits_[state.end_ids[i]] = end_logits_[i];
  }
  if (Max(logits_) != kMinusInfinity) return;
  for (const TokenId id : state.end_ids) logits_[id] = logits[id];
}

void Sampler::ApplyPenalties(const SamplingState& state) {
  const SamplingParams& params = *state.params;
  for (const TokenId id : state.output) ++counts_[id];
  const auto apply = [&](TokenId id) {
    if (seen_[id]) return;
    seen_[id] = 1;
    float& logit = logits_[id];
    const float repetition = static_cast<float>(params.repetition_penalty);
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (counts_[id] > 0) {
      logit -= static_cast<float>(params.frequency_penalty) * counts_[id];
      logit -= static_cast<float>(params.presence_penalty);
    }
  };
  for (const TokenId id : state.prompt) apply(id);
  for (const TokenId id : state.output) apply(id);
  for (const TokenId id : state.prompt) seen_[id] = 0;
  for (const TokenId id : state.output) seen_[id] = counts_[id] = 0;
}

TokenId Sampler::Draw(std::span<const float> logits,
                      const SamplingState& state) {
  const SamplingParams& params = *state.params;
  const float temperature = static_cast<float>(params.temperature);
  if (temperature != 1.0f) {
    for (size_t i = 0; i < logits.size(); ++i) {
      logits_[i] = logits[i] / temperature;
    }
    logits = logits_;
  }
  const float max = Max(logits);
  // Nothing to choose from: every token is forbidden.
  if (max == kMinusInfinity) return 0;
  double total = ExpAndSum(logits, max, weights_);

  const auto keep_from = [&](float threshold) {
    total = 0;
    for (float& weight : weights_) {
      if (weight < threshold) weight = 0;
      total += weight;
    }
  };
  // The most likely token has weight 1: weights are already relative to it.
  if (params.min_p > 0.0) keep_from(static_cast<float>(params.min_p));
  if (params.top_k > 0 && params.top_k < static_cast<int>(weights_.size())) {
    selection_ = weights_;
    const auto kth = selection_.begin() + (params.top_k - 1);
    std::nth_element(selection_.begin(), kth, selection_.end(),
                     std::greater<float>());
    // Those that tie with the last one are kept too, as vLLM does.
    keep_from(*kth);
  }
  if (params.top_p < 1.0) total = KeepTopP(params.top_p, total);

  const double target =
      total * RandomUniform(state.seed, state.sequence,
                            static_cast<uint32_t>(state.output.size()));
  double sum = 0;
  TokenId last = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    last = static_cast<TokenId>(i);
    sum += weights_[i];
    if (sum > target) break;
  }
  return last;
}

double Sampler::KeepTopP(double top_p, double total) {
  // Weights lie in [0, 1], and positive floats are ordered as their bits: so
  // the leading bits sort them into buckets, and only the one bucket in which
  // the sum passes its goal needs an order inside.
  constexpr int kShift = 19;
  constexpr int kBuckets = (0x3f800000 >> kShift) + 1;
  const auto bucket = [](float weight) {
    return std::bit_cast<uint32_t>(weight) >> kShift;
  };
  std::array<double, kBuckets> sums = {};
  for (const float weight : weights_) sums[bucket(weight)] += weight;

  const double goal = top_p * total;
  double kept = 0;
  int edge = kBuckets - 1;
  while (edge > 0 && kept + sums[edge] < goal) kept += sums[edge--];

  candidates_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0 && static_cast<int>(bucket(weights_[i])) == edge) {
      candidates_.push_back(static_cast<int>(i));
    }
  }
  std::sort(candidates_.begin(), candidates_.end(), [&](int a, int b) {
    return weights_[a] != weights_[b] ? weights_[a] > weights_[b] : a < b;
  });
  size_t taken = 0;
  while (taken < candidates_.size() && (kept < goal || taken == 0)) {
    kept += weights_[candidates_[taken++]];
  }
  for (; taken < candidates_.size(); ++taken) {
    weights_[candidates_[taken]] = 0;
  }
  kept = 0;
  for (float& weight : weights_) {
    if (static_cast<int>(bucket(weight)) < edge) weight = 0;
    kept += weight;
  }
  return kept;
}

}  // namespace rbln
