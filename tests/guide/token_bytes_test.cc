#include "guide/token_bytes.h"

#include <doctest/doctest.h>

#include <set>

#include "test_util.h"

namespace rbln {
namespace {

TEST_CASE("a trie walks every token, and skips what cannot be") {
  const std::vector<std::pair<std::string, TokenId>> tokens = {
      {"b", 0},  {"ab", 1},    {"abc", 2},  {"a", 3},   {"", 4},
      {"ab", 5}, {"b\xff", 6}, {"\x01", 7}, {"abd", 66}};
  const TokenTrie trie(tokens);
  CHECK(trie.num_nodes() == 7);
  CHECK(trie.depth() == 3);
  std::vector<int> scratch;
  TokenMask mask(2);
  trie.Walk(
      1, [](int state, uint8_t) { return state; }, scratch, mask);
  for (const auto& [bytes, id] : tokens) {
    CHECK(Allows(mask, id) == !bytes.empty());
  }
  // Only bytes in rising order.
  mask.assign(2, 0);
  int steps = 0;
  trie.Walk(
      1,
      [&](int state, uint8_t byte) {
        ++steps;
        return byte >= state && byte != 'b' ? byte : 0;
      },
      scratch, mask);
  CHECK(Allows(mask, 3));
  CHECK(Allows(mask, 7));
  CHECK_FALSE(Allows(mask, 2));
  CHECK(steps == 4);
}

TEST_CASE("an empty trie") {
  const TokenTrie trie({});
  std::vector<int> scratch;
  TokenMask mask(1);
  trie.Walk(
      1, [](int, uint8_t) { return 1; }, scratch, mask);
  CHECK(mask[0] == 0);
}

// The bytes of tokens put together are what a detokenizer gives, whatever the
// decoder does.
TEST_CASE("bytes put together are the text") {
  for (const char* name : {"digits", "gpt2", "llama2", "llama3", "lowercase",
                           "metaspace", "qwen"}) {
    CAPTURE(name);
    const auto tokenizer = Tokenizer::Load(
        std::string(RBLN_TEST_DATA) + "/text/tokenizers/" + name,
        ErrorKind::kModel);
    for (const char* text :
         {"", " ", "a b", " a  b\n", "  two", "é 😀 x", "{\"a\": [1, 2]}"}) {
      CAPTURE(text);
      const std::vector<TokenId> ids = tokenizer->Encode(text, false);
      std::string bytes;
      for (size_t i = 0; i < ids.size(); ++i) {
        bytes += tokenizer->Bytes(ids[i], i == 0).value_or("?");
      }
      CHECK(bytes == tokenizer->Decode(ids, false));
      // Behind a prompt nothing is dropped.
      std::string more;
      const std::vector<TokenId> prompt = tokenizer->Encode("x", false);
      Detokenizer detokenizer(*tokenizer, prompt, false);
      CHECK(detokenizer.at_start() == prompt.empty());
      std::string pieces;
      for (const TokenId id : ids) {
        more += tokenizer->Bytes(id, false).value_or("?");
        pieces += detokenizer.Push(id);
      }
      pieces += detokenizer.Finish();
      CHECK(more == pieces);
    }
    CHECK_FALSE(tokenizer->Bytes(1 << 20, false));
    CHECK_FALSE(tokenizer->Bytes(-1, false));
  }
}

TEST_CASE("plain tokens are most, and none that ends a string") {
  const auto tokenizer = Tokenizer::Load(
      std::string(RBLN_EXAMPLES) + "/tiny-chat", ErrorKind::kModel);
  const TokenBytes tokens(*tokenizer, tokenizer->vocab_size());
  int plain = 0;
  for (TokenId id = 0; id < tokens.vocab_size(); ++id) {
    if (!Allows(tokens.plain(), id)) continue;
    ++plain;
    const std::string& bytes = tokens.bytes(id, false);
    CHECK(bytes.find_first_of("\"\\\n\t") == std::string::npos);
    CHECK_FALSE(tokenizer->IsSpecial(id));
  }
  CHECK(plain > tokens.vocab_size() / 2);
}

}  // namespace
}  // namespace rbln
