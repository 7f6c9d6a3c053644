// Any bytes as config.json, and what is computed from what it says.
#include <cstdint>
#include <string_view>

#include "checkpoint/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const rbln::ModelDescription model = rbln::ParseModelConfig(
        {reinterpret_cast<const char*>(data), size}, "fuzz");
    if (model.NumParameters() <= 0) __builtin_trap();
    model.Rotary(model.LongestSequence());
  } catch (const rbln::Error&) {
  }
  return 0;
}
