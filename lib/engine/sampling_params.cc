#include "engine/sampling_params.h"

#include <algorithm>
#include <cmath>

namespace rbln {
namespace {

constexpr double kMinTemperature = 1e-2;
constexpr int kMaxSequences = 16384;

template <typename T>
void RemoveDuplicates(std::vector<T>& values) {
  std::vector<T> kept;
  for (T& value : values) {
    if (std::find(kept.begin(), kept.end(), value) == kept.end()) {
      kept.push_back(std::move(value));
    }
  }
  values = std::move(kept);
}

void CheckTokens(const char* name, TokenId id, int vocab_size) {
  if (id < 0 || id >= vocab_size) {
    throw UsageError("{} must be token ids from 0 to {}, got {}", name,
                     vocab_size - 1, id);
  }
}

void CheckLogprobs(const char* name, const std::optional<int>& value) {
  if (value && *value < -1) {
    throw UsageError("{} must be non-negative or -1, got {}", name, *value);
  }
}

void CheckPenalty(const char* name, double value) {
  if (!(value >= -2.0 && value <= 2.0)) {
    throw UsageError("{} must be in [-2, 2], got {}", name, value);
  }
}

}  // namespace

void Normalize(SamplingParams& params, int vocab_size) {
  if (params.n < 1) throw UsageError("n must be at least 1, got {}", params.n);
  if (params.n > kMaxSequences) {
    throw UsageError("n must be at most {}, got {}", kMaxSequences, params.n);
  }
  CheckPenalty("presence_penalty", params.presence_penalty);
  CheckPenalty("frequency_penalty", params.frequency_penalty);
  if (!std::isfinite(params.repetition_penalty) ||
      params.repetition_penalty <= 0.0) {
    throw UsageError("repetition_penalty must be greater than zero, got {}",
                     params.repetition_penalty);
  }
  if (!(params.temperature >= 0.0 && params.temperature <= 2.0)) {
    throw UsageError("temperature must be in [0, 2], got {}",
                     params.temperature);
  }
  if (!(params.top_p > 0.0 && params.top_p <= 1.0)) {
    throw UsageError("top_p must be in (0, 1], got {}", params.top_p);
  }
  if (params.top_k < -1) {
    throw UsageError("top_k must be 0 (disable), or at least 1, got {}",
                     params.top_k);
  }
  if (!(params.min_p >= 0.0 && params.min_p <= 1.0)) {
    throw UsageError("min_p must be in [0, 1], got {}", params.min_p);
  }
  if (params.max_tokens && *params.max_tokens < 1) {
    throw UsageError("max_tokens must be at least 1, got {}",
                     *params.max_tokens);
  }
  if (params.min_tokens < 0) {
    throw UsageError("min_tokens must be at least 0, got {}",
                     params.min_tokens);
  }
  if (params.max_tokens && params.min_tokens > *params.max_tokens) {
    throw UsageError("min_tokens must be at most max_tokens={}, got {}",
                     *params.max_tokens, params.min_tokens);
  }
  CheckLogprobs("logprobs", params.logprobs);
  CheckLogprobs("prompt_logprobs", params.prompt_logprobs);
  for (const TokenId id : params.stop_token_ids) {
    CheckTokens("stop_token_ids", id, vocab_size);
  }
  for (const auto& [id, bias] : params.logit_bias) {
    CheckTokens("logit_bias", id, vocab_size);
  }
  for (const std::string& stop : params.stop) {
    if (stop.empty()) throw UsageError("stop must not hold an empty string");
  }
  for (const std::string& word : params.bad_words) {
    if (word.empty()) {
      throw UsageError("bad_words must not hold an empty string");
    }
  }

  RemoveDuplicates(params.stop_token_ids);
  RemoveDuplicates(params.bad_words);
  for (auto& [id, bias] : params.logit_bias) {
    bias = std::clamp(bias, -100.0f, 100.0f);
  }
  if (params.seed == -1) params.seed.reset();
  if (params.top_k == -1) params.top_k = 0;
  if (params.temperature > 0.0 && params.temperature < kMinTemperature) {
    params.temperature = kMinTemperature;
  }
  if (params.temperature == 0.0) {
    params.top_p = 1.0;
    params.top_k = 0;
    params.min_p = 0.0;
    if (params.n > 1) {
      throw UsageError("n must be 1 when temperature is 0, got {}", params.n);
    }
  }
}

std::vector<std::vector<TokenId>> BadWordTokens(
    const std::vector<std::string>& bad_words, const Tokenizer& tokenizer) {
  std::vector<std::vector<TokenId>> result;
  for (const std::string& word : bad_words) {
    const size_t start = word.find_first_not_of(" \t\n\r\f\v");
    const std::string stripped =
        start == std::string::npos ? "" : word.substr(start);
    std::vector<TokenId> plain = tokenizer.Encode(stripped, false);
    if (plain.empty()) {
      throw UsageError("bad_words must be at least one token each, got '{}'",
                       word);
    }
    std::vector<TokenId> spaced = tokenizer.Encode(" " + stripped, false);
    // The spaced form is another word only where the space joins the first
    // token; where it stands alone, the plain form already covers the rest.
    const bool joined = !spaced.empty() && spaced[0] != plain[0] &&
                        spaced.size() == plain.size();
    result.push_back(std::move(plain));
    if (joined) result.push_back(std::move(spaced));
  }
  return result;
}

}  // namespace rbln
