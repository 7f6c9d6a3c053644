#include "job/answer.h"

#include <algorithm>
#include <array>

namespace rbln {
namespace {

std::string TokenText(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.Decode({id}, false);
}

void WriteStopReason(const Completion& completion, JsonWriter& to) {
  to.Key("stop_reason");
  if (const auto* token = std::get_if<TokenId>(&completion.stop_reason)) {
    to.Integer(*token);
  } else if (const auto* text =
                 std::get_if<std::string>(&completion.stop_reason)) {
    to.String(*text);
  } else {
    to.Null();
  }
}

void WriteUsage(const std::vector<Finished>& results, bool with_total,
                JsonWriter& to) {
  int64_t prompt = 0;
  int64_t generated = 0;
  for (const Finished& result : results) {
    prompt += result.prompt_tokens;
    for (const Completion& completion : result.completions) {
      generated += static_cast<int64_t>(completion.tokens.size());
    }
  }
  to.Key("usage");
  to.BeginObject();
  to.Key("prompt_tokens");
  to.Integer(prompt);
  to.Key("completion_tokens");
  to.Integer(generated);
  if (with_total) {
    to.Key("total_tokens");
    to.Integer(prompt + generated);
  }
  to.EndObject();
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

void WritePromptLogprobs(const Finished& result, const Tokenizer& tokenizer,
                         JsonWriter& to) {
  // The first token of a prompt has nothing before it.
  OrderedJson list = PlainLogprobs(result.prompt_logprobs, tokenizer);
  list.insert(list.begin(), nullptr);
  to.Key("prompt_logprobs");
  to.Value(list);
}

// text, finish_reason and what else is said of one completion.
void WritePlainCompletion(const PromptLine& line, const Completion& completion,
                          const Tokenizer& tokenizer, JsonWriter& to) {
  to.Key("text");
  to.String(line.echoes[0] + completion.text);
  to.Key("finish_reason");
  to.String(completion.finish_reason);
  if (completion.stop_reason.index() != 0) WriteStopReason(completion, to);
  if (line.params.sampling.logprobs) {
    to.Key("logprobs");
    to.Value(PlainLogprobs(completion.logprobs, tokenizer));
  }
}

void WritePlainAnswer(const PromptLine& line,
                      const std::vector<Finished>& results,
                      const Tokenizer& tokenizer, JsonWriter& to) {
  to.BeginObject();
  to.Key("index");
  to.Integer(line.index);
  constexpr std::array kFirst = {"custom_id", "id"};
  for (const char* name : kFirst) {
    const auto field = line.carried.find(name);
    if (field == line.carried.end()) continue;
    to.Key(name);
    to.Value(*field);
  }
  if (line.error) {
    to.Key("error");
    to.String(*line.error);
  } else {
    const Finished& result = results[0];
    if (result.completions.size() == 1) {
      WritePlainCompletion(line, result.completions[0], tokenizer, to);
    } else {
      to.Key("choices");
      to.BeginArray();
      for (size_t i = 0; i < result.completions.size(); ++i) {
        to.BeginObject();
        to.Key("index");
        to.Integer(static_cast<int64_t>(i));
        WritePlainCompletion(line, result.completions[i], tokenizer, to);
        to.EndObject();
      }
      to.EndArray();
    }
    WriteUsage(results, /*with_total=*/false, to);
    if (line.params.sampling.prompt_logprobs) {
      WritePromptLogprobs(result, tokenizer, to);
    }
  }
  // None of them has a name of the answer's own.
  for (const auto& [name, value] : line.carried.items()) {
    if (std::find(kFirst.begin(), kFirst.end(), name) != kFirst.end()) continue;
    to.Key(name);
    to.Value(value);
  }
  to.EndObject();
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

// Completion `number` of prompt `prompt`.
void WriteChoice(const PromptLine& line, const Finished& result, size_t prompt,
                 size_t number, const Tokenizer& tokenizer, JsonWriter& to) {
  const Completion& completion = result.completions[number];
  const SamplingParams& sampling = line.params.sampling;
  const std::string& echo = line.echoes[prompt];
  const bool chat = line.form == LineForm::kChatCompletions;
  to.BeginObject();
  to.Key("index");
  to.Integer(static_cast<int64_t>(prompt * result.completions.size() + number));
  if (chat) {
    to.Key("message");
    to.BeginObject();
    to.Key("role");
    to.String("assistant");
    to.Key("content");
    to.String(echo + completion.text);
    to.Key("refusal");
    to.Null();
    to.EndObject();
  } else {
    to.Key("text");
    to.String(echo + completion.text);
  }
  to.Key("logprobs");
  if (!sampling.logprobs) {
    to.Null();
  } else if (chat) {
    to.Value(ChatLogprobs(completion, tokenizer));
  } else {
    to.Value(CompletionLogprobs(completion, echo.size(), tokenizer));
  }
  to.Key("finish_reason");
  to.String(completion.finish_reason);
  WriteStopReason(completion, to);
  if (sampling.prompt_logprobs && number == 0) {
    WritePromptLogprobs(result, tokenizer, to);
  }
  to.EndObject();
}

// As `vllm run-batch` writes it. What a service would draw at random or from
// the clock is made from the index, so that a rerun gives the same bytes.
void WriteBatchAnswer(const PromptLine& line,
                      const std::vector<Finished>& results,
                      const Tokenizer& tokenizer, JsonWriter& to) {
  to.BeginObject();
  to.Key("id");
  to.String(fmt::format("rbln-{}", line.index));
  to.Key("custom_id");
  to.String(line.custom_id);
  to.Key("response");
  to.BeginObject();
  to.Key("status_code");
  to.Integer(line.error ? 400 : 200);
  to.Key("request_id");
  to.String(fmt::format("rbln-batch-{}", line.index));
  to.Key("body");
  if (line.error) {
    to.Null();
    to.EndObject();
    to.Key("error");
    to.Value({{"error",
               {{"message", *line.error},
                {"type", "BadRequestError"},
                {"param", nullptr},
                {"code", 400}}}});
    to.EndObject();
    return;
  }
  const bool chat = line.form == LineForm::kChatCompletions;
  to.BeginObject();
  to.Key("id");
  to.String(fmt::format("{}-{}", chat ? "chatcmpl" : "cmpl", line.index));
  to.Key("object");
  to.String(chat ? "chat.completion" : "text_completion");
  to.Key("created");
  to.Integer(0);
  to.Key("model");
  to.String(line.model);
  to.Key("choices");
  to.BeginArray();
  for (size_t prompt = 0; prompt < results.size(); ++prompt) {
    for (size_t i = 0; i < results[prompt].completions.size(); ++i) {
      WriteChoice(line, results[prompt], prompt, i, tokenizer, to);
    }
  }
  to.EndArray();
  WriteUsage(results, /*with_total=*/true, to);
  to.EndObject();
  to.EndObject();
  to.Key("error");
  to.Null();
  to.EndObject();
}

}  // namespace

std::string FormatAnswer(const PromptLine& line,
                         const std::vector<Finished>& results,
                         const Tokenizer& tokenizer) {
  JsonWriter answer;
  if (line.form == LineForm::kPlain) {
    WritePlainAnswer(line, results, tokenizer, answer);
  } else {
    WriteBatchAnswer(line, results, tokenizer, answer);
  }
  return answer.Take();
}

}  // namespace rbln
