// Cutting normalized text into the pieces that are encoded one by one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_file.h"
#include "text/tokenizer_regex.h"

namespace rbln {

// The "pre_tokenizer" member. Immutable once built. Every kind of pre-tokenizer
// comes down to a few primitive steps; each piece that one step yields goes
// through the steps after it.
class PreTokenizer {
 private:
  class Splitter;

 public:
  // Leaves text in one piece.
  PreTokenizer() = default;
  // Throws on a pre-tokenizer that is not known. `start_moves` says that the
  // start of the text that is cut may not be the start of the text as given.
  PreTokenizer(const Json& value, bool start_moves, const FileContext& file);

  using Sink = std::function<void(std::string_view piece)>;

  // One walk through a text, with the buffers that it needs. For one thread.
  class Run {
   public:
    // Both must outlive this object.
    Run(const PreTokenizer& pre_tokenizer, const Sink& sink);
    // Gives the sink the pieces of `text`, in order. `at_start` says that
    // `text` stands first in the text as given.
    void Split(std::string_view text, bool at_start);

   private:
    friend class Splitter;
    void RunStep(size_t index, std::string_view piece, bool at_start);

    const PreTokenizer& pre_tokenizer_;
    const Sink& sink_;
    std::vector<std::unique_ptr<Regex::Matches>> matches_;  // by step
    std::vector<std::string> buffers_;                      // by step
  };

 private:
  // What becomes of a match, the delimiter.
  enum class Behavior {
    kIsolated,
    kRemoved,
    kContiguous,
    kMergedWithPrevious,
    kMergedWithNext,
  };
  struct Step {
    enum Kind { kSplit, kPrefix, kByteLevel } kind;
    // kSplit
    std::optional<Regex> pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
    // kPrefix: spaces become `prefix`, which is then put before text that does
    // not begin with it.
    std::string prefix;
    enum { kAlways, kFirst, kNever } where = kAlways;
  };

  void Add(const JsonFields& fields, bool start_moves);
  void AddSplit(Regex pattern, Behavior behavior, bool invert);
  void AddPrefix(std::string prefix);
  static Behavior ReadBehavior(const JsonFields& fields,
                               const std::string& name);

  std::vector<Step> steps_;
};

}  // namespace rbln
