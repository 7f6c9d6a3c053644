#include "job/job.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "engine/fake_executor.h"
#include "test_util.h"

namespace rbln {
namespace {

constexpr char kModel[] = RBLN_EXAMPLES "/tiny-chat";

struct Outcome {
  JobResult result;
  std::string text;
  std::vector<OrderedJson> lines;
};

struct JobSetup {
  std::vector<int> decoders = {4, 1};
  JobOptions options;
  Json sampling = Json::object();  // of the manifest
};

Outcome RunJob(const std::string& input, JobSetup setup = {}) {
  TempDir dir;
  WriteTestFile(dir / "in", input);
  Manifest manifest =
      FakeExecutor::MakeManifest(setup.decoders, 16, 256, 64, 1536);
  manifest.sampling = setup.sampling;
  FakeExecutor executor(manifest, 64);
  executor.eos = 3;
  Job job(executor, kModel, setup.options);
  LineReader reader(dir / "in", 10000);
  FileOutput output(dir / "out", {}, /*resume=*/false, /*keep_journal=*/false);
  Outcome outcome;
  outcome.result = job.Run(reader, output);
  if (std::filesystem::exists(dir / "out")) {
    outcome.text = ReadTestFile(dir / "out");
  }
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);) {
    outcome.lines.push_back(OrderedJson::parse(line));
  }
  return outcome;
}

TEST_CASE("lines in, answers out, in order, with what the line carried") {
  const Outcome outcome = RunJob(
      "{\"prompt\": \"Once upon a time\", \"max_tokens\": 30}\n"
      "\n"
      "{\"id\": \"b\", \"prompt\": \"Hi\", \"max_tokens\": 1, \"label\": 3}\n"
      "{\"custom_id\": \"c\", \"messages\": [{\"role\": \"user\", \"content\": "
      "\"Hi\"}], \"max_tokens\": 2, \"ignore_eos\": true}");
  CHECK(outcome.result.prompts == 3);
  CHECK(outcome.result.errors == 0);
  CHECK(outcome.result.exit_code() == 0);
  REQUIRE(outcome.lines.size() == 3);
  CHECK(outcome.lines[0]["index"] == 0);
  CHECK(outcome.lines[0]["usage"]["prompt_tokens"].get<int>() > 1);
  std::vector<std::string> keys;
  for (const auto& [key, value] : outcome.lines[1].items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"index", "id", "text", "finish_reason",
                                         "usage", "label"});
  CHECK(outcome.lines[1]["index"] == 1);
  CHECK(outcome.lines[1]["finish_reason"] == "length");
  CHECK(outcome.lines[1]["usage"].dump() ==
        R"({"prompt_tokens":2,"completion_tokens":1})");
  CHECK(outcome.lines[2]["custom_id"] == "c");
  CHECK(outcome.lines[2]["usage"]["completion_tokens"] == 2);
}

TEST_CASE("a bad line is answered with its error, and the rest goes on") {
  const Outcome outcome = RunJob(
      "{\"prompt\": \"a\", \"max_tokens\": 2}\n"
      "not JSON\n"
      "{\"prompt\": \"a\", \"id\": 7, \"temperature\": 3}\n"
      "{\"prompt\": \"" +
      std::string(20000, 'x') +
      "\"}\n"
      "{\"prompt\": \"" +
      std::string(5000, 'x') +
      "\"}\n"
      "{\"prompt\": \"\xff\"}\n"
      "{\"custom_id\": \"q\", \"method\": \"POST\", \"url\": "
      "\"/v1/completions\", \"body\": {\"prompt\": \"a\", \"n\": 0}}\n"
      "{\"prompt\": \"a\", \"max_tokens\": 2}\n");
  CHECK(outcome.result.prompts == 8);
  CHECK(outcome.result.errors == 6);
  CHECK(outcome.result.exit_code() == 1);
  REQUIRE(outcome.lines.size() == 8);
  const auto error = [&](int i) {
    return outcome.lines[i]["error"].get<std::string>();
  };
  CHECK(outcome.lines[0].contains("text"));
  CHECK(outcome.lines[1]["index"] == 1);
  CHECK(error(1).starts_with("line 2, column 2: not JSON: "));
  CHECK(outcome.lines[2].dump() ==
        R"({"index":2,"id":7,"error":"line 3: temperature must be in [0, 2], )"
        R"(got 3"})");
  CHECK(error(3) == "line 4: longer than 10000 bytes");
  CHECK(error(4).starts_with("line 5: the prompt is too long: "));
  CHECK(error(5).starts_with("line 6"));
  CHECK(outcome.lines[6].dump() ==
        R"({"id":"rbln-6","custom_id":"q","response":{"status_code":400,)"
        R"("request_id":"rbln-batch-6","body":null},"error":{"error":)"
        R"({"message":"line 7: n must be at least 1, got 0",)"
        R"("type":"BadRequestError","param":null,"code":400}}})");
  // The same prompt has the same answer, whatever stood between.
  CHECK(outcome.lines[0]["text"] == outcome.lines[7]["text"]);
}

std::string ManyLines() {
  std::string input;
  for (int i = 0; i < 60; ++i) {
    input += fmt::format(
        "{{\"prompt\": \"Story {} of {}\", \"max_tokens\": {}, "
        "\"temperature\": {}}}\n",
        i * i, i % 7, 1 + i * 13 % 40, i % 3);
  }
  return input;
}

TEST_CASE("a rerun, other decoders and no prefix cache give the same bytes") {
  const std::string input = ManyLines();
  const Outcome first = RunJob(input);
  CHECK(first.result.prompts == 60);
  CHECK(RunJob(input).text == first.text);
  JobSetup other;
  other.decoders = {8, 3};
  other.options.engine.prefix_caching = false;
  CHECK(RunJob(input, other).text == first.text);
  JobSetup seeded;
  seeded.options.seed = 1;
  CHECK(RunJob(input, seeded).text != first.text);
}

TEST_CASE(
    "defaults: the line over flags over rbln.yaml over "
    "generation_config.json") {
  const std::string input =
      "{\"prompt\": \"a\", \"ignore_eos\": true}\n"
      "{\"prompt\": \"a\", \"ignore_eos\": true, \"max_tokens\": 2}\n"
      "{\"custom_id\": \"q\", \"method\": \"POST\", \"url\": "
      "\"/v1/completions\", \"body\": {\"prompt\": \"a\", \"ignore_eos\": "
      "true}}\n";
  const auto lengths = [&](JobSetup setup) {
    const Outcome outcome = RunJob(input, std::move(setup));
    return std::vector<int>{
        outcome.lines[0]["usage"]["completion_tokens"],
        outcome.lines[1]["usage"]["completion_tokens"],
        outcome.lines[2]["response"]["body"]["usage"]["completion_tokens"]};
  };
  // The context ends the first: 256 tokens, two of them the prompt's.
  CHECK(lengths({}) == std::vector<int>{254, 2, 16});
  JobSetup yaml;
  yaml.sampling = {{"max_tokens", 5}};
  CHECK(lengths(yaml) == std::vector<int>{5, 2, 16});
  yaml.options.parameters = {{"max_tokens", 7}};
  CHECK(lengths(yaml) == std::vector<int>{7, 2, 7});
}

TEST_CASE("a flag that no line could run with is said at once") {
  JobSetup setup;
  setup.options.parameters = {{"top_p", 2}};
  CHECK_THROWS_WITH(RunJob("", setup), "top_p must be in (0, 1], got 2");
}

TEST_CASE("several answers, log probabilities and echo") {
  const Outcome outcome = RunJob(
      "{\"prompt\": \"Hi\", \"n\": 2, \"temperature\": 1, \"max_tokens\": 3}\n"
      "{\"prompt\": \"Hi\", \"logprobs\": 1, \"prompt_logprobs\": 0, "
      "\"max_tokens\": 2, \"echo\": true, \"ignore_eos\": true}\n");
  const OrderedJson& several = outcome.lines[0];
  REQUIRE(several["choices"].size() == 2);
  CHECK(several["choices"][1]["index"] == 1);
  CHECK(several["choices"][1].contains("text"));
  const OrderedJson& one = outcome.lines[1];
  CHECK(one["text"].get<std::string>().starts_with("Hi"));
  REQUIRE(one["logprobs"].size() == 2);
  CHECK(one["logprobs"][0]["rank"] == 1);
  CHECK(one["logprobs"][0]["top"][0] ==
        OrderedJson({{"token", one["logprobs"][0]["token"]},
                     {"id", one["logprobs"][0]["id"]},
                     {"logprob", one["logprobs"][0]["logprob"]},
                     {"rank", 1}}));
  REQUIRE(one["prompt_logprobs"].size() == 2);
  CHECK(one["prompt_logprobs"][0].is_null());
  CHECK(one["prompt_logprobs"][1]["token"] == "Hi");
}

TEST_CASE("OpenAI chat answers") {
  const Outcome outcome = RunJob(
      "{\"custom_id\": \"a-1\", \"method\": \"POST\", \"url\": "
      "\"/v1/chat/completions\", \"body\": {\"model\": \"m\", \"messages\": "
      "[{\"role\": \"user\", \"content\": \"Hi\"}], \"temperature\": 0, "
      "\"max_tokens\": 2, \"logprobs\": true, \"top_logprobs\": 1, "
      "\"ignore_eos\": true}}\n");
  REQUIRE(outcome.lines.size() == 1);
  const OrderedJson& line = outcome.lines[0];
  CHECK(line["id"] == "rbln-0");
  CHECK(line["custom_id"] == "a-1");
  CHECK(line["error"].is_null());
  CHECK(line["response"]["status_code"] == 200);
  const OrderedJson& body = line["response"]["body"];
  CHECK(body["id"] == "chatcmpl-0");
  CHECK(body["object"] == "chat.completion");
  CHECK(body["model"] == "m");
  REQUIRE(body["choices"].size() == 1);
  const OrderedJson& choice = body["choices"][0];
  CHECK(choice["index"] == 0);
  CHECK(choice["message"]["role"] == "assistant");
  CHECK(choice["message"]["content"].is_string());
  CHECK(choice["finish_reason"] == "length");
  REQUIRE(choice["logprobs"]["content"].size() == 2);
  CHECK(choice["logprobs"]["content"][0]["top_logprobs"].size() == 1);
  CHECK(choice["logprobs"]["content"][0]["bytes"].is_array());
  CHECK(body["usage"]["completion_tokens"] == 2);
  CHECK(body["usage"]["total_tokens"].get<int>() ==
        body["usage"]["prompt_tokens"].get<int>() + 2);
}

TEST_CASE("OpenAI completions of several prompts, several answers each") {
  const Outcome outcome = RunJob(
      "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": "
      "\"/v1/completions\", \"body\": {\"prompt\": [\"x\", \"y\"], \"n\": 2, "
      "\"max_tokens\": 3, \"logprobs\": 1}}\n");
  const OrderedJson& body = outcome.lines[0]["response"]["body"];
  CHECK(body["object"] == "text_completion");
  REQUIRE(body["choices"].size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(body["choices"][i]["index"] == i);
    CHECK(body["choices"][i]["text"].is_string());
    CHECK(body["choices"][i]["logprobs"]["tokens"].size() > 0);
  }
  CHECK(body["choices"][0]["text"] != body["choices"][2]["text"]);
}

TEST_CASE("structured answers, in every form of a line") {
  const std::string schema =
      R"({"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]},
          "size": {"type": "integer", "minimum": 1, "maximum": 9}},
          "required": ["city", "size"]})";
  std::string line = schema;
  std::erase(line, '\n');
  const std::string chat =
      R"({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions",
          "body": {"messages": [{"role": "user", "content": "Hi"}], )";
  std::string input;
  for (const std::string& one : std::vector<std::string>{
           chat + R"("response_format": {"type": "json_schema", "json_schema":
                  {"name": "c", "schema": )" +
               line + "}}}}",
           R"({"prompt": "a", "guided_json": )" + line + "}",
           R"({"prompt": "a", "structured_outputs": {"choice": ["x", "yz"]},
            "temperature": 1, "n": 4})",
           R"({"prompt": "a", "guided_regex": "[0-9]{3}", "label": 1})",
           R"({"prompt": "a", "guided_regex": "(", "label": 1})",
           chat + R"("response_format": {"type": "json_schema", "json_schema":
                  {"name": "c", "schema": {"not": {}}}}}})",
           R"({"prompt": "a", "guided_grammar": "x"})",
           R"({"prompt": "a", "guided_choice": ["dog"],
            "bad_words": ["d", "do", "dog"]})",
           chat +
               R"("response_format": {"type": "text"}, "max_tokens": 3}})"}) {
    std::string text = one;
    std::erase(text, '\n');
    input += text + "\n";
  }
  const Outcome outcome = RunJob(input);
  REQUIRE(outcome.lines.size() == 9);
  CHECK(outcome.result.errors == 4);
  for (const std::string& text :
       {outcome.lines[0]["response"]["body"]["choices"][0]["message"]["content"]
            .get<std::string>(),
        outcome.lines[1]["text"].get<std::string>()}) {
    CAPTURE(text);
    const Json answer = Json::parse(text);
    CHECK((answer["city"] == "Paris" || answer["city"] == "Rome"));
    CHECK(answer["size"].get<int>() >= 1);
    CHECK(answer["size"].get<int>() <= 9);
  }
  for (const OrderedJson& choice : outcome.lines[2]["choices"]) {
    CHECK((choice["text"] == "x" || choice["text"] == "yz"));
    CHECK(choice["finish_reason"] == "stop");
  }
  CHECK(outcome.lines[3]["text"].get<std::string>().size() == 3);
  CHECK_FALSE(outcome.lines[3].contains("guided_regex"));
  CHECK(outcome.lines[4].dump() ==
        R"({"index":4,"error":"line 5: guided_regex: a ( without its ), at )"
        R"(character 2 of the pattern","label":1})");
  CHECK(outcome.lines[5]["error"]["error"]["message"] ==
        "line 6: response_format: #: the keyword \"not\" is not supported");
  CHECK(outcome.lines[6]["error"] ==
        "line 7: guided_grammar is not supported; guided_json, guided_regex "
        "and guided_choice are");
  CHECK(outcome.lines[7]["error"] ==
        "line 8: guided_choice: no token of the vocabulary that the other "
        "parameters allow goes on as it must (after 0 tokens, behind '')");
  CHECK(outcome.lines[8]["error"].is_null());
  // The same bytes, whatever is decoded together.
  JobSetup other;
  other.decoders = {8, 3};
  CHECK(RunJob(input, other).text == outcome.text);
}

TEST_CASE("a signal ends the job after a step, and leaves no output file") {
  JobSetup setup;
  int asked = 0;
  setup.options.interrupted = [&] { return ++asked > 5 ? SIGINT : 0; };
  const Outcome outcome = RunJob(ManyLines(), setup);
  CHECK(outcome.result.exit_code() == 130);
  CHECK(outcome.text.empty());
}

TEST_CASE("an empty input gives an empty output") {
  const Outcome outcome = RunJob("\n\n");
  CHECK(outcome.result.prompts == 0);
  CHECK(outcome.result.exit_code() == 0);
  CHECK(outcome.text.empty());
}

TEST_CASE("the limits of the engine are checked before anything runs") {
  JobSetup setup;
  setup.options.engine.max_num_seqs = 9;
  CHECK_THROWS_WITH(
      RunJob("", setup),
      "--max-num-seqs 9 is more than the model was compiled for: batch_size 4");
}

}  // namespace
}  // namespace rbln
