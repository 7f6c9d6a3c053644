// The text of a sequence as its tokens come, and the stop strings in it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/sampling_params.h"
#include "text/tokenizer.h"

namespace rbln {

// A stop string may begin in one token and end in another: what is searched is
// the whole text so far, from where a match could still begin. `params` and
// `tokenizer` must outlive this object.
class OutputText {
 public:
  OutputText(const Tokenizer& tokenizer, const SamplingParams& params,
             const std::vector<TokenId>& prompt);

  // Appends the text of the next token. Returns the stop string that it
  // completes, if any: the first one of the list that is found. The text then
  // ends before it (or after it, with include_stop_str_in_output).
  std::optional<std::string> Push(TokenId id);
  // Appends what is left of an unfinished character. Call once, at the end of
  // a sequence that no stop string has ended.
  void Finish();
  const std::string& text() const { return text_; }
  // Gives the text away; it ends with that.
  std::string Take() { return std::move(text_); }
  // Whether nothing stands before the next token, as Tokenizer::Bytes has it.
  bool at_start() const { return detokenizer_.at_start(); }

 private:
  Detokenizer detokenizer_;
  const SamplingParams& params_;
  std::string text_;
  int tokens_ = 0;
};

}  // namespace rbln
