#include "text/bpe.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

// U+2581, which stands for a space in SentencePiece's vocabularies.
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Up to so many symbols a scan over all pairs beats a heap.
constexpr size_t kFewSymbols = 48;

// The smallest power of two that leaves `count` entries a third free.
size_t TableSize(size_t count) {
  return std::bit_ceil(std::max<size_t>(16, count + count / 2));
}

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
         static_cast<uint32_t>(right);
}

// Where in `text`, from `from` on, a space mark follows another character.
size_t FindWordStart(std::string_view text, size_t from) {
  for (;;) {
    const size_t at = text.find(kSpaceMark, from);
    if (at == std::string_view::npos) return at;
    if (at > 0 && !text.substr(0, at).ends_with(kSpaceMark)) return at;
    from = at + kSpaceMark.size();
  }
}

}  // namespace

bool Vocabulary::Add(std::string_view content, TokenId id) {
  if (static_cast<size_t>(id) >= tokens_.size()) {
    tokens_.resize(static_cast<size_t>(id) + 1);
  } else if (tokens_[id].offset != kNoToken) {
    return false;
  }
  tokens_[id].offset = static_cast<uint32_t>(arena_.size());
  tokens_[id].length = static_cast<uint32_t>(content.size());
  arena_ += content;
  ++count_;
  longest_ = std::max(longest_, content.size());
  return true;
}

TokenId Vocabulary::BuildIndex() {
  slots_.assign(TableSize(count_), Slot());
  const size_t mask = slots_.size() - 1;
  for (TokenId id = 0; id < end(); ++id) {
    if (!Has(id)) continue;
    const std::string_view content = Content(id);
    const uint64_t hash = XXH3_64bits(content.data(), content.size());
    size_t at = hash & mask;
    for (; slots_[at].id >= 0; at = (at + 1) & mask) {
      if (slots_[at].hash == static_cast<uint32_t>(hash >> 32) &&
          Content(slots_[at].id) == content) {
        return id;
      }
    }
    slots_[at] = {static_cast<uint32_t>(hash >> 32), id};
  }
  return -1;
}

TokenId Vocabulary::Find(std::string_view content) const {
  return Find(content, XXH3_64bits(content.data(), content.size()));
}

void Vocabulary::FindAll(std::span<const std::string_view> contents,
                         std::span<TokenId> ids) const {
  constexpr size_t kTogether = 64;
  const size_t mask = slots_.size() - 1;
  uint64_t hashes[kTogether];
  for (size_t begin = 0; begin < contents.size(); begin += kTogether) {
    const auto some =
        contents.subspan(begin, std::min(kTogether, contents.size() - begin));
    // Slot, token, content: each is where the one before says.
    for (size_t i = 0; i < some.size(); ++i) {
      hashes[i] = XXH3_64bits(some[i].data(), some[i].size());
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    const auto first = [&](size_t i) { return slots_[hashes[i] & mask].id; };
    for (size_t i = 0; i < some.size(); ++i) {
      if (first(i) >= 0) __builtin_prefetch(&tokens_[first(i)]);
    }
    for (size_t i = 0; i < some.size(); ++i) {
      if (first(i) >= 0) __builtin_prefetch(Content(first(i)).data());
    }
    for (size_t i = 0; i < some.size(); ++i) {
      ids[begin + i] = Find(some[i], hashes[i]);
    }
  }
}

TokenId Vocabulary::Find(std::string_view content, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id < 0) return -1;
    if (slot.hash == static_cast<uint32_t>(hash >> 32) &&
        Content(slot.id) == content) {
      return slot.id;
    }
  }
}

Bpe::Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges,
         const BpeOptions& options, ErrorKind kind)
    : vocabulary_(std::move(vocabulary)),
      unk_token_(options.unk_token),
      fuse_unk_(options.fuse_unk),
      byte_fallback_(options.byte_fallback),
      ignore_merges_(options.ignore_merges),
      kind_(kind),
      memo_(new std::atomic<uint8_t>[vocabulary_.end()]()) {
  slots_.resize(TableSize(merges.size()));
  shift_ = 64 - std::countr_zero(slots_.size());
  const size_t mask = slots_.size() - 1;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t pair = PairKey(merge.left, merge.right);
    size_t at = pair * 0x9E3779B97F4A7C15u >> shift_;
    while (slots_[at].rank_and_result != kNoMerge && slots_[at].pair != pair) {
      at = (at + 1) & mask;
    }
    // Of two merges of one pair the last one counts.
    slots_[at] = {pair, static_cast<uint64_t>(rank) << 32 |
                            static_cast<uint32_t>(merge.result)};
  }

  char_ids_.assign(0x10000, -1);
  for (TokenId id = 0; id < vocabulary_.end(); ++id) {
    const std::string_view content = vocabulary_.Content(id);
    if (content.empty() || content.size() > 3) continue;
    size_t at = 0;
    const char32_t c = NextChar(content, &at);
    if (at == content.size()) char_ids_[c] = id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary_.Find(fmt::format("<0x{:02X}>", byte));
  }
  if (unk_token_) unk_id_ = vocabulary_.Find(*unk_token_);

  // The mark must be a symbol of its own, so that it ends a run of unknown
  // characters.
  cut_words_ = !ignore_merges_ && vocabulary_.Find(kSpaceMark) >= 0;
  TokenId last = -1;
  for (size_t i = 0; i < merges.size() && cut_words_; ++i) {
    if (merges[i].result == last) continue;
    last = merges[i].result;
    cut_words_ =
        FindWordStart(vocabulary_.Content(last), 0) == std::string_view::npos;
  }
}

void Bpe::Encode(std::string_view piece, std::vector<TokenId>* out) const {
  if (!cut_words_) {
    if (!piece.empty()) EncodeWord(piece, out);
    return;
  }
  while (!piece.empty()) {
    const size_t end = std::min(FindWordStart(piece, 0), piece.size());
    EncodeWord(piece.substr(0, end), out);
    piece.remove_prefix(end);
  }
}

void Bpe::EncodeWord(std::string_view word, std::vector<TokenId>* out) const {
  TokenId whole = -1;
  if (word.size() <= vocabulary_.longest()) {
    whole = vocabulary_.Find(word);
    if (whole >= 0 &&
        (ignore_merges_ ||
         memo_[whole].load(std::memory_order_relaxed) == kItself)) {
      out->push_back(whole);
      return;
    }
  }
  const size_t start = out->size();
  AppendSymbols(word, out);
  if (out->size() - start <= kFewSymbols) {
    MergeFew(start, out);
  } else {
    MergeMany(start, out);
  }
  if (whole >= 0) {
    const bool itself = out->size() == start + 1 && out->back() == whole;
    memo_[whole].store(itself ? kItself : kOther, std::memory_order_relaxed);
  }
}

void Bpe::AppendSymbols(std::string_view word,
                        std::vector<TokenId>* out) const {
  bool unk_pending = false;
  const auto flush_unk = [&] {
    if (unk_pending) out->push_back(unk_id_);
    unk_pending = false;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    const char32_t c = NextChar(word, &at);
    const std::string_view symbol = word.substr(begin, at - begin);
    const TokenId id = c < 0x10000 ? char_ids_[c] : vocabulary_.Find(symbol);
    if (id >= 0) {
      flush_unk();
      out->push_back(id);
      continue;
    }
    if (byte_fallback_) {
      const auto byte_id = [&](char byte) {
        return byte_ids_[static_cast<unsigned char>(byte)];
      };
      if (std::all_of(symbol.begin(), symbol.end(),
                      [&](char byte) { return byte_id(byte) >= 0; })) {
        for (const char byte : symbol) out->push_back(byte_id(byte));
        continue;
      }
    }
    // Without an unknown token such a character gives nothing.
    if (!unk_token_) continue;
    if (unk_id_ < 0) {
      throw Error(kind_, fmt::format("tokenizer.json: the text has the "
                                     "character U+{:04X}, which the vocabulary "
                                     "lacks, and model.unk_token '{}' is not "
                                     "in the vocabulary either",
                                     static_cast<uint32_t>(c), *unk_token_));
    }
    if (!fuse_unk_) flush_unk();
    unk_pending = true;
  }
  flush_unk();
}

uint64_t Bpe::FindMerge(TokenId left, TokenId right) const {
  const uint64_t pair = PairKey(left, right);
  const size_t mask = slots_.size() - 1;
  size_t at = pair * 0x9E3779B97F4A7C15u >> shift_;
  while (slots_[at].pair != pair) {
    if (slots_[at].rank_and_result == kNoMerge) return kNoMerge;
    at = (at + 1) & mask;
  }
  return slots_[at].rank_and_result;
}

void Bpe::MergeFew(size_t start, std::vector<TokenId>* out) const {
  size_t count = out->size() - start;
  if (count < 2) return;
  TokenId* ids = out->data() + start;
  std::array<uint64_t, kFewSymbols> merges;  // merges[i] of ids[i], ids[i + 1]
  for (size_t i = 0; i + 1 < count; ++i) {
    merges[i] = FindMerge(ids[i], ids[i + 1]);
  }
  while (count > 1) {
    const size_t best =
        std::min_element(merges.begin(), merges.begin() + (count - 1)) -
        merges.begin();
    if (merges[best] == kNoMerge) break;
    ids[best] = static_cast<TokenId>(merges[best] & 0xFFFFFFFF);
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + (count - 1),
              merges.begin() + best);
    --count;
    if (best > 0) merges[best - 1] = FindMerge(ids[best - 1], ids[best]);
    if (best + 1 < count) merges[best] = FindMerge(ids[best], ids[best + 1]);
  }
  out->resize(start + count);
}

void Bpe::MergeMany(size_t start, std::vector<TokenId>* out) const {
  // A doubly linked list of symbols, and a heap of candidate merges: rank in
  // the high half, place of the left symbol in the low one. Candidates are
  // never removed; one that no longer fits its place is passed over.
  constexpr uint32_t kEnd = ~uint32_t{0};
  struct Symbol {
    TokenId id;  // -1 once merged into the symbol before
    uint32_t previous;
    uint32_t next;
  };
  const size_t count = out->size() - start;
  if (count >= kEnd) {
    throw Error(kind_, fmt::format("a text of {} characters is too long to be "
                                   "tokenized in one piece",
                                   count));
  }
  std::vector<Symbol> symbols(count);
  for (uint32_t i = 0; i < count; ++i) {
    symbols[i] = {(*out)[start + i], i == 0 ? kEnd : i - 1,
                  i + 1 == count ? kEnd : i + 1};
  }
  const auto candidate = [&](uint32_t at) {
    const uint64_t merge =
        FindMerge(symbols[at].id, symbols[symbols[at].next].id);
    return merge == kNoMerge ? kNoMerge : (merge & ~uint64_t{kEnd}) | at;
  };
  std::vector<uint64_t> heap;
  for (uint32_t i = 0; i + 1 < count; ++i) {
    const uint64_t merge = candidate(i);
    if (merge != kNoMerge) heap.push_back(merge);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (symbols[at].id < 0 || symbols[at].next == kEnd) continue;
    if (candidate(at) != top) continue;
    Symbol& left = symbols[at];
    Symbol& right = symbols[left.next];
    left.id = static_cast<TokenId>(FindMerge(left.id, right.id) & kEnd);
    left.next = right.next;
    right.id = -1;
    if (left.next != kEnd) symbols[left.next].previous = at;
    for (const uint32_t changed : {left.previous, at}) {
      if (changed == kEnd || symbols[changed].next == kEnd) continue;
      const uint64_t merge = candidate(changed);
      if (merge == kNoMerge) continue;
      heap.push_back(merge);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
  out->resize(start);
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) out->push_back(symbol.id);
  }
}

}  // namespace rbln
