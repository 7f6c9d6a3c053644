#include "job/prompt_line.h"

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "job/guide_parameters.h"

namespace rbln {
namespace {

// Fields of an answer: a line's own field of that name could not be told from
// it.
constexpr std::array kAnswerFields = {"index", "text",    "finish_reason",
                                      "usage", "choices", "stop_reason",
                                      "error"};

bool IsOneOf(std::string_view name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsSet(const OrderedJson& object, const char* name) {
  return object.contains(name) && !object[name].is_null();
}

// A message's content as one string: parts of type text are joined by newlines.
OrderedJson ContentText(const OrderedJson& content) {
  if (!content.is_array()) return content;
  std::string text;
  bool first = true;
  for (const OrderedJson& part : content) {
    std::string type;
    if (part.is_object() && part.contains("type") && part["type"].is_string()) {
      type = part["type"].get<std::string>();
    }
    if (type != "text" || !part.contains("text") || !part["text"].is_string()) {
      throw UsageError(
          "messages: content parts must be of type 'text'; '{}' is not "
          "supported",
          type);
    }
    if (!first) text += '\n';
    first = false;
    text += part["text"].get<std::string>();
  }
  return text;
}

// Templates want the arguments of a tool call as an object; the OpenAI API
// carries them as its text.
void ReadToolArguments(OrderedJson& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) {
    return;
  }
  for (OrderedJson& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") ||
        !call["function"].is_object() ||
        !call["function"].contains("arguments")) {
      continue;
    }
    OrderedJson& arguments = call["function"]["arguments"];
    if (!arguments.is_string()) continue;
    arguments =
        ParseOrderedJson(arguments.get<std::string>(),
                         "messages: tool_calls: arguments", ErrorKind::kUsage);
  }
}

OrderedJson ReadMessages(const OrderedJson& messages) {
  if (!messages.is_array() || messages.empty()) {
    throw UsageError("messages must be a list of at least one message");
  }
  OrderedJson result = OrderedJson::array();
  for (const OrderedJson& given : messages) {
    if (!given.is_object() || !given.contains("role") ||
        !given["role"].is_string()) {
      throw UsageError("messages: each must be an object with a role");
    }
    OrderedJson message = given;
    if (message.contains("content")) {
      message["content"] = ContentText(message["content"]);
      if (!message["content"].is_string() && !message["content"].is_null()) {
        throw UsageError("messages: content must be a string");
      }
    }
    ReadToolArguments(message);
    result.push_back(std::move(message));
  }
  return result;
}

// `object` is the line itself or the body of a batch line.
class PromptReader {
 public:
  PromptReader(const OrderedJson& object, const LineContext& context,
               PromptLine& line)
      : object_(object), context_(context), line_(line) {}

  void ReadChat() {
    const bool with_tools = IsSet(object_, "tools");
    const ChatTemplate* chat_template =
        with_tools ? context_.tool_template : context_.chat_template;
    if (chat_template == nullptr) {
      throw UsageError(
          "messages need a chat template, and the model has none; name one "
          "with --chat-template");
    }
    const Tokenizer& tokenizer = *context_.tokenizer;
    OrderedJson variables = OrderedJson::object();
    variables["messages"] = ReadMessages(object_["messages"]);
    variables["add_generation_prompt"] = true;
    variables["bos_token"] = tokenizer.bos_token();
    variables["eos_token"] = tokenizer.eos_token();
    for (const char* name : {"tools", "documents", "add_generation_prompt"}) {
      if (IsSet(object_, name)) variables[name] = object_[name];
    }
    if (IsSet(object_, "chat_template_kwargs")) {
      const OrderedJson& more = object_["chat_template_kwargs"];
      if (!more.is_object()) {
        throw UsageError("chat_template_kwargs must be an object");
      }
      for (const auto& [name, value] : more.items()) variables[name] = value;
    }
    const std::string text = chat_template->Render(variables);
    bool add_special = false;
    if (IsSet(object_, "add_special_tokens")) {
      add_special = Flag("add_special_tokens");
    }
    const OrderedJson& last = variables["messages"].back();
    // As an answer that goes on the last message, where there is one to go on.
    const bool continues = last["role"] == "assistant" &&
                           last.contains("content") &&
                           last["content"].is_string();
    Add(tokenizer.Encode(text, add_special),
        continues ? last["content"].get<std::string>() : "");
  }

  // `several`: whether a list may hold several prompts.
  void ReadPrompt(bool several) {
    const OrderedJson& prompt = object_["prompt"];
    const bool is_list = prompt.is_array() && !prompt.empty();
    if (prompt.is_string() || (is_list && prompt[0].is_number())) {
      AddPrompt(prompt);
    } else if (is_list && several) {
      for (const OrderedJson& one : prompt) AddPrompt(one);
    } else {
      throw UsageError("prompt must be a string or a list of token ids");
    }
  }

 private:
  bool Flag(const char* name) const {
    if (!object_[name].is_boolean()) {
      throw UsageError("{} must be true or false", name);
    }
    return object_[name].get<bool>();
  }

  void AddPrompt(const OrderedJson& prompt) {
    const Tokenizer& tokenizer = *context_.tokenizer;
    if (prompt.is_string()) {
      bool add_special = true;
      if (IsSet(object_, "add_special_tokens")) {
        add_special = Flag("add_special_tokens");
      }
      const std::string& text = prompt.get_ref<const std::string&>();
      Add(tokenizer.Encode(text, add_special), text);
      return;
    }
    if (!prompt.is_array()) {
      throw UsageError("prompt must be a string or a list of token ids");
    }
    std::vector<TokenId> ids;
    for (const OrderedJson& id : prompt) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
          id.get<int64_t>() > INT32_MAX) {
        throw UsageError("prompt: {} is not a token id", id.dump());
      }
      ids.push_back(id.get<TokenId>());
    }
    std::string text = line_.params.echo ? tokenizer.Decode(ids, true) : "";
    Add(std::move(ids), std::move(text));
  }

  void Add(std::vector<TokenId> ids, std::string text) {
    if (line_.params.truncate_prompt_tokens) {
      const int asked = *line_.params.truncate_prompt_tokens;
      if (asked > context_.max_model_len) {
        throw UsageError(
            "truncate_prompt_tokens must be at most max_model_len {}, got {}",
            context_.max_model_len, asked);
      }
      // One place is left for an answer.
      const size_t kept = std::min(asked < 0 ? context_.max_model_len : asked,
                                   context_.max_model_len - 1);
      if (ids.size() > kept) ids.erase(ids.begin(), ids.end() - kept);
    }
    line_.prompts.push_back(std::move(ids));
    line_.echoes.push_back(line_.params.echo ? std::move(text) : "");
  }

  const OrderedJson& object_;
  const LineContext& context_;
  PromptLine& line_;
};

void ReadPlain(const OrderedJson& object, const LineContext& context,
               PromptLine& line) {
  line.params = context.plain_defaults;
  std::string clash;
  std::optional<std::string> problem;
  for (const auto& [name, value] : object.items()) {
    if (IsOneOf(name, {"prompt", "messages", "tools", "documents",
                       "chat_template_kwargs", "add_generation_prompt",
                       "add_special_tokens"})) {
      continue;
    }
    try {
      if (SetGuideParameter(line.params.sampling, name, value)) continue;
      if (SetParameter(line.params, name, Json(value))) continue;
    } catch (const Error& error) {
      // Remembered until the fields that go back have been seen.
      if (!problem) problem = error.what();
      continue;
    }
    if (std::find(kAnswerFields.begin(), kAnswerFields.end(), name) !=
        kAnswerFields.end()) {
      clash = name;
      continue;
    }
    line.carried[name] = value;
  }
  if (problem) throw UsageError("{}", *problem);
  if (!clash.empty()) {
    throw UsageError(
        "'{}' is a field of the answer: give the line's another "
        "name",
        clash);
  }
  const bool prompt = IsSet(object, "prompt");
  if (prompt && IsSet(object, "messages")) {
    throw UsageError("both prompt and messages; one of them is wanted");
  }
  PromptReader reader(object, context, line);
  if (prompt) return reader.ReadPrompt(false);
  if (IsSet(object, "messages")) return reader.ReadChat();
  throw UsageError("no prompt: the line has neither prompt nor messages");
}

// Parameters of the OpenAI API that are for its service, and change no answer.
bool IsServiceField(std::string_view name) {
  return IsOneOf(
      name, {"user", "metadata", "store", "service_tier", "stream_options",
             "safety_identifier", "prompt_cache_key", "parallel_tool_calls",
             "request_id", "priority"});
}

[[noreturn]] void Refuse(const std::string& name, const OrderedJson& value) {
  throw UsageError(
      "{} is not supported with the value {}", name,
      value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace)
          .substr(0, 60));
}

// One field of a body; false when nobody knows it.
bool ReadBodyField(const std::string& name, const OrderedJson& value, bool chat,
                   PromptLine& line) {
  if (name == "model") {
    if (!value.is_string()) throw UsageError("model must be a string");
    line.model = value.get<std::string>();
    return true;
  }
  if (IsServiceField(name)) return true;
  if (IsOneOf(name, {"add_special_tokens"})) return true;
  if (name == "stream") {
    if (value != false) Refuse(name, value);
    return true;
  }
  if (name == "best_of") {
    // Checked against n when all fields are read.
    return !chat;
  }
  if (SetGuideParameter(line.params.sampling, name, value)) return true;
  if (chat) {
    if (IsOneOf(name, {"messages", "tools", "documents", "chat_template_kwargs",
                       "add_generation_prompt", "logprobs", "top_logprobs"})) {
      return true;
    }
    if (name == "tool_choice") {
      if (value != "none" && value != "auto") Refuse(name, value);
      return true;
    }
    if (name == "max_completion_tokens") {
      return SetParameter(line.params, "max_tokens", Json(value));
    }
  } else {
    if (name == "prompt") return true;
    if (name == "suffix") Refuse(name, value);
  }
  return SetParameter(line.params, name, Json(value));
}

void ReadBody(const OrderedJson& body, const LineContext& context,
              PromptLine& line) {
  const bool chat = line.form == LineForm::kChatCompletions;
  line.params = chat ? context.chat_defaults : context.completions_defaults;
  for (const auto& [name, value] : body.items()) {
    if (value.is_null()) continue;
    if (!ReadBodyField(name, value, chat, line)) {
      throw UsageError("{} is not a parameter that is supported", name);
    }
  }
  SamplingParams& sampling = line.params.sampling;
  if (IsSet(body, "best_of") && body["best_of"] != sampling.n) {
    Refuse("best_of", body["best_of"]);
  }
  if (chat) {
    // Here logprobs is a switch, and top_logprobs the number.
    const OrderedJson off = false;
    const OrderedJson& wanted =
        IsSet(body, "logprobs") ? body["logprobs"] : off;
    if (!wanted.is_boolean()) {
      throw UsageError("logprobs must be true or false");
    }
    const OrderedJson zero = 0;
    const OrderedJson& top =
        IsSet(body, "top_logprobs") ? body["top_logprobs"] : zero;
    if (!top.is_number_integer() || top.get<int64_t>() < 0 ||
        top.get<int64_t>() > 1000) {
      throw UsageError("top_logprobs must be an integer from 0 to 1000");
    }
    if (top != 0 && wanted == false) {
      throw UsageError("top_logprobs needs logprobs to be true");
    }
    if (wanted == true) sampling.logprobs = top.get<int>();
  }
  PromptReader reader(body, context, line);
  const char* const field = chat ? "messages" : "prompt";
  if (!IsSet(body, field)) throw UsageError("the body has no {}", field);
  if (chat) {
    reader.ReadChat();
  } else {
    reader.ReadPrompt(true);
  }
}

void ReadBatch(const OrderedJson& object, const LineContext& context,
               PromptLine& line) {
  line.form = LineForm::kChatCompletions;
  if (!IsSet(object, "custom_id") || !object["custom_id"].is_string()) {
    throw UsageError("custom_id must be a string");
  }
  line.custom_id = object["custom_id"].get<std::string>();
  if (!object.contains("method") || object["method"] != "POST") {
    throw UsageError("method must be \"POST\"");
  }
  if (!IsSet(object, "url") || !object["url"].is_string()) {
    throw UsageError("url must be a string");
  }
  const std::string& url = object["url"].get_ref<const std::string&>();
  if (url == "/v1/completions") {
    line.form = LineForm::kCompletions;
  } else if (url != "/v1/chat/completions") {
    throw UsageError(
        "url must be /v1/chat/completions or /v1/completions, got {}",
        url.substr(0, 60));
  }
  if (!IsSet(object, "body") || !object["body"].is_object()) {
    throw UsageError("body must be an object");
  }
  ReadBody(object["body"], context, line);
}

}  // namespace

PromptLine BadPromptLine(int64_t index, int64_t number, std::string message) {
  PromptLine line;
  line.index = index;
  line.number = number;
  line.error = fmt::format("line {}: {}", number, message);
  return line;
}

PromptLine ParsePromptLine(std::string_view text, int64_t index, int64_t number,
                           const LineContext& context) {
  PromptLine line;
  line.index = index;
  line.number = number;
  const std::string key = fmt::format("{}", index);
  line.seed = Hash64(key, context.seed);
  try {
    const OrderedJson object = ParseOrderedJson(text, "", ErrorKind::kUsage);
    if (!object.is_object()) {
      throw UsageError("a JSON object is wanted, this is {} {}",
                       object.is_array() ? "an" : "a", object.type_name());
    }
    if (object.contains("url") || object.contains("body")) {
      ReadBatch(object, context, line);
    } else {
      ReadPlain(object, context, line);
    }
  } catch (const Error& error) {
    std::string_view message = error.what();
    // The parser counts lines inside the text it gets, which is one.
    if (message.starts_with(":1:")) {
      message.remove_prefix(3);
      line.error = fmt::format("line {}, column {}", number, message);
    } else {
      if (message.starts_with(": ")) message.remove_prefix(2);
      line.error = fmt::format("line {}: {}", number, message);
    }
  }
  return line;
}

}  // namespace rbln
