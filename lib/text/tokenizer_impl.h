// What a Tokenizer is made of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_decoder.h"

namespace rbln {

struct Tokenizer::Impl {
  // The text of a tokenizer.json.
  Impl(std::string_view json, const FileContext& file);
  // The text of a tokenizer_config.json.
  void ReadConfig(const Json& config, const FileContext& file);

  std::optional<TokenId> Find(std::string_view content) const;
  // What the decoder gets for `id`: nullopt where the id has no token, or has
  // one that is skipped.
  std::optional<std::string_view> DecoderInput(TokenId id,
                                               bool skip_special) const;

  // In the order in which they are built; the optional ones are always there
  // once construction is done.
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<Bpe> bpe;
  std::optional<AddedTokens> added;
  std::optional<Decoder> decoder;
  // The post-processor: ids put before and behind every text.
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  TokenId end = 0;  // one more than the largest id

  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::string bos_token;
  std::string eos_token;
};

}  // namespace rbln
