#include "job/prompt_line.h"

#include <doctest/doctest.h>

namespace rbln {
namespace {

struct Fixture {
  Fixture() {
    tokenizer = Tokenizer::Load(RBLN_EXAMPLES "/tiny-chat", ErrorKind::kModel);
    chat_template = ChatTemplate::Load(RBLN_EXAMPLES "/tiny-chat", false,
                                       ErrorKind::kModel);
    context.tokenizer = tokenizer.get();
    context.chat_template = context.tool_template = chat_template.get();
    context.max_model_len = 100;
    context.plain_defaults.sampling.max_tokens = 256;
    context.chat_defaults.sampling.max_tokens.reset();
  }

  PromptLine Parse(std::string_view text) const {
    return ParsePromptLine(text, 4, 7, context);
  }
  std::string Problem(std::string_view text) const {
    return Parse(text).error.value_or("");
  }
  std::string Chat(const std::string& body) const {
    return R"({"custom_id": "a", "method": "POST",
               "url": "/v1/chat/completions", "body": )" +
           body + "}";
  }
  std::string Completions(const std::string& body) const {
    return R"({"custom_id": "a", "method": "POST",
               "url": "/v1/completions", "body": )" +
           body + "}";
  }
  std::string Decoded(const PromptLine& line) const {
    return tokenizer->Decode(line.prompts.at(0), false);
  }

  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<const ChatTemplate> chat_template;
  LineContext context;
};

constexpr char kHi[] = R"([{"role": "user", "content": "Hi"}])";
constexpr char kHiText[] =
    "<|begin_of_text|><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";

TEST_CASE_FIXTURE(Fixture, "a prompt, with parameters and fields of its own") {
  const PromptLine line = Parse(
      R"({"id": 5, "prompt": "Once", "temperature": 0.5, "label": {"b": 1,
          "a": 2}, "stop": "x", "echo": true})");
  REQUIRE_FALSE(line.error);
  CHECK(line.form == LineForm::kPlain);
  CHECK(Decoded(line) == "<|begin_of_text|>Once");
  CHECK(line.params.sampling.temperature == 0.5);
  CHECK(line.params.sampling.max_tokens == 256);
  CHECK(line.echoes[0] == "Once");
  CHECK(line.carried.dump() == R"({"id":5,"label":{"b":1,"a":2}})");
}

TEST_CASE_FIXTURE(Fixture, "a prompt of token ids is taken as it is") {
  const PromptLine line = Parse(R"({"prompt": [5, 6, 7]})");
  CHECK(line.prompts.at(0) == std::vector<TokenId>{5, 6, 7});
}

TEST_CASE_FIXTURE(Fixture, "messages go through the chat template") {
  CHECK(Decoded(Parse(R"({"messages": )" + std::string(kHi) + "}")) == kHiText);
  CHECK(Decoded(Parse(R"({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "Hi"}, {"type": "text", "text": "you"}]}],
            "add_generation_prompt": false})")) ==
        "<|begin_of_text|><|im_start|>user\nHi\nyou<|im_end|>\n");
}

TEST_CASE_FIXTURE(Fixture, "the seed differs by line and by the job's seed") {
  const PromptLine a = ParsePromptLine(R"({"prompt": "x"})", 0, 1, context);
  const PromptLine b = ParsePromptLine(R"({"prompt": "x"})", 1, 2, context);
  CHECK(a.seed != b.seed);
  context.seed = 1;
  CHECK(ParsePromptLine(R"({"prompt": "x"})", 0, 1, context).seed != a.seed);
}

TEST_CASE_FIXTURE(Fixture, "truncation keeps the end and room for an answer") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += " one";
  CHECK(Parse(R"({"prompt": ")" + text + R"(", "truncate_prompt_tokens": 5})")
            .prompts.at(0)
            .size() == 5);
  CHECK(Parse(R"({"prompt": ")" + text + R"(", "truncate_prompt_tokens": -1})")
            .prompts.at(0)
            .size() == 99);
  CHECK(Problem(R"({"prompt": "a", "truncate_prompt_tokens": 101})") ==
        "line 7: truncate_prompt_tokens must be at most max_model_len 100, got "
        "101");
}

TEST_CASE_FIXTURE(Fixture, "bad lines are errors that say what and where") {
  struct Case {
    const char* line;
    const char* message;
  };
  for (const Case& one : {
           Case{"{\"prompt\": }",
                "line 7, column 12: not JSON: syntax error while parsing value "
                "- unexpected '}'; expected '[', '{', or a literal"},
           Case{"[1]", "line 7: a JSON object is wanted, this is an array"},
           Case{"3", "line 7: a JSON object is wanted, this is a number"},
           Case{"{}",
                "line 7: no prompt: the line has neither prompt nor messages"},
           Case{R"({"prompt": null})",
                "line 7: no prompt: the line has neither prompt nor messages"},
           Case{R"({"prompt": "a", "messages": []})",
                "line 7: both prompt and messages; one of them is wanted"},
           Case{R"({"prompt": 5})",
                "line 7: prompt must be a string or a list of token ids"},
           Case{R"({"prompt": ["a", "b"]})",
                "line 7: prompt must be a string or a list of token ids"},
           Case{R"({"prompt": [1, -1]})",
                "line 7: prompt: -1 is not a token id"},
           Case{R"({"prompt": [1, "a"]})",
                "line 7: prompt: \"a\" is not a token id"},
           Case{R"({"prompt": "a", "text": "b"})",
                "line 7: 'text' is a field of the answer: give the line's "
                "another name"},
           Case{R"({"prompt": "a", "top_p": "b"})",
                "line 7: top_p must be a number, got \"b\""},
           Case{R"({"messages": []})",
                "line 7: messages must be a list of at least one message"},
           Case{R"({"messages": ["a"]})",
                "line 7: messages: each must be an object with a role"},
           Case{R"({"messages": [{"role": "user", "content": 3}]})",
                "line 7: messages: content must be a string"},
           Case{R"({"messages": [{"role": "user",
                    "content": [{"type": "image_url"}]}]})",
                "line 7: messages: content parts must be of type 'text'; "
                "'image_url' is not supported"},
           Case{R"({"body": {}})", "line 7: custom_id must be a string"},
           Case{R"({"custom_id": "a", "body": {}})",
                "line 7: method must be \"POST\""},
           Case{R"({"custom_id": "a", "method": "POST", "body": {}})",
                "line 7: url must be a string"},
           Case{R"({"custom_id": "a", "method": "POST", "url": "/v1/embeddings",
                    "body": {}})",
                "line 7: url must be /v1/chat/completions or /v1/completions, "
                "got /v1/embeddings"},
           Case{R"({"custom_id": "a", "method": "POST",
                    "url": "/v1/completions"})",
                "line 7: body must be an object"},
       }) {
    CAPTURE(one.line);
    CHECK(Problem(one.line) == one.message);
  }
  CHECK(Problem("{\"prompt\": \"\xff\"}").starts_with("line 7"));
  CHECK(Problem(std::string(100000, '[')).starts_with("line 7"));
  CHECK(
      Problem(R"({"messages": [{"role": "bird", "content": "x"}]})")
          .find("Tiny knows the roles system, user and assistant, not bird") !=
      std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "an error line keeps the fields that go back") {
  const PromptLine line =
      Parse(R"({"top_p": "x", "id": "q", "prompt": "a", "label": 1})");
  CHECK(line.error);
  CHECK(line.carried.dump() == R"({"id":"q","label":1})");
}

TEST_CASE_FIXTURE(Fixture, "OpenAI chat bodies") {
  const PromptLine line = Parse(
      Chat(R"({"model": "m", "messages": )" + std::string(kHi) +
           R"(, "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 3,
          "user": "u", "stream": false, "temperature": null, "top_k": 5})"));
  REQUIRE_FALSE(line.error);
  CHECK(line.form == LineForm::kChatCompletions);
  CHECK(line.custom_id == "a");
  CHECK(line.model == "m");
  CHECK(Decoded(line) == kHiText);
  CHECK(line.params.sampling.max_tokens == 9);
  CHECK(line.params.sampling.temperature == 1);
  CHECK(line.params.sampling.logprobs == 3);
  CHECK(line.params.sampling.top_k == 5);

  const std::string start = R"({"messages": )" + std::string(kHi);
  CHECK_FALSE(Parse(Chat(start + "}")).params.sampling.max_tokens);
  CHECK_FALSE(
      Parse(Chat(start + R"(, "logprobs": false})")).params.sampling.logprobs);
  struct Case {
    const char* more;
    const char* message;
  };
  for (const Case& one : {
           Case{R"("stream": true)",
                "line 7: stream is not supported with the value true"},
           Case{R"("tool_choice": "required")",
                "line 7: tool_choice is not supported with the value "
                "\"required\""},
           Case{R"("top_logprobs": 2)",
                "line 7: top_logprobs needs logprobs to be true"},
           Case{R"("logprobs": 2)", "line 7: logprobs must be true or false"},
           Case{R"("modalities": ["audio"])",
                "line 7: modalities is not a parameter that is supported"},
           Case{R"("model": 3)", "line 7: model must be a string"},
       }) {
    CHECK(Problem(Chat(start + ", " + one.more + "}")) == one.message);
  }
  CHECK(Problem(Chat("{}")) == "line 7: the body has no messages");
}

TEST_CASE_FIXTURE(Fixture, "OpenAI completion bodies") {
  const PromptLine one = Parse(Completions(R"({"prompt": "Once"})"));
  REQUIRE_FALSE(one.error);
  CHECK(one.form == LineForm::kCompletions);
  CHECK(one.params.sampling.max_tokens == 16);
  CHECK(one.prompts.size() == 1);
  CHECK(Parse(Completions(R"({"prompt": ["a", "b"]})")).prompts.size() == 2);
  CHECK(Parse(Completions(R"({"prompt": [1, 2]})")).prompts.size() == 1);
  CHECK(Parse(Completions(R"({"prompt": [[1, 2], [3]]})")).prompts.size() == 2);
  CHECK(Problem(Completions(R"({"prompt": "a", "suffix": "b"})")) ==
        "line 7: suffix is not supported with the value \"b\"");
  CHECK(Problem(Completions(R"({"prompt": "a", "best_of": 2})")) ==
        "line 7: best_of is not supported with the value 2");
  CHECK(Problem(Completions(R"({"messages": []})")) ==
        "line 7: messages is not a parameter that is supported");
}

TEST_CASE_FIXTURE(Fixture, "without a template, messages are an error") {
  context.chat_template = nullptr;
  CHECK(Problem(R"({"messages": )" + std::string(kHi) + "}") ==
        "line 7: messages need a chat template, and the model has none; name "
        "one with --chat-template");
}

}  // namespace
}  // namespace rbln
