// How tokens are chosen for one request: names, meanings and rules are those of
// vLLM's SamplingParams.
// Reference: https://docs.vllm.ai/en/latest/api/vllm/sampling_params.html
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "guide/guide_spec.h"
#include "text/tokenizer.h"

namespace rbln {

struct SamplingParams {
  int n = 1;
  double temperature = 1.0;  // below 1e-5: greedy
  double top_p = 1.0;
  int top_k = 0;  // 0 or -1: all
  double min_p = 0.0;
  std::optional<int64_t> seed;
  std::optional<int> max_tokens = 16;  // nullopt: up to the context's end
  int min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::optional<int> logprobs;         // -1: the whole vocabulary
  std::optional<int> prompt_logprobs;  // -1: the whole vocabulary
  std::vector<std::string> bad_words;
  // What the whole text must match; nullopt: anything.
  std::optional<GuideSpec> guide;

  bool greedy() const { return temperature < 1e-5; }
};

// Checks the values against the rules and brings equivalent ones to one form
// (a temperature in (0, 0.01) becomes 0.01; greedy sampling drops top_p, top_k
// and min_p). Throws Error(kUsage) whose message starts with the name of the
// parameter.
void Normalize(SamplingParams& params, int vocab_size);

// The token sequences that spell `bad_words`, at the start of a text and after
// a space. Throws Error(kUsage) for a word that is no token at all.
std::vector<std::vector<TokenId>> BadWordTokens(
    const std::vector<std::string>& bad_words, const Tokenizer& tokenizer);

}  // namespace rbln
