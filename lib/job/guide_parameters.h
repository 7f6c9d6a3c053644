// What the text of an answer must match, as requests say it: response_format of
// the OpenAI API, and vLLM's structured_outputs and its guided_json,
// guided_regex and guided_choice of before.
// Reference: https://docs.vllm.ai/en/latest/features/structured_outputs.html
#pragma once

#include <string_view>

#include "base/json.h"
#include "engine/sampling_params.h"

namespace rbln {

// Sets params.guide. False when there is no such parameter; null leaves
// everything as it is. Throws Error(kUsage), beginning with the name, for a
// value that is malformed or not supported, and where two say what to match.
// Whether a schema or a pattern can be followed is for the engine to check.
bool SetGuideParameter(SamplingParams& params, std::string_view name,
                       const OrderedJson& value);

}  // namespace rbln
