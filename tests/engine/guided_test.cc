// Guides in the engine: whatever else is asked for, texts match, and do not
// depend on what runs beside them.
#include <doctest/doctest.h>

#include <map>

#include "engine/engine.h"
#include "engine/fake_executor.h"
#include "guide/accepts.h"
#include "test_util.h"

namespace rbln {
namespace {

constexpr int kVocab = 1536;
constexpr TokenId kEos = 3;

constexpr char kSchema[] = R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 12},
    "kind": {"enum": ["cat", "dog", "fish"]},
    "age": {"type": "integer", "minimum": 1, "maximum": 30}},
    "required": ["name", "kind"]})";

const Tokenizer& TinyTokenizer() {
  static const auto tokenizer =
      Tokenizer::Load(RBLN_EXAMPLES "/tiny-chat", ErrorKind::kModel);
  return *tokenizer;
}

Request Guided(int64_t id, GuideSpec spec, int max_tokens = 60) {
  Request request;
  request.id = id;
  request.seed = 100 + id;
  for (int i = 0; i < 5 + id % 7; ++i) {
    request.prompt.push_back(
        static_cast<TokenId>(4 + (id * 31 + i * 7) % 1000));
  }
  request.params.temperature = 1;
  request.params.max_tokens = max_tokens;
  request.params.guide = std::move(spec);
  return request;
}

struct Outcome {
  std::map<int64_t, Finished> finished;
  int64_t preemptions = 0;
};

Outcome Run(const std::vector<Request>& requests, int num_blocks = 200,
            std::vector<int> decoders = {4, 2, 1},
            std::vector<TokenId> eos = {kEos}) {
  FakeExecutor executor(
      FakeExecutor::MakeManifest(std::move(decoders), 16, 256, 64, kVocab),
      num_blocks);
  executor.eos = kEos;
  EngineOptions options;
  options.eos_token_ids = std::move(eos);
  Engine engine(executor, TinyTokenizer(), options);
  for (const Request& request : requests) engine.Add(request);
  std::vector<Finished> finished;
  while (engine.Step(finished)) {
  }
  CHECK(engine.blocks().num_free() == num_blocks);
  Outcome outcome;
  for (Finished& one : finished) {
    const int64_t id = one.id;
    outcome.finished.emplace(id, std::move(one));
  }
  outcome.preemptions = engine.stats().preemptions;
  return outcome;
}

Completion RunOne(const Request& request, std::vector<TokenId> eos = {kEos}) {
  Finished finished = Run({request}, 200, {1}, std::move(eos)).finished.at(0);
  CHECK(finished.error == "");
  return finished.completions.at(0);
}

std::string ErrorOf(const Request& request) {
  return Run({request}).finished.at(0).error;
}

TEST_CASE(
    "guided texts match, beside others, preempted or not, as they would "
    "alone") {
  const std::vector<GuideSpec> specs = {
      SchemaSpec(kSchema), RegexSpec("[a-z ]{3,20}[.!]"),
      ChoiceSpec(R"(["yes", "no", "perhaps"])"),
      SchemaSpec(R"({"type": "array", "items": {"type": "boolean"},
                     "minItems": 2, "maxItems": 5})")};
  std::vector<Request> requests;
  for (int i = 0; i < 40; ++i) {
    Request request = Guided(i, specs[i % specs.size()]);
    SamplingParams& params = request.params;
    if (i % 5 == 0) params.guide.reset();
    if (i % 3 == 0) {
      params.temperature = 0;
    } else if (i % 4 == 0) {
      params.n = 3;
    }
    if (i % 6 == 1) params.logprobs = 2;
    if (i % 7 == 1) params.min_tokens = 10;
    if (i % 8 == 1) params.repetition_penalty = 1.3;
    if (i % 9 == 1) params.logit_bias = {{500, 50.0f}, {kEos, 20.0f}};
    if (i % 10 == 2) params.bad_words = {"a"};
    if (i % 11 == 1) params.top_k = 5;
    requests.push_back(std::move(request));
  }
  const Outcome alone = Run(requests, 200, {1});
  int matched = 0;
  for (const Request& request : requests) {
    const Finished& finished = alone.finished.at(request.id);
    CAPTURE(request.id);
    CHECK(finished.error == "");
    if (!request.params.guide) continue;
    Acceptor accepts(*request.params.guide);
    for (const Completion& completion : finished.completions) {
      CAPTURE(completion.text);
      if (completion.finish_reason == "stop") {
        CHECK(accepts(completion.text));
        CHECK(completion.tokens.back() == kEos);
        ++matched;
      } else {
        CHECK(completion.finish_reason == "length");
        CHECK(accepts.Begins(completion.text));
      }
      if (request.params.logprobs) {
        CHECK(completion.logprobs.size() == completion.tokens.size());
      }
    }
  }
  CHECK(matched > 30);
  int64_t preemptions = 0;
  for (const int blocks : {200, 14}) {
    const Outcome together = Run(requests, blocks, {8, 4, 1});
    preemptions += together.preemptions;
    for (const auto& [id, one] : alone.finished) {
      CAPTURE(id);
      const Finished& other = together.finished.at(id);
      REQUIRE(one.completions.size() == other.completions.size());
      for (size_t i = 0; i < one.completions.size(); ++i) {
        CHECK(one.completions[i].tokens == other.completions[i].tokens);
        CHECK(one.completions[i].text == other.completions[i].text);
      }
    }
  }
  CHECK(preemptions > 0);
}

TEST_CASE("the end is forced where nothing may follow, and kept away before") {
  const Completion choice = RunOne(Guided(0, ChoiceSpec(R"(["dog"])")));
  CHECK(choice.text == "dog");
  CHECK(choice.finish_reason == "stop");
  CHECK(choice.tokens.back() == kEos);

  SUBCASE("though min_tokens are not there yet") {
    Request request = Guided(0, ChoiceSpec(R"(["dog"])"));
    request.params.min_tokens = 50;
    const Completion completion = RunOne(request);
    CHECK(completion.tokens == choice.tokens);
    CHECK(completion.finish_reason == "stop");
  }
  SUBCASE("though EOS is ignored, or there is none") {
    Request request = Guided(0, ChoiceSpec(R"(["dog"])"));
    request.params.ignore_eos = true;
    for (const Completion& completion :
         {RunOne(request), RunOne(Guided(0, ChoiceSpec(R"(["dog"])")), {})}) {
      CHECK(completion.text == "dog");
      CHECK(completion.finish_reason == "stop");
      CHECK(completion.tokens.back() != kEos);
    }
  }
  SUBCASE("by a stop token, which is no text") {
    // "}" would be allowed as text.
    Request request = Guided(0, RegexSpec("\\{a[b}]"));
    request.params.ignore_eos = true;
    const TokenId brace = *TinyTokenizer().Find("}");
    request.params.stop_token_ids = {brace};
    const Completion completion = RunOne(request);
    CHECK(completion.text == "{ab");
    CHECK(std::get<TokenId>(completion.stop_reason) == brace);
  }
  SUBCASE("where the text is empty") {
    const Completion completion = RunOne(Guided(0, RegexSpec("")));
    CHECK(completion.text == "");
    CHECK(completion.tokens == std::vector<TokenId>{kEos});
    CHECK(RunOne(Guided(0, RegexSpec("")), {}).tokens.empty());
  }
}

TEST_CASE("a stop string ends a guided text early, max_tokens too") {
  Request request = Guided(0, ChoiceSpec(R"(["a long answer"])"));
  request.params.stop = {"long"};
  Completion completion = RunOne(request);
  CHECK(completion.text == "a ");
  CHECK(std::get<std::string>(completion.stop_reason) == "long");
  request.params.stop.clear();
  request.params.max_tokens = 2;
  completion = RunOne(request);
  CHECK(completion.finish_reason == "length");
  CHECK(std::string_view("a long answer").starts_with(completion.text));
}

TEST_CASE("log probabilities are those of the logits as they were") {
  Request request = Guided(0, ChoiceSpec(R"(["dog"])"));
  request.params.logprobs = 1;
  const Completion completion = RunOne(request);
  REQUIRE(completion.logprobs.size() == completion.tokens.size());
  for (const PositionLogprobs& one : completion.logprobs) {
    CHECK(one.chosen.logprob <= one.top.at(0).logprob);
    CHECK(one.chosen.logprob < 0);
  }
}

TEST_CASE("what cannot be spelled is an error of its request, not of others") {
  Request request = Guided(0, ChoiceSpec(R"(["dog"])"));
  request.params.bad_words = {"d", "do", "dog"};
  CHECK(ErrorOf(request) ==
        "guided_choice: no token of the vocabulary that the other parameters "
        "allow goes on as it must (after 0 tokens, behind '')");
  request.params.guide = RegexSpec("[ad]o*");
  request.params.bad_words = {"a", "d", "do", "ad"};
  request.params.n = 2;
  const Outcome outcome = Run({request, Guided(1, SchemaSpec(kSchema))});
  CHECK(outcome.finished.at(0).error.find("guided_regex") == 0);
  CHECK(outcome.finished.at(1).error.empty());
}

TEST_CASE("a guide that cannot be followed is refused before it runs") {
  FakeExecutor executor(FakeExecutor::MakeManifest({1}, 16, 256, 64, kVocab),
                        20);
  Engine engine(executor, TinyTokenizer(), {});
  Request request = Guided(0, RegexSpec("a(?=b)"));
  try {
    engine.Check(request);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    CHECK(std::string(error.what()) ==
          "guided_regex: look-around is not supported, at character 2 of the "
          "pattern");
  }
  CHECK_THROWS_AS(engine.Add(request), Error);
  CHECK(engine.num_waiting() == 0);
}

}  // namespace
}  // namespace rbln
