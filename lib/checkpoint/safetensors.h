// The header of a safetensors file, checked.
// Format: https://huggingface.co/docs/safetensors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace rbln {

struct SafetensorsEntry {
  std::string dtype;  // as the file says: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of the first byte, in the file
  uint64_t bytes = 0;
};

// Bytes before the JSON: its length, little-endian.
inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;

// Parses the JSON of a header. `data_begin` is where the data begins in a file
// of `file_bytes` bytes. Throws UsageError naming file and tensor.
std::map<std::string, SafetensorsEntry> ParseSafetensorsHeader(
    std::string_view json, uint64_t data_begin, uint64_t file_bytes,
    const std::string& name);

}  // namespace rbln
