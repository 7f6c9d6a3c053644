// From token contents back to text: the "decoder" of a tokenizer.json, as a
// chain of stages that each take one token after another.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/tokenizer_file.h"

namespace rbln {

// Immutable once built.
class Decoder {
 public:
  // `value` may be null: contents are then joined by spaces. Throws on a
  // decoder that is not known, and on an order of stages that cannot be
  // followed token by token.
  Decoder(const Json* value, const FileContext& file);

  // The bytes that a token adds, be it the first of a text or not. Throws
  // Error(kUsage) where they depend on more than that.
  std::string Bytes(std::string_view token, bool first) const;

  // One growing text. Cost per token does not grow with the length.
  class Stream {
   public:
    explicit Stream(const Decoder& decoder);  // must outlive this object
    // Appends to `*out` the text that the token completes.
    void Push(std::string_view token, std::string* out);
    // Gives up the text that is complete and was only held back because more
    // could have changed it.
    void Settle(std::string* out);
    // Appends what is left when the text ends.
    void Finish(std::string* out);
    // Forgets bytes that are no character yet.
    void DropIncomplete();
    // Whether no token was pushed.
    bool at_start() const { return !any_; }

   private:
    struct State {
      std::string pending;  // bytes of a run (kByteFallback, kByteLevel)
      bool any = false;     // whether a token was seen
      size_t to_strip = 0;  // kStrip, fused: from the start
      size_t held = 0;      // kStrip, fused: back from the end
    };

    void PushTo(size_t stage, std::string_view token, std::string* out);
    void EndByteRun(size_t stage, std::string* out);
    void FinishStage(size_t stage, std::string* out);

    const Decoder* decoder_;
    std::vector<State> states_;
    bool any_ = false;
  };

 private:
  struct Stage {
    enum Kind {
      kJoin,       // a space between tokens
      kByteLevel,  // byte-level alphabet to bytes; fuses
      kMetaspace,  // marks to spaces, but for the first token
      kReplace,
      kByteFallback,  // runs of <0xHH> to characters
      kFuse,          // all that follow see one token
      kStrip,
    } kind;
    TextPattern pattern;       // kMetaspace, kReplace: what is replaced
    std::string content;       // kReplace: by what; kStrip: one character
    bool strip_first = false;  // kMetaspace: the first token has no spaces
    size_t start = 0;          // kStrip: so many, at most
    size_t stop = 0;
    bool fused = false;  // sees parts of one token
  };

  void Add(const JsonFields& fields);
  bool fused() const;

  std::vector<Stage> stages_;
};

}  // namespace rbln
