#include "guide/guide.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "guide/accepts.h"
#include "guide/guide_cache.h"
#include "guide/validator.h"
#include "test_util.h"

namespace rbln {
namespace {

const char* const kSchemas[] = {
    R"({"type": "object"})",
    R"({"type": "object", "properties": {"name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "bc", "é"]},
                 "maxItems": 3}}, "required": ["name", "age"]})",
    R"({"$defs": {"node": {"type": "object", "properties": {
          "value": {"type": ["number", "null"]},
          "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
          "required": ["value", "next"], "additionalProperties": false}},
        "$ref": "#/$defs/node"})",
    R"({"type": "object", "properties": {
          "id": {"type": "string", "format": "uuid"},
          "when": {"type": "string", "format": "date-time"},
          "code": {"type": "string", "pattern": "^[A-Z]{2,3}-\\d+$",
                   "maxLength": 8}}})",
    R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "x"},
          "a": {"type": "boolean"}}, "required": ["kind"]},
          {"type": "object", "properties": {"kind": {"const": "y"},
          "b": {"type": "string", "minLength": 2, "maxLength": 5}},
          "required": ["kind", "b"]}]})",
    R"({"type": "object", "properties": {"p": {"type": "number",
          "minimum": 0, "maximum": 1}}, "required": ["p"],
        "additionalProperties": {"type": "array", "items": {"type": "integer"},
        "minItems": 1, "maxItems": 2}})",
    R"({"type": "object", "properties": {"text": {"type": "string",
          "maxLength": 400}}, "required": ["text"]})",
    R"({"type": "array", "prefixItems": [{"type": "string"}, {"const": null}],
        "items": {"type": "boolean"}, "minItems": 2, "maxItems": 6})",
};

const Tokenizer& TokenizerOf(const std::string& name) {
  static std::map<std::string, std::unique_ptr<const Tokenizer>> loaded;
  auto& tokenizer = loaded[name];
  if (tokenizer == nullptr) {
    tokenizer = Tokenizer::Load(
        name == "tiny-chat"
            ? std::string(RBLN_EXAMPLES) + "/tiny-chat"
            : std::string(RBLN_TEST_DATA) + "/text/tokenizers/" + name,
        ErrorKind::kModel);
  }
  return *tokenizer;
}

// Draws tokens until the text ends; nullopt when it is still going on after
// `most`. Checks masks against the tokens' bytes every now and then.
struct Drawn {
  std::string bytes;
  std::vector<TokenId> tokens;
  bool ended = false;
};

Drawn Draw(Guide& guide, const TokenBytes& tokens, std::mt19937& random,
           int most, double end_chance) {
  Drawn drawn;
  Guide::Cursor cursor(guide, /*at_start=*/true);
  for (int i = 0; i < most; ++i) {
    const TokenMask& mask = cursor.Allowed();
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < tokens.vocab_size(); ++id) {
      if (Allows(mask, id)) allowed.push_back(id);
    }
    if (cursor.MayEnd() &&
        (allowed.empty() || random() % 1000 < end_chance * 1000)) {
      drawn.ended = true;
      return drawn;
    }
    REQUIRE_FALSE(allowed.empty());
    // Tokens that close something are preferred now and then, so that texts
    // come to an end.
    TokenId id = allowed[random() % allowed.size()];
    if (i > 20) {
      for (const TokenId one : allowed) {
        const char last = tokens.bytes(one, false).back();
        if ((last == '"' || last == '}' || last == ']') && random() % 3 == 0) {
          id = one;
          break;
        }
      }
    }
    drawn.bytes += tokens.bytes(id, i == 0);
    drawn.tokens.push_back(id);
    cursor.Push(id);
  }
  return drawn;
}

std::vector<GuideSpec> Specs() {
  std::vector<GuideSpec> specs;
  for (const char* schema : kSchemas) specs.push_back(SchemaSpec(schema));
  for (const char* pattern : {".*", "[a-z ]{0,40}x", "\\d+(\\.\\d+)?", "[^\"]*",
                              "[a-zA-Z ,.]{1,200}", "(the|a) \\w+é?"}) {
    specs.push_back(RegexSpec(pattern));
  }
  specs.push_back(ChoiceSpec(R"(["yes", "no", " yes", "yesterday"])"));
  return specs;
}

TEST_CASE("a mask has exactly the tokens whose bytes lead on") {
  for (const char* name :
       {"tiny-chat", "llama2", "llama3", "metaspace", "qwen"}) {
    const Tokenizer& tokenizer = TokenizerOf(name);
    // Logits may have more places than there are tokens.
    const TokenBytes tokens(tokenizer, tokenizer.vocab_size() + 7);
    std::mt19937 random(7);
    for (const GuideSpec& spec : Specs()) {
      CAPTURE(name);
      CAPTURE(spec.text);
      Guide guide(CompileGuide(spec), tokens);
      const auto grammar = CompileGuide(spec);
      for (int round = 0; round < 4; ++round) {
        Guide::Cursor cursor(guide, round % 2 == 0);
        bool first = round % 2 == 0;
        Matcher slow(*grammar);
        int state = slow.start();
        for (int i = 0; i < 30; ++i) {
          const TokenMask& mask = cursor.Allowed();
          REQUIRE(cursor.MayEnd() == slow.MayEnd(state));
          std::vector<TokenId> allowed;
          for (TokenId id = 0; id < tokens.vocab_size(); ++id) {
            const bool known = id < tokenizer.vocab_size();
            std::string bytes;
            if (known && !tokenizer.IsSpecial(id)) {
              bytes = tokenizer.Bytes(id, first).value_or("");
            }
            int to = state;
            for (const char c : bytes) {
              to = slow.Next(to, static_cast<uint8_t>(c));
            }
            bool leads_on = !bytes.empty() && to != Matcher::kDead;
            // A space that is dropped is no text, but its token may come where
            // any text may.
            if (first && known && bytes.empty() && !tokenizer.IsSpecial(id) &&
                !tokenizer.Bytes(id, false).value_or("").empty()) {
              for (int byte = 0; byte < 256; ++byte) {
                leads_on |= slow.Next(state, static_cast<uint8_t>(byte)) !=
                            Matcher::kDead;
              }
            }
            if (Allows(mask, id) != leads_on) {
              CAPTURE(id);
              CAPTURE(bytes);
              FAIL("the mask is wrong");
            }
            if (leads_on) allowed.push_back(id);
          }
          if (allowed.empty()) break;
          const TokenId id = allowed[random() % allowed.size()];
          const std::string bytes = tokenizer.Bytes(id, first).value();
          for (const char c : bytes) {
            state = slow.Next(state, static_cast<uint8_t>(c));
          }
          cursor.Push(id);
          first = false;
        }
      }
    }
  }
}

TEST_CASE("a thousand random texts a schema are valid under it") {
  const Tokenizer& tokenizer = TokenizerOf("tiny-chat");
  const TokenBytes tokens(tokenizer, tokenizer.vocab_size());
  std::mt19937 random(11);
  for (const char* text : kSchemas) {
    CAPTURE(text);
    const Json schema = Json::parse(text);
    const Validator validator(schema);
    Guide guide(CompileGuide(SchemaSpec(text)), tokens);
    int ended = 0;
    for (int i = 0; i < 1000; ++i) {
      const Drawn drawn = Draw(guide, tokens, random, 300, 0.5);
      if (!drawn.ended) continue;
      ++ended;
      CAPTURE(drawn.bytes);
      const Json value = Json::parse(drawn.bytes, nullptr, false);
      if (value.is_discarded()) FAIL("not JSON");
      if (!validator.Valid(schema, value)) FAIL("not valid");
    }
    CHECK(ended > 700);
  }
}

TEST_CASE("the text of a detokenizer is the text that matched") {
  for (const char* name :
       {"tiny-chat", "llama2", "llama3", "metaspace", "qwen", "gpt2"}) {
    CAPTURE(name);
    const Tokenizer& tokenizer = TokenizerOf(name);
    const TokenBytes tokens(tokenizer, tokenizer.vocab_size());
    std::mt19937 random(13);
    for (const GuideSpec& spec : Specs()) {
      CAPTURE(spec.text);
      Acceptor accepts(spec);
      Guide guide(CompileGuide(spec), tokens);
      for (int i = 0; i < 20; ++i) {
        const Drawn drawn = Draw(guide, tokens, random, 200, 0.5);
        if (!drawn.ended) continue;
        const std::string text = tokenizer.Decode(drawn.tokens, true);
        CAPTURE(text);
        CHECK(text == drawn.bytes);
        CHECK(accepts(text));
      }
    }
  }
}

TEST_CASE("what other sequences did makes no difference") {
  const Tokenizer& tokenizer = TokenizerOf("tiny-chat");
  const TokenBytes tokens(tokenizer, tokenizer.vocab_size());
  for (const GuideSpec& spec : Specs()) {
    CAPTURE(spec.text);
    std::vector<std::vector<TokenId>> alone;
    for (int i = 0; i < 6; ++i) {
      Guide guide(CompileGuide(spec), tokens);
      std::mt19937 random(i);
      alone.push_back(Draw(guide, tokens, random, 60, 0.1).tokens);
    }
    // All at once, their steps interleaved.
    Guide guide(CompileGuide(spec), tokens);
    std::vector<std::unique_ptr<Guide::Cursor>> cursors;
    for (size_t i = 0; i < alone.size(); ++i) {
      cursors.push_back(std::make_unique<Guide::Cursor>(guide, true));
    }
    for (size_t step = 0; step < 60; ++step) {
      for (size_t i = 0; i < alone.size(); ++i) {
        if (step >= alone[i].size()) {
          cursors[i].reset();
          continue;
        }
        REQUIRE(Allows(cursors[i]->Allowed(), alone[i][step]));
        cursors[i]->Push(alone[i][step]);
      }
    }
  }
}

TEST_CASE("a mask is computed once, and guides are shared by their text") {
  const Tokenizer& tokenizer = TokenizerOf("tiny-chat");
  GuideCache cache(tokenizer, tokenizer.vocab_size());
  Guide* const guide = cache.Acquire(RegexSpec("a+"));
  CHECK(cache.Acquire(RegexSpec("a+")) == guide);
  CHECK(cache.Acquire(ChoiceSpec("[\"a+\"]")) != guide);
  Guide::Cursor one(*guide, false);
  one.Allowed();
  const int64_t cold = guide->cold_masks();
  Guide::Cursor two(*guide, false);
  two.Allowed();
  CHECK(guide->cold_masks() == cold);
  CHECK(guide->cold_masks() == 1);
  // In use, it stays, however many come and go.
  for (int i = 0; i < 40; ++i) {
    cache.Release(cache.Acquire(RegexSpec(fmt::format("b{{{}}}", i + 1))));
  }
  CHECK(cache.Acquire(RegexSpec("a+")) == guide);
  CHECK_THROWS_AS(cache.Acquire(RegexSpec("(")), Error);
}

TEST_CASE("a guide that is too ambiguous says so, and others go on") {
  const Tokenizer& tokenizer = TokenizerOf("tiny-chat");
  const TokenBytes tokens(tokenizer, tokenizer.vocab_size());
  std::string schema = R"({"$defs": {"0": {"type": "null"}, )";
  for (int i = 1; i < 60; ++i) {
    schema += fmt::format(
        R"("{0}": {{"anyOf": [{{"items": {{"$ref": "#/$defs/{1}"}},
           "minItems": 1}}, {{"items": {{"$ref": "#/$defs/{1}"}},
           "minItems": 2}}]}}, )",
        i, i - 1);
  }
  schema += R"("x": {}}, "$ref": "#/$defs/59"})";
  Guide guide(CompileGuide(SchemaSpec(schema)), tokens);
  Guide::Cursor still(guide, false);
  Guide::Cursor cursor(guide, false);
  const TokenId open = *tokenizer.Find("[");
  std::string problem;
  int levels = 0;
  try {
    for (; levels < 60; ++levels) {
      cursor.Allowed();
      cursor.Push(open);
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  CHECK(problem.starts_with("the text can go on in too many ways at once"));
  CHECK(levels > 5);
  CHECK(Allows(still.Allowed(), open));
  // As far, whatever was worked out before.
  Guide fresh(CompileGuide(SchemaSpec(schema)), tokens);
  Guide::Cursor again(fresh, false);
  for (int i = 0; i < levels; ++i) again.Push(open);
  CHECK_THROWS_AS((again.Allowed(), again.Push(open)), Error);
}

TEST_CASE("a mask of a vocabulary of 128 thousand tokens takes little time") {
  const auto directory = SharedData("tokenizers/llama-3");
  if (!directory) {
    MESSAGE("skipped: no large tokenizer");
    return;
  }
  const auto tokenizer = Tokenizer::Load(*directory, ErrorKind::kModel);
  const TokenBytes tokens(*tokenizer, 128256);
  for (const GuideSpec& spec : Specs()) {
    Guide guide(CompileGuide(spec), tokens);
    std::mt19937 random(1);
    Guide::Cursor cursor(guide, true);
    double cold = 0;
    double warm = 0;
    double total = 0;
    int steps = 0;
    for (; steps < 60; ++steps) {
      const auto begin = std::chrono::steady_clock::now();
      const TokenMask& mask = cursor.Allowed();
      const auto middle = std::chrono::steady_clock::now();
      cursor.Allowed();
      const auto end = std::chrono::steady_clock::now();
      cold =
          std::max(cold, std::chrono::duration<double>(middle - begin).count());
      total += std::chrono::duration<double>(middle - begin).count();
      warm =
          std::max(warm, std::chrono::duration<double>(end - middle).count());
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < tokens.vocab_size(); ++id) {
        if (Allows(mask, id)) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      cursor.Push(allowed[random() % allowed.size()]);
    }
    MESSAGE(spec.text.substr(0, 40), ": ", steps, " steps, at most ",
            cold * 1e3, " ms, ", total * 1e3 / std::max(steps, 1),
            " ms mean cold, ", warm * 1e6, " us warm");
    // Far above what is measured, for sanitizers and busy machines.
    CHECK(cold < 2);
  }
}

}  // namespace
}  // namespace rbln
