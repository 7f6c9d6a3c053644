// Any bytes as the index of a sharded checkpoint. The one shard there is is
// good; a file beside the directory must not be reached.
#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const rbln::TempDir temp;
  static const std::string directory = [] {
    const std::string from =
        std::string(RBLN_SOURCE_DIR) + "/tests/data/models/llama-sharded/";
    const std::string path = temp / "checkpoint";
    for (const char* name : {"config.json", "model-00001-of-00003.safetensors",
                             "model-00002-of-00003.safetensors"}) {
      rbln::WriteTestFile(path + "/" + name, rbln::ReadTestFile(from + name));
    }
    // Complete only with a shard that lies outside.
    rbln::WriteTestFile(
        temp / "model-00003-of-00003.safetensors",
        rbln::ReadTestFile(from + "model-00003-of-00003.safetensors"));
    return path;
  }();
  rbln::WriteTestFile(directory + "/model.safetensors.index.json",
                      {reinterpret_cast<const char*>(data), size});
  try {
    rbln::Checkpoint::Open(directory, /*dummy=*/false);
    __builtin_trap();
  } catch (const rbln::Error&) {
  }
  return 0;
}
