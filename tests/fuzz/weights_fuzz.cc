// Any bytes as a weights file.
#include <cstdint>
#include <string_view>

#include "artifact/weights.h"
#include "test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const rbln::TempDir directory;
  const std::string path = directory / "weights.safetensors";
  rbln::WriteTestFile(path, {reinterpret_cast<const char*>(data), size});
  try {
    const rbln::PackedWeights weights(path);
    weights.Find("model.norm.weight", 64);
  } catch (const rbln::Error&) {
  }
  return 0;
}
