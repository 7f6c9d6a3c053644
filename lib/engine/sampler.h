// The choice of the next token from a row of logits.
//
// What is done to the logits, and in which order, is what vLLM does: bad words,
// min_tokens, logit_bias, penalties, what a guide allows, temperature, min_p,
// top_k, top_p. The random number of a choice depends only on (seed, index of
// the sequence in its request, number of tokens generated before), and all sums
// run in a fixed order: so a choice does not depend on what else is in the
// batch, and a rerun gives the same tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling_params.h"
#include "guide/token_mask.h"

namespace rbln {

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3"): four random words for a counter and a key.
struct PhiloxBlock {
  uint32_t words[4];
};
PhiloxBlock Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// Uniform in [0, 1), 53 bits.
double RandomUniform(uint64_t seed, uint32_t sequence, uint32_t position);

// One token with its log probability under the unmodified logits.
struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
  int rank = 0;  // 1 for the most likely; ties share the lower rank
};

// The token at a place, and the most likely ones there.
struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // most likely first, lower id first on ties
};

// `count` = -1 asks for the whole vocabulary.
PositionLogprobs Logprobs(std::span<const float> logits, TokenId chosen,
                          int count);

// What a choice depends on, apart from the logits.
struct SamplingState {
  const SamplingParams* params = nullptr;
  uint64_t seed = 0;
  uint32_t sequence = 0;
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;
  // Tokens that end the sequence, kept away while output is shorter than
  // min_tokens.
  std::span<const TokenId> stop_ids;
  std::span<const std::vector<TokenId>> bad_words;
  // Where a guide says what may come: the tokens that go on with the text
  // (null: no guide), those that end it, and whether it may end here.
  const TokenMask* allowed = nullptr;
  std::span<const TokenId> end_ids;
  bool may_end = false;
};

// What Sample gives where a guide leaves nothing to choose.
inline constexpr TokenId kNoToken = -1;

// Holds scratch memory only. Not thread safe.
class Sampler {
 public:
  explicit Sampler(int vocab_size);

  // `logits` holds vocab_size values; where there is a choice to make that
  // needs changed logits, they are changed in a copy. Where a guide allows only
  // the end, it comes whatever min_tokens says.
  TokenId Sample(std::span<const float> logits, const SamplingState& state);

 private:
  std::span<const float> Process(std::span<const float> logits,
                                 const SamplingState& state);
  void ApplyPenalties(const SamplingState& state);
  void ApplyGuide(std::span<const float> logits, const SamplingState& state);
  TokenId Draw(std::span<const float> logits, const SamplingState& state);
  // Zeroes the weights outside the smallest set whose sum reaches top_p of
  // `total`. Returns the sum of what is left.
  double KeepTopP(double top_p, double total);

  std::vector<float> logits_;
  std::vector<float> weights_;
  std::vector<float> selection_;
  std::vector<float> end_logits_;
  std::vector<int> candidates_;
  // Per token: how often it was generated, and whether it was seen at all. All
  // zero between calls.
  std::vector<int> counts_;
  std::vector<char> seen_;
};

}  // namespace rbln
