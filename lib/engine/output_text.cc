#include "engine/output_text.h"

#include <algorithm>

namespace rbln {

OutputText::OutputText(const Tokenizer& tokenizer, const SamplingParams& params,
                       const std::vector<TokenId>& prompt)
    : detokenizer_(tokenizer, prompt, params.skip_special_tokens),
      params_(params) {
  // A guide knows nothing of what a prompt left unfinished.
  if (params.guide) detokenizer_.DropIncomplete();
}

std::optional<std::string> OutputText::Push(TokenId id) {
  const size_t before = text_.size();
  text_ += detokenizer_.Push(id);
  ++tokens_;
  if (tokens_ <= params_.min_tokens || text_.size() == before) {
    return std::nullopt;
  }
  for (const std::string& stop : params_.stop) {
    const size_t start = before + 1 - std::min(before + 1, stop.size());
    const size_t at = text_.find(stop, start);
    if (at == std::string::npos) continue;
    text_.resize(params_.include_stop_str_in_output ? at + stop.size() : at);
    return stop;
  }
  return std::nullopt;
}

void OutputText::Finish() { text_ += detokenizer_.Finish(); }

}  // namespace rbln
