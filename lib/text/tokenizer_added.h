// The "added_tokens" of a tokenizer.json: texts that are tokens wherever they
// stand, found before the rest of the text is cut up.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_regex.h"

namespace rbln {

struct AddedToken {
  TokenId id;
  std::string content;
  // The content as the normalizer leaves it, which is what is looked for in
  // normalized text and given to the decoder; equals `content` for tokens that
  // are looked for in the text as given.
  std::string normalized_content;
  bool single_word;
  bool lstrip;  // takes the white space to its left with it
  bool rstrip;
  bool normalized;
  bool special;
};

// Finds one set of tokens in a text: the leftmost first, and of those the
// longest.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(ErrorKind kind);
  // `token` must outlive this object. False when its pattern is there already.
  bool Add(const AddedToken* token);

  // Calls `piece` for each token found, and for what lies between them with
  // nullptr.
  using Piece = std::function<void(const AddedToken* token, TextRange range)>;
  void Split(std::string_view text, const Piece& piece) const;

 private:
  struct Pattern {
    std::string_view text;
    const AddedToken* token;
  };

  const Pattern* LongestAt(std::string_view text) const;
  bool IsWordChar(char32_t c) const;

  std::vector<Pattern> patterns_;  // sorted by text
  bool starts_[256] = {};          // bytes that a pattern starts with
  Regex word_;
};

// All added tokens. Immutable once built.
class AddedTokens {
 public:
  // Throws on members of the wrong form, and on ids that Hugging Face's
  // tokenizers would not give.
  AddedTokens(const Json* value, const Vocabulary& vocabulary,
              const Normalizer& normalizer, const FileContext& file);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  const AddedToken* Find(TokenId id) const;
  const AddedToken* Find(std::string_view content) const;
  // One more than the largest id; 0 without tokens.
  TokenId end() const { return end_; }

  // Finds the tokens that are looked for in the text as given, and those that
  // are looked for in normalized text.
  const AddedTokenMatcher& raw() const { return raw_; }
  const AddedTokenMatcher& normalized() const { return normalized_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, const AddedToken*> by_id_;
  std::unordered_map<std::string_view, const AddedToken*> by_content_;
  AddedTokenMatcher raw_;
  AddedTokenMatcher normalized_;
  TokenId begin_ = 0;  // the smallest id
  TokenId end_ = 0;
};

}  // namespace rbln
