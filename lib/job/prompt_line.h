// One line of the prompts file, understood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "job/parameters.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace rbln {

enum class LineForm {
  kPlain,            // {"prompt": ...} or {"messages": ...}
  kChatCompletions,  // OpenAI batch, /v1/chat/completions
  kCompletions,      // OpenAI batch, /v1/completions
};

// What a line needs of the model and the job, the same for all lines.
struct LineContext {
  const Tokenizer* tokenizer = nullptr;
  // Null where the model has none; then `messages` is an error.
  const ChatTemplate* chat_template = nullptr;
  const ChatTemplate* tool_template = nullptr;  // for lines with tools
  RequestParams plain_defaults;
  RequestParams chat_defaults;
  RequestParams completions_defaults;
  int max_model_len = 0;
  uint64_t seed = 0;
};

struct PromptLine {
  int64_t index = 0;   // of the answer, from 0; blank lines do not count
  int64_t number = 0;  // of the line in the file, from 1
  LineForm form = LineForm::kPlain;
  // Fields that go back with the answer: custom_id, id and unknown ones.
  OrderedJson carried = OrderedJson::object();
  std::string custom_id;  // of the OpenAI forms
  std::string model;      // as the OpenAI forms name it
  // Usually one; /v1/completions takes several.
  std::vector<std::vector<TokenId>> prompts;
  // What `echo` puts before the answers to each prompt.
  std::vector<std::string> echoes;
  RequestParams params;
  // Why it cannot run; the rest is then filled as far as it was understood.
  std::optional<std::string> error;

  // Seed for requests that name none: the job's, mixed with the index.
  uint64_t seed = 0;
};

// Reads a line. Never throws for what is in it: that is an error of the line.
PromptLine ParsePromptLine(std::string_view text, int64_t index, int64_t number,
                           const LineContext& context);
// A line that cannot even be looked at.
PromptLine BadPromptLine(int64_t index, int64_t number, std::string message);

}  // namespace rbln
