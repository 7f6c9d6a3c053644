// Fuzz entry: a tokenizer.json from arbitrary bytes, and a text through it.
// The input is the file, then optionally a zero byte and a text.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "test_util.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const rbln::TempDir directory;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  rbln::WriteTestFile(directory / "tokenizer.json", input.substr(0, cut));
  const std::string_view text = cut == input.npos
                                    ? "The quick 12 \xE4\xBD\xA0 <s>\n"
                                    : input.substr(cut + 1);
  try {
    const auto tokenizer =
        rbln::Tokenizer::Load(directory.path(), rbln::ErrorKind::kModel);
    const std::vector<rbln::TokenId> ids = tokenizer->Encode(text, true);
    const std::string whole = tokenizer->Decode(ids, false);
    rbln::Detokenizer detokenizer(*tokenizer, {}, false);
    std::string streamed;
    for (const rbln::TokenId id : ids) streamed += detokenizer.Push(id);
    streamed += detokenizer.Finish();
    if (streamed != whole) __builtin_trap();
  } catch (const rbln::Error&) {
    // What bad input is to end in.
  }
  return 0;
}
