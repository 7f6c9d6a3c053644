#include "job/answer.h"

#include <algorithm>
#include <type_traits>

namespace rbln {
namespace {

std::string TokenText(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.Decode({id}, false);
}

OrderedJson StopReason(const Completion& completion) {
  return std::visit(
      [](const auto& reason) -> OrderedJson {
        using T = std::decay_t<decltype(reason)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else {
          return reason;
        }
      },
      completion.stop_reason);
}

OrderedJson Usage(const std::vector<Finished>& results) {
  int64_t prompt = 0;
  int64_t generated = 0;
  for (const Finished& result : results) {
    prompt += result.prompt_tokens;
    for (const Completion& completion : result.completions) {
      generated += static_cast<int64_t>(completion.tokens.size());
    }
  }
  return {{"prompt_tokens", prompt}, {"completion_tokens", generated}};
}

OrderedJson PlainLogprob(const TokenLogprob& entry,
                         const Tokenizer& tokenizer) {
  return {{"token", TokenText(tokenizer, entry.id)},
          {"id", entry.id},
          {"logprob", entry.logprob},
          {"rank", entry.rank}};
}

OrderedJson PlainLogprobs(const std::vector<PositionLogprobs>& positions,
                          const Tokenizer& tokenizer) {
  OrderedJson list = OrderedJson::array();
  for (const PositionLogprobs& position : positions) {
    OrderedJson entry = PlainLogprob(position.chosen, tokenizer);
    entry["top"] = OrderedJson::array();
    for (const TokenLogprob& other : position.top) {
      entry["top"].push_back(PlainLogprob(other, tokenizer));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

// text, finish_reason and what else is said of one completion.
void AddPlainCompletion(const PromptLine& line, const Completion& completion,
                        const Tokenizer& tokenizer, OrderedJson& to) {
  to["text"] = line.echoes[0] + completion.text;
  to["finish_reason"] = completion.finish_reason;
  if (completion.stop_reason.index() != 0) {
    to["stop_reason"] = StopReason(completion);
  }
  if (line.params.sampling.logprobs) {
    to["logprobs"] = PlainLogprobs(completion.logprobs, tokenizer);
  }
}

OrderedJson PlainAnswer(const PromptLine& line,
                        const std::vector<Finished>& results,
                        const Tokenizer& tokenizer) {
  OrderedJson answer = {{"index", line.index}};
  for (const char* name : {"custom_id", "id"}) {
    if (line.carried.contains(name)) answer[name] = line.carried[name];
  }
  if (line.error) {
    answer["error"] = *line.error;
  } else {
    const Finished& result = results[0];
    if (result.completions.size() == 1) {
      AddPlainCompletion(line, result.completions[0], tokenizer, answer);
    } else {
      answer["choices"] = OrderedJson::array();
      for (size_t i = 0; i < result.completions.size(); ++i) {
        OrderedJson choice = {{"index", i}};
        AddPlainCompletion(line, result.completions[i], tokenizer, choice);
        answer["choices"].push_back(std::move(choice));
      }
    }
    answer["usage"] = Usage(results);
    if (line.params.sampling.prompt_logprobs) {
      // The first token of a prompt has nothing before it.
      OrderedJson list = PlainLogprobs(result.prompt_logprobs, tokenizer);
      list.insert(list.begin(), nullptr);
      answer["prompt_logprobs"] = std::move(list);
    }
  }
  for (const auto& [name, value] : line.carried.items()) {
    if (!answer.contains(name)) answer[name] = value;
  }
  return answer;
}

OrderedJson Bytes(const std::string& text) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  return bytes;
}

OrderedJson ChatLogprobs(const Completion& completion,
                         const Tokenizer& tokenizer) {
  const auto entry = [&](const TokenLogprob& token) {
    const std::string text = TokenText(tokenizer, token.id);
    return OrderedJson{
        {"token", text}, {"logprob", token.logprob}, {"bytes", Bytes(text)}};
  };
  OrderedJson content = OrderedJson::array();
  for (const PositionLogprobs& position : completion.logprobs) {
    OrderedJson item = entry(position.chosen);
    item["top_logprobs"] = OrderedJson::array();
    for (const TokenLogprob& other : position.top) {
      item["top_logprobs"].push_back(entry(other));
    }
    content.push_back(std::move(item));
  }
  return {{"content", std::move(content)}};
}

OrderedJson CompletionLogprobs(const Completion& completion, size_t offset,
                               const Tokenizer& tokenizer) {
  OrderedJson result = {{"text_offset", OrderedJson::array()},
                        {"token_logprobs", OrderedJson::array()},
                        {"tokens", OrderedJson::array()},
                        {"top_logprobs", OrderedJson::array()}};
  for (const PositionLogprobs& position : completion.logprobs) {
    const std::string text = TokenText(tokenizer, position.chosen.id);
    result["text_offset"].push_back(offset);
    result["token_logprobs"].push_back(position.chosen.logprob);
    result["tokens"].push_back(text);
    OrderedJson top = OrderedJson::object();
    top[text] = position.chosen.logprob;
    for (const TokenLogprob& other : position.top) {
      top[TokenText(tokenizer, other.id)] = other.logprob;
    }
    result["top_logprobs"].push_back(std::move(top));
    offset += text.size();
  }
  return result;
}

OrderedJson Choice(const PromptLine& line, const Finished& result,
                   size_t prompt, size_t number, const Tokenizer& tokenizer) {
  const Completion& completion = result.completions[number];
  const SamplingParams& sampling = line.params.sampling;
  const std::string& echo = line.echoes[prompt];
  OrderedJson choice = {{"index", prompt * result.completions.size() + number}};
  if (line.form == LineForm::kChatCompletions) {
    choice["message"] = {{"role", "assistant"},
                         {"content", echo + completion.text},
                         {"refusal", nullptr}};
    choice["logprobs"] =
        sampling.logprobs ? ChatLogprobs(completion, tokenizer) : OrderedJson();
  } else {
    choice["text"] = echo + completion.text;
    choice["logprobs"] =
        sampling.logprobs
            ? CompletionLogprobs(completion, echo.size(), tokenizer)
            : OrderedJson();
  }
  choice["finish_reason"] = completion.finish_reason;
  choice["stop_reason"] = StopReason(completion);
  if (sampling.prompt_logprobs && number == 0) {
    OrderedJson list = PlainLogprobs(result.prompt_logprobs, tokenizer);
    list.insert(list.begin(), nullptr);
    choice["prompt_logprobs"] = std::move(list);
  }
  return choice;
}

// As `vllm run-batch` writes it. What a service would draw at random or from
// the clock is made from the index, so that a rerun gives the same bytes.
OrderedJson BatchAnswer(const PromptLine& line,
                        const std::vector<Finished>& results,
                        const Tokenizer& tokenizer) {
  const std::string request_id = fmt::format("rbln-batch-{}", line.index);
  OrderedJson answer = {{"id", fmt::format("rbln-{}", line.index)},
                        {"custom_id", line.custom_id}};
  if (line.error) {
    answer["response"] = {
        {"status_code", 400}, {"request_id", request_id}, {"body", nullptr}};
    answer["error"] = {{"error",
                        {{"message", *line.error},
                         {"type", "BadRequestError"},
                         {"param", nullptr},
                         {"code", 400}}}};
    return answer;
  }
  const bool chat = line.form == LineForm::kChatCompletions;
  OrderedJson body = {
      {"id", fmt::format("{}-{}", chat ? "chatcmpl" : "cmpl", line.index)},
      {"object", chat ? "chat.completion" : "text_completion"},
      {"created", 0},
      {"model", line.model},
      {"choices", OrderedJson::array()}};
  for (size_t prompt = 0; prompt < results.size(); ++prompt) {
    for (size_t i = 0; i < results[prompt].completions.size(); ++i) {
      body["choices"].push_back(
          Choice(line, results[prompt], prompt, i, tokenizer));
    }
  }
  body["usage"] = Usage(results);
  body["usage"]["total_tokens"] =
      body["usage"]["prompt_tokens"].get<int64_t>() +
      body["usage"]["completion_tokens"].get<int64_t>();
  answer["response"] = {{"status_code", 200},
                        {"request_id", request_id},
                        {"body", std::move(body)}};
  answer["error"] = nullptr;
  return answer;
}

}  // namespace

std::string FormatAnswer(const PromptLine& line,
                         const std::vector<Finished>& results,
                         const Tokenizer& tokenizer) {
  const OrderedJson answer = line.form == LineForm::kPlain
                                 ? PlainAnswer(line, results, tokenizer)
                                 : BatchAnswer(line, results, tokenizer);
  return answer.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace rbln
