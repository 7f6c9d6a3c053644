#include "job/parameters.h"

#include <doctest/doctest.h>

namespace rbln {
namespace {

std::string Problem(const char* name, const char* json) {
  RequestParams params;
  try {
    SetParameter(params, name, Json::parse(json));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("every parameter is known, and null leaves it alone") {
  for (const ParameterInfo& parameter : Parameters()) {
    CAPTURE(parameter.name);
    RequestParams params;
    CHECK(SetParameter(params, parameter.name, nullptr));
    CHECK(Problem(parameter.name, "{\"a\": {}}") != "");
  }
  RequestParams params;
  CHECK_FALSE(SetParameter(params, "temprature", 1));
}

TEST_CASE("values of the wrong type are errors that show them") {
  CHECK(Problem("temperature", "\"hot\"") ==
        "temperature must be a number, got \"hot\"");
  CHECK(Problem("max_tokens", "1.5") ==
        "max_tokens must be an integer, got 1.5");
  CHECK(Problem("max_tokens", "99999999999") ==
        "max_tokens must be an integer, got 99999999999");
  CHECK(Problem("max_tokens", "true") ==
        "max_tokens must be an integer, got true");
  CHECK(Problem("ignore_eos", "1") ==
        "ignore_eos must be true or false, got 1");
  CHECK(Problem("stop", "[1]") ==
        "stop must be a string or a list of strings, got [1]");
  CHECK(Problem("stop_token_ids", "3") ==
        "stop_token_ids must be a list of token ids, got 3");
  CHECK(Problem("logit_bias", "{\"x\": 1}") ==
        "logit_bias must be an object of token ids and numbers, got "
        "{\"x\":1}");
  CHECK(Problem("truncate_prompt_tokens", "0") ==
        "truncate_prompt_tokens must be at least 1, or -1, got 0");
}

TEST_CASE("values are taken in every form that means them") {
  RequestParams params;
  const auto set = [&](const char* name, const char* json) {
    CHECK(SetParameter(params, name, Json::parse(json)));
  };
  set("top_k", "50.0");
  CHECK(params.sampling.top_k == 50);
  set("stop", "\"x\"");
  CHECK(params.sampling.stop == std::vector<std::string>{"x"});
  set("stop", "[\"x\", \"y\"]");
  CHECK(params.sampling.stop.size() == 2);
  set("logprobs", "true");
  CHECK(params.sampling.logprobs == 1);
  set("logprobs", "false");
  CHECK_FALSE(params.sampling.logprobs);
  set("logit_bias", "{\"7\": -1.5}");
  CHECK(params.sampling.logit_bias[0] == std::pair<TokenId, float>(7, -1.5f));
}

TEST_CASE("flags are read by kind") {
  const auto value = [](const char* name, std::vector<std::string> texts) {
    for (const ParameterInfo& parameter : Parameters()) {
      if (std::string(parameter.name) == name) {
        return FlagValue(parameter, texts).dump();
      }
    }
    return std::string();
  };
  CHECK(value("temperature", {"0.5"}) == "0.5");
  CHECK(value("stop", {"12", "x"}) == "[\"12\",\"x\"]");
  CHECK(value("stop_token_ids", {"1,2", "3"}) == "[1,2,3]");
  CHECK(value("logit_bias", {"{\"1\": 2}"}) == "{\"1\":2}");
  CHECK_THROWS_WITH(value("temperature", {"warm"}),
                    "temperature must be a number, got \"warm\"");
}

TEST_CASE("defaults lie over each other and remember where they came from") {
  ParameterDefaults defaults{RequestParams()};
  defaults.Apply({{"temperature", 0.5}, {"top_k", 4}}, "rbln.yaml");
  defaults.Apply({{"temperature", 0.25}}, "flag");
  CHECK(defaults.params().sampling.temperature == 0.25);
  CHECK(defaults.params().sampling.top_k == 4);
  CHECK(defaults.sources().at("temperature").origin == "flag");
  CHECK(defaults.sources().at("top_k").origin == "rbln.yaml");
  CHECK_THROWS_WITH(defaults.Apply({{"tmp", 1}}, "rbln.yaml"),
                    "rbln.yaml: tmp is not a sampling parameter");
}

TEST_CASE("generation_config.json speaks of some, under other names") {
  const Json values = GenerationConfigValues({{"temperature", 0.6},
                                              {"max_new_tokens", 9},
                                              {"eos_token_id", 3},
                                              {"do_sample", true}});
  CHECK(values == Json({{"temperature", 0.6}, {"max_tokens", 9}}));
}

}  // namespace
}  // namespace rbln
