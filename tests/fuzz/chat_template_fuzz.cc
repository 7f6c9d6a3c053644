// Any bytes as a template, over a small conversation: it renders or it ends in
// an rbln::Error, in bounded time and memory.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const rbln::OrderedJson kContext = {
      {"messages",
       {{{"role", "user"}, {"content", "Hi \u00e9"}},
        {{"role", "assistant"}, {"content", nullptr}}}},
      {"add_generation_prompt", true},
      {"n", 3},
      {"x", 1.5},
  };
  rbln::ChatTemplate::Limits limits;
  limits.max_steps = 100'000;
  limits.max_output_bytes = size_t{1} << 20;
  try {
    rbln::ChatTemplate::Parse(
        std::string_view(reinterpret_cast<const char*>(data), size), "fuzz",
        rbln::ErrorKind::kUsage)
        ->Render(kContext, 0, limits);
  } catch (const rbln::Error&) {
  }
  return 0;
}
