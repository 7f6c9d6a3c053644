// Any bytes as rbln.yaml, resolved for a small model.
#include <cstdint>
#include <string>

#include "compiler/options.h"
#include "test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const rbln::TempDir directory;
  static const rbln::ModelDescription model = rbln::ParseModelConfig(
      rbln::ReadTestFile(std::string(RBLN_SOURCE_DIR) +
                         "/tests/data/models/llama3-rope/config.json"),
      "config.json");
  const std::string path = directory / "rbln.yaml";
  rbln::WriteTestFile(path, {reinterpret_cast<const char*>(data), size});
  try {
    rbln::ResolveOptions(rbln::CompileConfig::FromFile(path), model);
  } catch (const rbln::Error&) {
  }
  return 0;
}
