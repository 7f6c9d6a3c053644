#include "guide/guide.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace rbln {
namespace {

// What a guide may work out before it forgets: some tens of megabytes at most.
// One answer of a usual schema takes a thousandth of it.
constexpr int64_t kEnoughWork = 1'000'000;
constexpr int64_t kMostWork = 4'000'000;
constexpr size_t kMaskBytes = size_t{8} << 20;

struct ByteRange {
  uint8_t lo;
  uint8_t hi;
  bool last;  // of its character
};
// The plain characters beyond ASCII as bytes: the Unicode Standard, table 3-7,
// without U+2028 and U+2029.
constexpr ByteRange kTail = {0x80, 0xBF, false};
constexpr ByteRange kLast = {0x80, 0xBF, true};
constexpr std::array<ByteRange, 4> kPlainSequences[] = {
    {{{0xC2, 0xDF, false}, kLast}},
    {{{0xE0, 0xE0, false}, {0xA0, 0xBF, false}, kLast}},
    {{{0xE1, 0xE1, false}, kTail, kLast}},
    {{{0xE2, 0xE2, false}, {0x80, 0x80, false}, {0x80, 0xA7, true}}},
    {{{0xE2, 0xE2, false}, {0x80, 0x80, false}, {0xAA, 0xBF, true}}},
    {{{0xE2, 0xE2, false}, {0x81, 0xBF, false}, kLast}},
    {{{0xE3, 0xEC, false}, kTail, kLast}},
    {{{0xED, 0xED, false}, {0x80, 0x9F, false}, kLast}},
    {{{0xEE, 0xEF, false}, kTail, kLast}},
    {{{0xF0, 0xF0, false}, {0x90, 0xBF, false}, kTail, kLast}},
    {{{0xF1, 0xF3, false}, kTail, kTail, kLast}},
    {{{0xF4, 0xF4, false}, {0x80, 0x8F, false}, kTail, kLast}}};

}  // namespace

Guide::Guide(std::unique_ptr<const Grammar> grammar, const TokenBytes& tokens)
    : grammar_(std::move(grammar)), tokens_(tokens), matcher_(*grammar_) {
  matcher_.set_max_work(kMostWork);
}

Guide::~Guide() = default;

Guide::Cursor::Cursor(Guide& guide, bool at_start)
    : guide_(guide), first_(at_start), state_(guide.matcher_.start()) {
  guide_.cursors_.insert(this);
}

Guide::Cursor::~Cursor() { guide_.cursors_.erase(this); }

const TokenMask& Guide::Cursor::Allowed() { return guide_.Mask(*this); }

bool Guide::Cursor::MayEnd() const { return guide_.matcher_.MayEnd(state_); }

void Guide::Cursor::Push(TokenId id) {
  guide_.Run([&] {
    int state = state_;
    for (const char c : guide_.tokens_.bytes(id, first_)) {
      state = guide_.matcher_.Next(state, static_cast<uint8_t>(c));
    }
    if (!guide_.matcher_.full()) state_ = state;
  });
  first_ = false;
}

// A step that has no room is tried once more with nothing but the states of
// the cursors. If it has no room then, it never has: a step that went through
// had all it needs within the same bound. So what other sequences did before
// makes no difference.
template <typename Step>
void Guide::Run(const Step& step) {
  if (matcher_.work() > kEnoughWork) Compact();
  step();
  if (!matcher_.full()) return;
  Compact();
  step();
  if (!matcher_.full()) return;
  Compact();
  throw UsageError(
      "the text can go on in too many ways at once to tell which tokens are "
      "allowed; use a schema whose branches differ early, or fewer of them");
}

void Guide::Trim() {
  if (matcher_.work() > kEnoughWork / 2) Compact();
}

void Guide::Compact() {
  std::vector<int> states;
  for (const Cursor* cursor : cursors_) states.push_back(cursor->state_);
  matcher_.Compact(&states);
  auto state = states.begin();
  for (Cursor* cursor : cursors_) cursor->state_ = *state++;
  masks_.clear();
  mask_index_.clear();
  behind_plain_.clear();
}

const TokenMask& Guide::Mask(Cursor& cursor) {
  const bool first =
      cursor.first_ && &tokens_.trie(true) != &tokens_.trie(false);
  const auto key = std::pair(cursor.state_, first);
  if (const auto found = mask_index_.find(key); found != mask_index_.end()) {
    masks_.splice(masks_.begin(), masks_, found->second);
    return found->second->mask;
  }
  ++cold_masks_;
  TokenMask mask;
  Run([&] { Compute(cursor.state_, first, mask); });
  const size_t most =
      std::max<size_t>(1, kMaskBytes / (mask.size() * sizeof(mask[0]) + 1));
  while (masks_.size() >= most) {
    mask_index_.erase(masks_.back().key);
    masks_.pop_back();
  }
  // The state may have a new number.
  masks_.push_front({{cursor.state_, first}, std::move(mask)});
  mask_index_[masks_.front().key] = masks_.begin();
  return masks_.front().mask;
}

void Guide::Compute(int state, bool first, TokenMask& mask) {
  const auto next = [this](int from, uint8_t byte) {
    return matcher_.Next(from, byte);
  };
  if (!first && IsInText(state)) {
    mask = tokens_.plain();
    tokens_.not_plain_trie().Walk(state, next, scratch_, mask);
    return;
  }
  mask.assign(tokens_.plain().size(), 0);
  tokens_.trie(first).Walk(state, next, scratch_, mask);
  if (!first) return;
  bool goes_on = false;
  for (int byte = 0; byte < 256 && !goes_on; ++byte) {
    goes_on =
        matcher_.Next(state, static_cast<uint8_t>(byte)) != Matcher::kDead;
  }
  if (!goes_on) return;
  for (const TokenId id : tokens_.dropped()) Allow(mask, id);
}

bool Guide::IsInText(int state) {
  for (int i = 0; i < TokenBytes::kMaxPlainChars; ++i) {
    const int next = BehindPlain(state);
    if (next == Matcher::kDead) return false;
    if (next == state) return true;
    state = next;
  }
  return true;
}

int Guide::BehindPlain(int state) {
  const auto [at, added] = behind_plain_.try_emplace(state, Matcher::kDead);
  if (!added) return at->second;
  const int next = matcher_.Next(state, ' ');
  for (int byte = 0x21; byte < 0x7F; ++byte) {
    if (TokenBytes::IsPlain(byte) &&
        matcher_.Next(state, static_cast<uint8_t>(byte)) != next) {
      return Matcher::kDead;
    }
  }
  // Follows the bytes of the others all at once.
  for (const auto& sequence : kPlainSequences) {
    std::set<int> states = {state};
    for (const ByteRange& range : sequence) {
      std::set<int> to;
      for (const int one : states) {
        for (int byte = range.lo; byte <= range.hi; ++byte) {
          to.insert(matcher_.Next(one, static_cast<uint8_t>(byte)));
        }
      }
      // Automata that tell characters apart have more.
      constexpr size_t kMost = 8;
      if (to.size() > kMost) return Matcher::kDead;
      states = std::move(to);
      if (range.last) break;
    }
    if (states != std::set<int>{next}) return Matcher::kDead;
  }
  return at->second = next;
}

}  // namespace rbln
