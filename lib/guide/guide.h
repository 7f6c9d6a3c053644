// Which tokens may come next, so that a text comes out as it was asked for.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "guide/grammar.h"
#include "guide/matcher.h"
#include "guide/token_bytes.h"

namespace rbln {

// One grammar over one vocabulary, for any number of sequences. What is worked
// out for one serves all, within bounds of memory. Answers never depend on what
// was asked before. Not thread safe.
class Guide {
 public:
  // `tokens` must outlive this object.
  Guide(std::unique_ptr<const Grammar> grammar, const TokenBytes& tokens);
  ~Guide();

  // How far one text has come.
  class Cursor {
   public:
    // `at_start`: the text begins with the first token of all, which some
    // decoders treat differently. `guide` must outlive this object.
    Cursor(Guide& guide, bool at_start);
    ~Cursor();
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    // The tokens that may come next; tokens that end a text are not among them.
    // Valid until the guide is used again. Throws Error(kUsage) where the
    // grammar is so ambiguous that it would take too long to tell.
    const TokenMask& Allowed();
    // Whether the text may end here.
    bool MayEnd() const;
    // Takes a token that is allowed. Throws as Allowed does.
    void Push(TokenId id);

   private:
    friend class Guide;
    Guide& guide_;
    bool first_;
    int state_;
  };

  // Gives up most of its memory, where it has much.
  void Trim();
  // Masks that were computed, and not remembered from before. For tests.
  int64_t cold_masks() const { return cold_masks_; }

 private:
  struct CachedMask {
    std::pair<int, bool> key;  // state, first
    TokenMask mask;
  };

  const TokenMask& Mask(Cursor& cursor);
  void Compute(int state, bool first, TokenMask& mask);
  // Whether from `state` every plain token leads on.
  bool IsInText(int state);
  // The one state to which every plain character leads; kDead: there is none.
  int BehindPlain(int state);
  // Calls `step` until the matcher has had room for it.
  template <typename Step>
  void Run(const Step& step);
  void Compact();

  const std::unique_ptr<const Grammar> grammar_;
  const TokenBytes& tokens_;
  Matcher matcher_;
  std::set<Cursor*> cursors_;
  // The most recently used first.
  std::list<CachedMask> masks_;
  std::map<std::pair<int, bool>, std::list<CachedMask>::iterator> mask_index_;
  std::unordered_map<int, int> behind_plain_;
  std::vector<int> scratch_;
  int64_t cold_masks_ = 0;
};

}  // namespace rbln
