#include "guide/token_bytes.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

using Tokens = std::vector<std::pair<std::string, TokenId>>;

std::vector<std::string> AllBytes(const Tokenizer& tokenizer, int vocab_size,
                                  bool first) {
  std::vector<std::string> result(vocab_size);
  const int known = std::min(vocab_size, tokenizer.vocab_size());
  for (TokenId id = 0; id < known; ++id) {
    if (tokenizer.IsSpecial(id)) continue;
    result[id] = tokenizer.Bytes(id, first).value_or("");
  }
  return result;
}

bool IsPlainText(const std::string& bytes) {
  if (bytes.empty() || !IsUtf8(bytes)) return false;
  int count = 0;
  for (size_t at = 0; at < bytes.size(); ++count) {
    if (!TokenBytes::IsPlain(NextChar(bytes, &at))) return false;
  }
  return count <= TokenBytes::kMaxPlainChars;
}

TokenTrie MakeTrie(const std::vector<std::string>& bytes,
                   const TokenMask* without) {
  Tokens tokens;
  for (size_t id = 0; id < bytes.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (without != nullptr && Allows(*without, token)) continue;
    tokens.emplace_back(bytes[id], token);
  }
  return TokenTrie(std::move(tokens));
}

TokenMask PlainTokens(const std::vector<std::string>& bytes) {
  TokenMask mask((bytes.size() + 63) / 64);
  for (size_t id = 0; id < bytes.size(); ++id) {
    if (IsPlainText(bytes[id])) Allow(mask, static_cast<TokenId>(id));
  }
  return mask;
}

}  // namespace

TokenBytes::TokenBytes(const Tokenizer& tokenizer, int vocab_size)
    : vocab_size_(vocab_size),
      rest_(AllBytes(tokenizer, vocab_size, false)),
      first_(AllBytes(tokenizer, vocab_size, true)),
      rest_trie_(MakeTrie(rest_, nullptr)),
      first_trie_({}),
      not_plain_trie_({}),
      plain_(PlainTokens(rest_)) {
  not_plain_trie_ = MakeTrie(rest_, &plain_);
  if (first_ == rest_) {
    first_.clear();
  } else {
    first_trie_ = MakeTrie(first_, nullptr);
    for (TokenId id = 0; id < vocab_size; ++id) {
      if (first_[id].empty() && !rest_[id].empty()) dropped_.push_back(id);
    }
  }
}

}  // namespace rbln
