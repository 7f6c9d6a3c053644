// One line of the output.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "job/prompt_line.h"

namespace rbln {

// The answer to a line: `results` has one entry for each of its prompts, or is
// empty where the line has an error. No end of line.
std::string FormatAnswer(const PromptLine& line,
                         const std::vector<Finished>& results,
                         const Tokenizer& tokenizer);

}  // namespace rbln
