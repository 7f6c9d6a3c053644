// Any bytes as rbln_config.json. What is taken is written as it was read.
#include <cstdint>
#include <string_view>

#include "artifact/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using rbln::Manifest;
  constexpr auto kKind = rbln::ErrorKind::kModel;
  try {
    const Manifest manifest = Manifest::FromJson(
        rbln::ParseJson({reinterpret_cast<const char*>(data), size}, "fuzz",
                        kKind),
        "fuzz");
    manifest.KvBytesPerSequence();
    const std::string text = manifest.ToJson();
    const rbln::Json json = rbln::ParseJson(text, "again", kKind);
    if (Manifest::FromJson(json, "again").ToJson() != text) __builtin_trap();
  } catch (const rbln::Error&) {
  }
  return 0;
}
