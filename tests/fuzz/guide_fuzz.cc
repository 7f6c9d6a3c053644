// Any bytes as a schema, a pattern or a list of choices; then a walk over its
// tokens. The first byte says which; the last ones choose the way.
#include <cstdint>
#include <string>

#include "guide/guide.h"
#include "guide/guide_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string model =
      std::string(RBLN_SOURCE_DIR) + "/examples/tiny-chat";
  static const auto tokenizer =
      rbln::Tokenizer::Load(model, rbln::ErrorKind::kModel);
  static const rbln::TokenBytes tokens(*tokenizer, tokenizer->vocab_size());
  if (size == 0 || size > 4096) return 0;
  constexpr rbln::GuideSpec::Kind kKinds[] = {rbln::GuideSpec::Kind::kSchema,
                                              rbln::GuideSpec::Kind::kRegex,
                                              rbln::GuideSpec::Kind::kChoice};
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    rbln::Guide guide(rbln::CompileGuide({kKinds[data[0] % 3], text, "guide"}),
                      tokens);
    rbln::Guide::Cursor cursor(guide, data[0] % 2 == 0);
    for (size_t step = 0; step < 50; ++step) {
      const rbln::TokenMask& mask = cursor.Allowed();
      // From a place that the input chooses, the next token that is allowed.
      const int count = tokens.vocab_size();
      int id = data[size - 1 - step % size] * 7 % count;
      int tried = 0;
      while (tried < count && !rbln::Allows(mask, id)) {
        id = (id + 1) % count;
        ++tried;
      }
      if (tried == count) {
        // This vocabulary spells every text: only an end may be here.
        if (!cursor.MayEnd()) __builtin_trap();
        break;
      }
      cursor.Push(id);
    }
  } catch (const rbln::Error& error) {
    if (error.kind() != rbln::ErrorKind::kUsage) __builtin_trap();
  }
  return 0;
}
