#include "guide/guide.h"

#include <algorithm>

#include "base/error.h"

namespace rbln {
namespace {

// What a guide may work out before it forgets: some tens of megabytes at most.
// One answer of a usual schema takes a thousandth of it.
constexpr int64_t kEnoughWork = 1'000'000;
constexpr int64_t kMostWork = 4'000'000;
constexpr size_t kMaskBytes = size_t{8} << 20;

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

void Guide::Compact() {
  std::vector<int> states;
  for (const Cursor* cursor : cursors_) states.push_back(cursor->state_);
  matcher_.Compact(&states);
  auto state = states.begin();
  for (Cursor* cursor : cursors_) cursor->state_ = *state++;
  masks_.clear();
  mask_index_.clear();
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
}

// Follows the bytes of all plain characters at once: after some of a
// character's bytes, there is one state for each way in which UTF-8 can go on.
bool Guide::IsInText(int state) {
  for (int byte = 0x20; byte < 0x7F; ++byte) {
    if (TokenBytes::IsPlain(byte) &&
        matcher_.Next(state, static_cast<uint8_t>(byte)) != state) {
      return false;
    }
  }
  struct Lead {
    uint8_t lo, hi;  // first bytes
    uint8_t next_lo, next_hi;
    int more;  // bytes behind the second
  };
  // The Unicode Standard, table 3-7.
  constexpr Lead kLeads[] = {
      {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
      {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
      {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
      {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
  // Where all bytes of a range lead to from all of `from`.
  const auto step = [&](const std::set<int>& from, int lo, int hi) {
    std::set<int> to;
    for (const int one : from) {
      for (int byte = lo; byte <= hi; ++byte) {
        to.insert(matcher_.Next(one, static_cast<uint8_t>(byte)));
      }
    }
    return to;
  };
  constexpr size_t kMost = 8;
  for (const Lead& lead : kLeads) {
    std::set<int> states = step({state}, lead.lo, lead.hi);
    if (states.size() > kMost) return false;
    states = step(states, lead.next_lo, lead.next_hi);
    for (int i = 0; i < lead.more; ++i) {
      if (states.size() > kMost) return false;
      states = step(states, 0x80, 0xBF);
    }
    if (states != std::set<int>{state}) return false;
  }
  return true;
}

}  // namespace rbln
