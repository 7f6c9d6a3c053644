#include "engine/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace rbln {
namespace {

std::vector<float> RandomLogits(int size, uint32_t seed, float scale = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// The probabilities that the definition gives, by sorting everything.
std::vector<double> Expected(std::vector<double> logits,
                             const SamplingParams& params) {
  const auto softmax = [](const std::vector<double>& values) {
    const double max = *std::max_element(values.begin(), values.end());
    std::vector<double> result;
    double sum = 0;
    for (const double value : values) sum += std::exp(value - max);
    for (const double value : values) {
      result.push_back(std::exp(value - max) / sum);
    }
    return result;
  };
  constexpr double kOut = -std::numeric_limits<double>::infinity();
  for (double& logit : logits) logit /= params.temperature;
  std::vector<double> p = softmax(logits);
  const double most = *std::max_element(p.begin(), p.end());
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] < params.min_p * most) logits[i] = kOut;
  }
  if (params.top_k > 0) {
    std::vector<double> sorted = logits;
    std::sort(sorted.rbegin(), sorted.rend());
    const double kth = sorted[std::min<size_t>(params.top_k, p.size()) - 1];
    for (double& logit : logits) {
      if (logit < kth) logit = kOut;
    }
  }
  if (params.top_p < 1) {
    p = softmax(logits);
    std::vector<int> order(p.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return p[a] != p[b] ? p[a] > p[b] : a < b; });
    double before = 0;
    for (const int id : order) {
      if (before >= params.top_p) logits[id] = kOut;
      before += p[id];
    }
  }
  return softmax(logits);
}

// Draws `draws` tokens and compares their frequencies with `expected`: the
// chi-square statistic over the tokens that should come at least 5 times.
void CheckFrequencies(const std::vector<float>& logits,
                      const SamplingParams& params,
                      const std::vector<double>& expected, int draws) {
  const int size = static_cast<int>(logits.size());
  Sampler sampler(size);
  std::vector<int> counts(size);
  std::vector<TokenId> output;
  SamplingState state;
  state.params = &params;
  for (int i = 0; i < draws; ++i) {
    state.seed = i;
    ++counts[sampler.Sample(logits, state)];
  }
  double statistic = 0;
  int cells = 0;
  for (int id = 0; id < size; ++id) {
    if (expected[id] == 0) {
      CHECK(counts[id] == 0);
      continue;
    }
    const double wanted = expected[id] * draws;
    if (wanted < 5) continue;
    statistic += (counts[id] - wanted) * (counts[id] - wanted) / wanted;
    ++cells;
  }
  // Four standard deviations above the mean.
  CHECK(statistic < cells + 4 * std::sqrt(2.0 * cells) + 4);
}

TEST_CASE("Philox gives the published words") {
  // From the known-answer file of the authors' Random123.
  const PhiloxBlock zero = Philox(0, 0, 0);
  CHECK(zero.words[0] == 0x6627e8d5);
  CHECK(zero.words[1] == 0xe169c58d);
  CHECK(zero.words[2] == 0xbc57ac4c);
  CHECK(zero.words[3] == 0x9b00dbd8);
  const PhiloxBlock ones = Philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0});
  CHECK(ones.words[0] == 0x408f276d);
  CHECK(ones.words[1] == 0x41c83b0e);
  CHECK(ones.words[2] == 0xa20bc7c6);
  CHECK(ones.words[3] == 0x6d5451fd);
}

TEST_CASE(
    "random numbers are uniform, and differ by seed, sequence and "
    "position") {
  double sum = 0;
  for (uint32_t i = 0; i < 10000; ++i) {
    const double u = RandomUniform(7, 0, i);
    CHECK(u >= 0);
    CHECK(u < 1);
    sum += u;
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.02));
  CHECK(RandomUniform(1, 0, 0) != RandomUniform(2, 0, 0));
  CHECK(RandomUniform(1, 1, 0) != RandomUniform(1, 0, 0));
  CHECK(RandomUniform(1, 0, 1) != RandomUniform(1, 0, 0));
}

TEST_CASE("greedy takes the largest logit, of equals the lowest id") {
  SamplingParams params;
  params.temperature = 0;
  SamplingState state;
  state.params = &params;
  for (const int size : {1, 5, 16, 17, 100, 1000}) {
    Sampler sampler(size);
    std::vector<float> logits = RandomLogits(size, size);
    const auto max = std::max_element(logits.begin(), logits.end());
    CHECK(sampler.Sample(logits, state) == max - logits.begin());
    std::fill(logits.begin(), logits.end(), -3.0f);
    CHECK(sampler.Sample(logits, state) == 0);
  }
}

TEST_CASE("draws have the frequencies of the definition") {
  const std::vector<float> logits = RandomLogits(200, 3, 2);
  const std::vector<double> exact(logits.begin(), logits.end());
  struct Case {
    double temperature, top_p, min_p;
    int top_k;
  };
  for (const Case& one :
       {Case{1, 1, 0, 0}, Case{0.7, 1, 0, 0}, Case{1.5, 0.9, 0, 0},
        Case{1, 1, 0, 10}, Case{1, 1, 0.05, 0}, Case{1, 0.5, 0, 0},
        Case{0.8, 0.95, 0.01, 40}, Case{1, 0.01, 0, 0}}) {
    SamplingParams params;
    params.temperature = one.temperature;
    params.top_p = one.top_p;
    params.min_p = one.min_p;
    params.top_k = one.top_k;
    CAPTURE(one.temperature);
    CAPTURE(one.top_p);
    CAPTURE(one.min_p);
    CAPTURE(one.top_k);
    CheckFrequencies(logits, params, Expected(exact, params), 20000);
  }
}

TEST_CASE("top_k keeps those that tie with the last one") {
  const std::vector<float> logits = {1, 3, 3, 3, 0};
  SamplingParams params;
  params.top_k = 2;
  CheckFrequencies(logits, params, {0, 1 / 3., 1 / 3., 1 / 3., 0}, 3000);
}

TEST_CASE("top_p keeps the lower ids of equals") {
  const std::vector<float> logits = {1, 1, 1, 1};
  SamplingParams params;
  params.top_p = 0.5;
  CheckFrequencies(logits, params, {0.5, 0.5, 0, 0}, 2000);
}

TEST_CASE("top_p picks the same set as a full sort, at any size") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = RandomLogits(5000, seed, 1.5f);
    SamplingParams params;
    params.top_p = 0.05 + 0.045 * seed;
    const std::vector<double> expected =
        Expected(std::vector<double>(logits.begin(), logits.end()), params);
    Sampler sampler(5000);
    SamplingState state;
    state.params = &params;
    for (int i = 0; i < 500; ++i) {
      state.seed = i;
      CHECK(expected[sampler.Sample(logits, state)] > 0);
    }
  }
}

// Logits after the processors, seen through a greedy choice.
TokenId Greedy(const std::vector<float>& logits, SamplingParams params,
               const std::vector<TokenId>& prompt,
               const std::vector<TokenId>& output,
               const std::vector<TokenId>& stop_ids = {},
               const std::vector<std::vector<TokenId>>& bad_words = {}) {
  params.temperature = 0;
  SamplingState state;
  state.params = &params;
  state.prompt = prompt;
  state.output = output;
  state.stop_ids = stop_ids;
  state.bad_words = bad_words;
  Sampler sampler(static_cast<int>(logits.size()));
  const TokenId first = sampler.Sample(logits, state);
  // Nothing of a call is left for the next one.
  CHECK(sampler.Sample(logits, state) == first);
  return first;
}

TEST_CASE("penalties") {
  SamplingParams repetition;
  repetition.repetition_penalty = 2;
  CHECK(Greedy({4, 3, 1}, repetition, {}, {}) == 0);
  CHECK(Greedy({4, 3, 1}, repetition, {0}, {}) == 1);      // 2, 3, 1
  CHECK(Greedy({4, 3, 1}, repetition, {0}, {1, 1}) == 0);  // 2, 1.5, 1
  CHECK(Greedy({-1, -1.5, -3}, repetition, {0}, {}) == 1);

  SamplingParams frequency;
  frequency.frequency_penalty = 1;
  CHECK(Greedy({4, 3, 1}, frequency, {0, 0}, {}) == 0);
  CHECK(Greedy({4, 3, 1}, frequency, {}, {0, 0}) == 1);  // 2, 3, 1

  SamplingParams presence;
  presence.presence_penalty = 1.5;
  CHECK(Greedy({4, 3, 1}, presence, {0}, {}) == 0);
  CHECK(Greedy({4, 3, 1}, presence, {}, {0, 0}) == 1);  // 2.5, 3, 1
}

TEST_CASE("logit_bias, min_tokens and bad words") {
  SamplingParams bias;
  bias.logit_bias = {{2, 50.f}};
  CHECK(Greedy({4, 3, 1}, bias, {}, {}) == 2);

  SamplingParams minimum;
  minimum.min_tokens = 2;
  CHECK(Greedy({4, 3, 1}, minimum, {}, {}, {0}) == 1);
  CHECK(Greedy({4, 3, 1}, minimum, {}, {1}, {0}) == 1);
  CHECK(Greedy({4, 3, 1}, minimum, {}, {1, 1}, {0}) == 0);

  CHECK(Greedy({4, 3, 1}, {}, {}, {}, {}, {{0}}) == 1);
  CHECK(Greedy({4, 3, 1}, {}, {}, {2}, {}, {{1, 0}}) == 0);
  CHECK(Greedy({4, 3, 1}, {}, {}, {2, 1}, {}, {{1, 0}}) == 1);
  CHECK(Greedy({4, 3, 1}, {}, {1}, {}, {}, {{1, 0}}) == 0);
}

TEST_CASE("log probabilities are those of the unmodified logits") {
  const std::vector<float> logits = {1, 2, 2, -1};
  const double log_sum =
      std::log(std::exp(1.) + 2 * std::exp(2.) + std::exp(-1.));
  const PositionLogprobs result = Logprobs(logits, 0, 3);
  CHECK(result.chosen.id == 0);
  CHECK(result.chosen.rank == 3);
  CHECK(result.chosen.logprob == doctest::Approx(1 - log_sum));
  REQUIRE(result.top.size() == 3);
  CHECK(result.top[0].id == 1);
  CHECK(result.top[0].rank == 1);
  CHECK(result.top[1].id == 2);
  CHECK(result.top[1].rank == 1);
  CHECK(result.top[2].id == 0);
  CHECK(result.top[0].logprob == doctest::Approx(2 - log_sum));
  CHECK(Logprobs(logits, 0, -1).top.size() == 4);
  CHECK(Logprobs(logits, 0, 0).top.empty());
}

}  // namespace
}  // namespace rbln
