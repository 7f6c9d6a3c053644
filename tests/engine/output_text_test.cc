#include "engine/output_text.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace rbln {
namespace {

const Tokenizer& TinyTokenizer() {
  static const auto tokenizer =
      Tokenizer::Load(RBLN_EXAMPLES "/tiny-chat", ErrorKind::kModel);
  return *tokenizer;
}

struct Outcome {
  std::string text;
  std::optional<std::string> stop;
};

// Pushes the tokens of each piece in turn, so that borders lie where the test
// wants them.
Outcome Feed(const std::vector<std::string>& pieces,
             const SamplingParams& params) {
  const Tokenizer& tokenizer = TinyTokenizer();
  OutputText output(tokenizer, params, {});
  for (const std::string& piece : pieces) {
    for (const TokenId id : tokenizer.Encode(piece, false)) {
      if (auto stop = output.Push(id)) return {output.text(), stop};
    }
  }
  output.Finish();
  return {output.text(), std::nullopt};
}

TEST_CASE("text without a stop string is the decoded text") {
  const Outcome outcome = Feed({"Hello there, ", "how are you? 안녕 😀"}, {});
  CHECK(outcome.text == "Hello there, how are you? 안녕 😀");
  CHECK_FALSE(outcome.stop);
}

TEST_CASE("a stop string across token borders is found and cut off") {
  SamplingParams params;
  params.stop = {"xyz"};
  const Outcome outcome = Feed({"a x", "y", "z and more"}, params);
  CHECK(outcome.text == "a ");
  CHECK(outcome.stop == "xyz");
}

TEST_CASE("a stop string inside one token is found") {
  SamplingParams params;
  params.stop = {"h"};
  CHECK(Feed({"say the word"}, params).text == "say t");
}

TEST_CASE("what only looks like the start of a stop string is kept") {
  SamplingParams params;
  params.stop = {"xyz"};
  const Outcome outcome = Feed({"x", "y", "x", "y", "w"}, params);
  CHECK(outcome.text == "xyxyw");
  CHECK_FALSE(outcome.stop);
}

TEST_CASE("include_stop_str_in_output keeps the stop string and no more") {
  SamplingParams params;
  params.stop = {"y"};
  params.include_stop_str_in_output = true;
  CHECK(Feed({"x", "y", "z"}, params).text == "xy");
}

TEST_CASE("of two stop strings the first of the list counts") {
  SamplingParams params;
  params.stop = {"b", "ab"};
  CHECK(Feed({"x", "a", "b"}, params).stop == "b");
  params.stop = {"ab", "b"};
  CHECK(Feed({"x", "a", "b"}, params).stop == "ab");
}

TEST_CASE("a stop string within min_tokens does not count") {
  SamplingParams params;
  params.stop = {"q"};
  params.min_tokens = 2;
  CHECK(Feed({"q", "q", "a", "q"}, params).text == "qqa");
}

TEST_CASE("a stop string in several bytes of a character is found") {
  SamplingParams params;
  params.stop = {"😀"};
  CHECK(Feed({"a", "😀", "b"}, params).text == "a");
}

}  // namespace
}  // namespace rbln
