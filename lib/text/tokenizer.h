// Text to token ids and back, from a Hugging Face tokenizer.json.
//
// The answers are those of Hugging Face `tokenizers`. What a file asks for and
// this code does not have is an error that names it, never a silent
// difference.
// Format: https://github.com/huggingface/tokenizers
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace rbln {

using TokenId = int32_t;

// Immutable once loaded; every method may be called from many threads at once.
class Tokenizer {
 public:
  // Loads DIR/tokenizer.json and, for the special tokens' names,
  // DIR/tokenizer_config.json where it exists. Whether BOS and EOS are added is
  // for the post-processor in tokenizer.json to say: add_bos_token and
  // add_eos_token do not count beside it, as in transformers 5.
  // Throws Error(kind) naming the file and the item.
  static std::unique_ptr<const Tokenizer> Load(const std::string& directory,
                                               ErrorKind kind);
  ~Tokenizer();

  // The ids of `text`. Special tokens' texts inside it are recognized, as in
  // `tokenizer(text)`. With `add_special_tokens` the post-processor's BOS (and
  // EOS) are added. Bytes that are not UTF-8 are read as U+FFFD each, one per
  // maximal ill-formed subpart, as Python's errors="replace".
  std::vector<TokenId> Encode(std::string_view text,
                              bool add_special_tokens) const;

  // The text of `ids`, as `tokenizer.decode(ids, skip_special_tokens,
  // clean_up_tokenization_spaces=False)`. Ids outside the vocabulary give no
  // text. Every special token is skipped, also those that are looked for in
  // normalized text, which tokenizers 0.23 forgets.
  std::string Decode(const std::vector<TokenId>& ids,
                     bool skip_special_tokens) const;

  // One more than the largest id.
  int vocab_size() const;
  // The id of a token by its exact content; nullopt where there is none.
  std::optional<TokenId> Find(std::string_view content) const;
  // The token's content as it stands in the file ("Ġthe", "▁the", "<0x0A>");
  // empty for an id that has none.
  std::string_view Content(TokenId id) const;
  bool IsSpecial(TokenId id) const;
  // The bytes that a token adds to a text, which need not be whole characters:
  // what a Detokenizer gives is these put together, with bytes that are not
  // UTF-8 mended. `first`: as the first token of a text, where some decoders
  // drop a space. nullopt for ids that have no token. Throws Error(kUsage) for
  // a decoder that cannot be described so.
  std::optional<std::string> Bytes(TokenId id, bool first) const;

  // From tokenizer_config.json; nullopt where it says nothing.
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // Their texts, as chat templates see them; empty where unset.
  const std::string& bos_token() const;
  const std::string& eos_token() const;

 private:
  friend class Detokenizer;
  Tokenizer();
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// Text of one growing sequence, piece by piece: the pieces put together are the
// Decode of all its ids (followed, for a sequence that ends inside a character,
// by U+FFFD as Decode gives it). No piece ends inside a UTF-8 character and
// none is ever taken back. Cost per token does not grow with the length.
class Detokenizer {
 public:
  // `tokenizer` must outlive this object. `prompt` is what stands before the
  // first generated token: it decides whether a leading space is text.
  Detokenizer(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt,
              bool skip_special_tokens);
  ~Detokenizer();
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;

  // The text that `id` completes; empty while a character is incomplete.
  std::string Push(TokenId id);
  // What is left when the sequence ends.
  std::string Finish();
  // Forgets the bytes of a character that is not complete, which may be the
  // prompt's: the next token begins a character.
  void DropIncomplete();
  // Whether nothing stands before the next token, which is what Bytes calls
  // first.
  bool at_start() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rbln
