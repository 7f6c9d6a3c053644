#include "job/parameters.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace rbln {
namespace {

using Kind = ParameterInfo::Kind;

// A value as it stands in a message: short, and valid UTF-8.
std::string Show(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  constexpr size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

Error WrongType(std::string_view name, const char* wanted, const Json& value) {
  return UsageError("{} must be {}, got {}", name, wanted, Show(value));
}

template <typename Integer>
Integer GetInteger(std::string_view name, const Json& value) {
  constexpr auto kMin = std::numeric_limits<Integer>::min();
  constexpr auto kMax = std::numeric_limits<Integer>::max();
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() <= static_cast<uint64_t>(kMax)) {
      return static_cast<Integer>(value.get<uint64_t>());
    }
  } else if (value.is_number_integer()) {
    const int64_t number = value.get<int64_t>();
    if (number >= kMin && number <= kMax) return static_cast<Integer>(number);
  } else if (value.is_number_float()) {
    // 50.0 is how some writers put 50.
    const double number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) < 1e9) {
      return static_cast<Integer>(number);
    }
  }
  throw WrongType(name, "an integer", value);
}

double GetNumber(std::string_view name, const Json& value) {
  if (!value.is_number()) throw WrongType(name, "a number", value);
  return value.get<double>();
}

bool GetBoolean(std::string_view name, const Json& value) {
  if (!value.is_boolean()) throw WrongType(name, "true or false", value);
  return value.get<bool>();
}

std::vector<std::string> GetStrings(std::string_view name, const Json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  constexpr const char* kWanted = "a string or a list of strings";
  if (!value.is_array()) throw WrongType(name, kWanted, value);
  std::vector<std::string> result;
  for (const Json& item : value) {
    if (!item.is_string()) throw WrongType(name, kWanted, value);
    result.push_back(item.get<std::string>());
  }
  return result;
}

std::vector<TokenId> GetTokens(std::string_view name, const Json& value) {
  if (!value.is_array()) throw WrongType(name, "a list of token ids", value);
  std::vector<TokenId> result;
  for (const Json& item : value) {
    result.push_back(GetInteger<TokenId>(name, item));
  }
  return result;
}

// true counts as 1, and false as not asked for.
std::optional<int> GetCount(std::string_view name, const Json& value) {
  if (!value.is_boolean()) return GetInteger<int>(name, value);
  return value.get<bool>() ? std::optional<int>(1) : std::nullopt;
}

std::vector<std::pair<TokenId, float>> GetBias(std::string_view name,
                                               const Json& value) {
  constexpr const char* kWanted = "an object of token ids and numbers";
  if (!value.is_object()) throw WrongType(name, kWanted, value);
  std::vector<std::pair<TokenId, float>> result;
  for (const auto& [key, bias] : value.items()) {
    TokenId id = 0;
    const auto [end, problem] =
        std::from_chars(key.data(), key.data() + key.size(), id);
    if (problem != std::errc() || end != key.data() + key.size() ||
        !bias.is_number()) {
      throw WrongType(name, kWanted, value);
    }
    result.emplace_back(id, bias.get<float>());
  }
  return result;
}

}  // namespace

const std::vector<ParameterInfo>& Parameters() {
  static const std::vector<ParameterInfo> kParameters = {
      {"n", Kind::kInteger, "answers for each prompt"},
      {"temperature", Kind::kNumber, "0 takes the most likely token"},
      {"top_p", Kind::kNumber, "draw from the likeliest tokens of this sum"},
      {"top_k", Kind::kInteger, "draw from so many tokens; 0: all"},
      {"min_p", Kind::kNumber, "least probability, relative to the likeliest"},
      {"max_tokens", Kind::kInteger, "most tokens of an answer"},
      {"min_tokens", Kind::kInteger, "tokens before an answer may end"},
      {"stop", Kind::kStrings, "end an answer before this text"},
      {"stop_token_ids", Kind::kIntegers, "end an answer at these tokens"},
      {"ignore_eos", Kind::kBoolean, "go on after the end-of-text token"},
      {"include_stop_str_in_output", Kind::kBoolean,
       "keep the stop text in the answer"},
      {"skip_special_tokens", Kind::kBoolean,
       "leave special tokens out of the text"},
      {"presence_penalty", Kind::kNumber, "against tokens generated before"},
      {"frequency_penalty", Kind::kNumber,
       "the same, for each time they were generated"},
      {"repetition_penalty", Kind::kNumber,
       "divides the logits of tokens seen before"},
      {"logit_bias", Kind::kObject, "added to logits: {\"ID\": NUMBER}"},
      {"logprobs", Kind::kInteger,
       "give log probabilities of so many tokens at each place"},
      {"prompt_logprobs", Kind::kInteger, "the same for the prompt"},
      {"bad_words", Kind::kStrings, "never generate this text"},
      {"truncate_prompt_tokens", Kind::kInteger,
       "keep so many tokens at the end of a prompt; -1: all that fit"},
      {"echo", Kind::kBoolean, "begin the answer with the prompt"},
      {"seed", Kind::kInteger, "of the random numbers"},
  };
  return kParameters;
}

bool SetParameter(RequestParams& params, std::string_view name,
                  const Json& value) {
  SamplingParams& sampling = params.sampling;
  const bool set = !value.is_null();
  const auto integer = [&](int& to) {
    if (set) to = GetInteger<int>(name, value);
    return true;
  };
  const auto number = [&](double& to) {
    if (set) to = GetNumber(name, value);
    return true;
  };
  const auto boolean = [&](bool& to) {
    if (set) to = GetBoolean(name, value);
    return true;
  };
  const auto strings = [&](std::vector<std::string>& to) {
    if (set) to = GetStrings(name, value);
    return true;
  };
  const auto count = [&](std::optional<int>& to) {
    if (set) to = GetCount(name, value);
    return true;
  };
  if (name == "n") return integer(sampling.n);
  if (name == "temperature") return number(sampling.temperature);
  if (name == "top_p") return number(sampling.top_p);
  if (name == "top_k") return integer(sampling.top_k);
  if (name == "min_p") return number(sampling.min_p);
  if (name == "min_tokens") return integer(sampling.min_tokens);
  if (name == "stop") return strings(sampling.stop);
  if (name == "ignore_eos") return boolean(sampling.ignore_eos);
  if (name == "include_stop_str_in_output") {
    return boolean(sampling.include_stop_str_in_output);
  }
  if (name == "skip_special_tokens") {
    return boolean(sampling.skip_special_tokens);
  }
  if (name == "presence_penalty") return number(sampling.presence_penalty);
  if (name == "frequency_penalty") return number(sampling.frequency_penalty);
  if (name == "repetition_penalty") {
    return number(sampling.repetition_penalty);
  }
  if (name == "logprobs") return count(sampling.logprobs);
  if (name == "prompt_logprobs") return count(sampling.prompt_logprobs);
  if (name == "bad_words") return strings(sampling.bad_words);
  if (name == "echo") return boolean(params.echo);
  if (name == "max_tokens") {
    if (set) sampling.max_tokens = GetInteger<int>(name, value);
    return true;
  }
  if (name == "seed") {
    if (set) sampling.seed = GetInteger<int64_t>(name, value);
    return true;
  }
  if (name == "stop_token_ids") {
    if (set) sampling.stop_token_ids = GetTokens(name, value);
    return true;
  }
  if (name == "logit_bias") {
    if (set) sampling.logit_bias = GetBias(name, value);
    return true;
  }
  if (name == "truncate_prompt_tokens") {
    if (!set) return true;
    const int tokens = GetInteger<int>(name, value);
    if (tokens < -1 || tokens == 0) {
      throw UsageError("{} must be at least 1, or -1, got {}", name, tokens);
    }
    params.truncate_prompt_tokens = tokens;
    return true;
  }
  return false;
}

Json FlagValue(const ParameterInfo& parameter,
               const std::vector<std::string>& texts) {
  if (parameter.kind == Kind::kStrings) return texts;
  std::string text = texts.back();
  if (parameter.kind == Kind::kIntegers) {
    text.clear();
    for (const std::string& part : texts) {
      text += (text.empty() ? "" : ",") + part;
    }
    if (!text.starts_with('[')) text = "[" + text + "]";
  }
  const Json value = Json::parse(text, nullptr, false);
  // What is not JSON is shown as the string it is.
  const Json shown = value.is_discarded() ? Json(text) : value;
  RequestParams unused;
  SetParameter(unused, parameter.name, shown);
  return shown;
}

void ParameterDefaults::Apply(const Json& values, const std::string& origin) {
  for (const auto& [name, value] : values.items()) {
    if (value.is_null()) continue;
    try {
      if (!SetParameter(params_, name, value)) {
        throw UsageError("{} is not a sampling parameter", name);
      }
    } catch (const Error& error) {
      throw UsageError("{}: {}", origin, error.what());
    }
    sources_[name] = {value, origin};
  }
}

Json GenerationConfigValues(const Json& config) {
  Json values = Json::object();
  for (const char* name :
       {"temperature", "top_p", "top_k", "min_p", "repetition_penalty"}) {
    if (config.contains(name)) values[name] = config[name];
  }
  if (config.contains("max_new_tokens")) {
    values["max_tokens"] = config["max_new_tokens"];
  }
  return values;
}

}  // namespace rbln
