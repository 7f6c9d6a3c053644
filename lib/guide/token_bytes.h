// What the tokens of a vocabulary add to a text, laid out for guides.
#pragma once

#include <string>
#include <vector>

#include "guide/token_trie.h"
#include "text/tokenizer.h"

namespace rbln {

// Immutable once built; may be used from many threads.
class TokenBytes {
 public:
  // Logits have `vocab_size` values; ids that the tokenizer does not have are
  // never allowed, nor special tokens. Throws Error(kUsage) for a tokenizer
  // whose decoder cannot be followed byte by byte.
  TokenBytes(const Tokenizer& tokenizer, int vocab_size);

  int vocab_size() const { return vocab_size_; }
  // The bytes of a token; `first`: at the start of a text, where some decoders
  // drop a space. Empty for those that are never allowed.
  const std::string& bytes(TokenId id, bool first) const {
    return first && !first_.empty() ? first_[id] : rest_[id];
  }
  const TokenTrie& trie(bool first) const {
    return first && !first_.empty() ? first_trie_ : rest_trie_;
  }

  // Tokens that are nothing at the start of a text but the space that is
  // dropped; behind one of them, a space is one.
  const std::vector<TokenId>& dropped() const { return dropped_; }

  // Plain tokens are a few whole characters and none of those that mean
  // something in a JSON string or to `.` in a pattern: most tokens are. Inside
  // a string they can be allowed all at once, and only the others be looked at.
  static constexpr int kMaxPlainChars = 16;
  static bool IsPlain(char32_t c) {
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F && c != 0x2028 &&
           c != 0x2029;
  }
  const TokenMask& plain() const { return plain_; }
  const TokenTrie& not_plain_trie() const { return not_plain_trie_; }

 private:
  int vocab_size_;
  std::vector<std::string> rest_;
  std::vector<std::string> first_;  // empty where it is the same as rest_
  TokenTrie rest_trie_;
  TokenTrie first_trie_;
  TokenTrie not_plain_trie_;
  TokenMask plain_;
  std::vector<TokenId> dropped_;
};

}  // namespace rbln
