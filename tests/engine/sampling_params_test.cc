#include "engine/sampling_params.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

namespace rbln {
namespace {

std::string Problem(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  try {
    Normalize(params, 100);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST_CASE("each rule has its message") {
  using P = SamplingParams;
  const double nan = std::nan("");
  CHECK(Problem([](P& p) { p.n = 0; }) == "n must be at least 1, got 0");
  CHECK(Problem([](P& p) { p.n = 20000; }) ==
        "n must be at most 16384, got 20000");
  CHECK(Problem([](P& p) { p.temperature = -1; }) ==
        "temperature must be in [0, 2], got -1");
  CHECK(Problem([](P& p) { p.temperature = 2.5; }) ==
        "temperature must be in [0, 2], got 2.5");
  CHECK(Problem([&](P& p) { p.temperature = nan; }) ==
        "temperature must be in [0, 2], got nan");
  CHECK(Problem([](P& p) { p.top_p = 0; }) == "top_p must be in (0, 1], got 0");
  CHECK(Problem([](P& p) { p.top_p = 1.5; }) ==
        "top_p must be in (0, 1], got 1.5");
  CHECK(Problem([](P& p) { p.top_k = -2; }) ==
        "top_k must be 0 (disable), or at least 1, got -2");
  CHECK(Problem([](P& p) { p.min_p = 2; }) == "min_p must be in [0, 1], got 2");
  CHECK(Problem([](P& p) { p.max_tokens = 0; }) ==
        "max_tokens must be at least 1, got 0");
  CHECK(Problem([](P& p) { p.min_tokens = -1; }) ==
        "min_tokens must be at least 0, got -1");
  CHECK(Problem([](P& p) { p.min_tokens = 17; }) ==
        "min_tokens must be at most max_tokens=16, got 17");
  CHECK(Problem([](P& p) { p.presence_penalty = 3; }) ==
        "presence_penalty must be in [-2, 2], got 3");
  CHECK(Problem([](P& p) { p.frequency_penalty = -3; }) ==
        "frequency_penalty must be in [-2, 2], got -3");
  CHECK(Problem([](P& p) { p.repetition_penalty = 0; }) ==
        "repetition_penalty must be greater than zero, got 0");
  CHECK(Problem([](P& p) { p.logprobs = -2; }) ==
        "logprobs must be non-negative or -1, got -2");
  CHECK(Problem([](P& p) { p.prompt_logprobs = -2; }) ==
        "prompt_logprobs must be non-negative or -1, got -2");
  CHECK(Problem([](P& p) { p.stop_token_ids = {100}; }) ==
        "stop_token_ids must be token ids from 0 to 99, got 100");
  CHECK(Problem([](P& p) {
          p.logit_bias = {{-1, 0.f}};
        }) == "logit_bias must be token ids from 0 to 99, got -1");
  CHECK(Problem([](P& p) {
          p.stop = {"a", ""};
        }) == "stop must not hold an empty string");
  CHECK(Problem([](P& p) { p.bad_words = {""}; }) ==
        "bad_words must not hold an empty string");
  CHECK(Problem([](P& p) {
          p.temperature = 0;
          p.n = 2;
        }) == "n must be 1 when temperature is 0, got 2");
}

TEST_CASE("equivalent values come to one form") {
  SamplingParams params;
  params.temperature = 0.001;
  params.seed = -1;
  params.top_k = -1;
  params.stop_token_ids = {5, 4, 5};
  params.logit_bias = {{1, 1000.f}};
  Normalize(params, 100);
  CHECK(params.temperature == 0.01);
  CHECK_FALSE(params.seed);
  CHECK(params.top_k == 0);
  CHECK(params.stop_token_ids == std::vector<TokenId>{5, 4});
  CHECK(params.logit_bias[0].second == 100.f);
}

TEST_CASE("a bad word counts at the start and after a space") {
  const auto tokenizer =
      Tokenizer::Load(RBLN_EXAMPLES "/tiny-chat", ErrorKind::kModel);
  const auto words = BadWordTokens({"a"}, *tokenizer);
  REQUIRE(words.size() == 2);
  CHECK(tokenizer->Decode(words[0], false) == "a");
  CHECK(tokenizer->Decode(words[1], false) == " a");
  CHECK_THROWS_WITH(BadWordTokens({"  "}, *tokenizer),
                    "bad_words must be at least one token each, got '  '");
}

}  // namespace
}  // namespace rbln
