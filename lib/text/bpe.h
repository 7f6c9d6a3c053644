// Byte-pair encoding over a vocabulary: the model of a tokenizer.json.
//
// Text is cut into symbols (characters), and the pair of neighbours whose merge
// has the lowest rank is replaced by its result, the leftmost first, until none
// is left.
// The definition followed is that of https://github.com/huggingface/tokenizers
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace rbln {

// Largest id that is accepted; bounds what a lying file can make us allocate.
inline constexpr TokenId kMaxTokenId = (1 << 24) - 1;

// Token contents by id and ids by content.
class Vocabulary {
 public:
  // False, and nothing done, when `id` has a token already. `id` must lie in
  // [0, kMaxTokenId].
  bool Add(std::string_view content, TokenId id);
  // Makes Find work; to be called once, after the last Add. Returns a token
  // that was added under two ids, or -1.
  TokenId BuildIndex();

  // The id of `content`, or -1.
  TokenId Find(std::string_view content) const;
  // The same of many, which is several times as fast: they wait for memory
  // together. As many ids as contents.
  void FindAll(std::span<const std::string_view> contents,
               std::span<TokenId> ids) const;
  bool Has(TokenId id) const {
    return id >= 0 && id < end() && tokens_[id].offset != kNoToken;
  }
  // The content of `id`; empty for an id without one.
  std::string_view Content(TokenId id) const {
    if (!Has(id)) return {};
    return {arena_.data() + tokens_[id].offset, tokens_[id].length};
  }
  // One more than the largest id.
  TokenId end() const { return static_cast<TokenId>(tokens_.size()); }
  // How many tokens there are.
  int count() const { return count_; }
  size_t longest() const { return longest_; }

 private:
  TokenId Find(std::string_view content, uint64_t hash) const;

  static constexpr uint32_t kNoToken = ~uint32_t{0};
  struct Token {
    uint32_t offset = kNoToken;
    uint32_t length = 0;
  };
  struct Slot {
    uint32_t hash = 0;
    TokenId id = -1;
  };

  std::string arena_;
  std::vector<Token> tokens_;
  std::vector<Slot> slots_;  // a power of two, open addressing
  int count_ = 0;
  size_t longest_ = 0;
};

// `left` and `right` become `result`. The rank is the place in the list.
struct Merge {
  TokenId left;
  TokenId right;
  TokenId result;
};

struct BpeOptions {
  std::optional<std::string> unk_token;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

// Immutable but for a memo that may be filled from many threads at once.
class Bpe {
 public:
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges,
      const BpeOptions& options, ErrorKind kind);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Appends the ids of `piece`, well-formed UTF-8. Takes O(n log n).
  void Encode(std::string_view piece, std::vector<TokenId>* out) const;

 private:
  // What is known of a token's content as a word of its own.
  enum Memo : uint8_t { kUnknown, kItself, kOther };
  struct MergeSlot {
    uint64_t pair = ~uint64_t{0};
    // Rank in the high half, result in the low; kNoMerge in an empty slot.
    uint64_t rank_and_result = kNoMerge;
  };
  static constexpr uint64_t kNoMerge = ~uint64_t{0};

  void EncodeWord(std::string_view word, std::vector<TokenId>* out) const;
  void AppendSymbols(std::string_view word, std::vector<TokenId>* out) const;
  uint64_t FindMerge(TokenId left, TokenId right) const;
  // Merge the symbols out[start..], in place.
  void MergeFew(size_t start, std::vector<TokenId>* out) const;
  void MergeMany(size_t start, std::vector<TokenId>* out) const;

  Vocabulary vocabulary_;
  std::vector<MergeSlot> slots_;  // a power of two, open addressing
  int shift_ = 0;
  std::vector<TokenId> char_ids_;      // of the characters below U+10000, or -1
  std::array<TokenId, 256> byte_ids_;  // of "<0x00>" and so on, or -1
  std::optional<std::string> unk_token_;
  TokenId unk_id_ = -1;
  bool fuse_unk_;
  bool byte_fallback_;
  bool ignore_merges_;
  // No merge reaches over the start of a word written with U+2581, so that each
  // word can be encoded by itself.
  bool cut_words_ = false;
  ErrorKind kind_;
  std::unique_ptr<std::atomic<uint8_t>[]> memo_;  // by id, of Memo
};

}  // namespace rbln
