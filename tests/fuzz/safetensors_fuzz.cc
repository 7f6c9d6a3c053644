// Any bytes as the JSON of a safetensors header.
#include <cstdint>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const uint64_t begin = rbln::kSafetensorsLengthBytes + size;
  const uint64_t end = begin + 4096;
  try {
    const auto entries = rbln::ParseSafetensorsHeader(
        {reinterpret_cast<const char*>(data), size}, begin, end, "fuzz");
    for (const auto& [name, entry] : entries) {
      if (entry.offset < begin || entry.offset > end ||
          entry.bytes > end - entry.offset) {
        __builtin_trap();
      }
    }
  } catch (const rbln::Error&) {
  }
  return 0;
}
