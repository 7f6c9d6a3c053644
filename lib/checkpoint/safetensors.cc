#include "checkpoint/safetensors.h"

#include <algorithm>

#include "base/json.h"

namespace rbln {
namespace {

// Bytes of one element; 0 for a type whose size we need not know, since no
// tensor of a model has it.
uint64_t ElementBytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") {
    return 2;
  }
  if (dtype == "I8" || dtype == "U8" || dtype == "BOOL") return 1;
  return 0;
}

}  // namespace

std::map<std::string, SafetensorsEntry> ParseSafetensorsHeader(
    std::string_view json, uint64_t data_begin, uint64_t file_bytes,
    const std::string& name) {
  const Json header = ParseJson(json, name, ErrorKind::kUsage);
  if (!header.is_object()) {
    throw UsageError("{}: the header is not a JSON object", name);
  }
  const uint64_t data_bytes = file_bytes - data_begin;
  std::map<std::string, SafetensorsEntry> entries;
  std::vector<std::pair<uint64_t, const std::string*>> order;
  for (const auto& [tensor, value] : header.items()) {
    if (tensor == "__metadata__") continue;
    SafetensorsEntry entry;
    uint64_t begin = 0, end = 0;
    try {
      value.at("dtype").get_to(entry.dtype);
      for (const Json& dimension : value.at("shape")) {
        if (!dimension.is_number_unsigned()) throw std::out_of_range("shape");
        entry.shape.push_back(dimension.get<int64_t>());
      }
      const Json& offsets = value.at("data_offsets");
      if (offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
          !offsets[1].is_number_unsigned()) {
        throw std::out_of_range("data_offsets");
      }
      begin = offsets[0].get<uint64_t>();
      end = offsets[1].get<uint64_t>();
    } catch (const std::exception&) {
      throw UsageError(
          "{}: tensor '{}': expected dtype, shape and data_offsets, found {}",
          name, tensor,
          value.dump(-1, ' ', false, Json::error_handler_t::replace)
              .substr(0, 80));
    }
    if (begin > end || end > data_bytes) {
      throw UsageError(
          "{}: tensor '{}' lies at {} to {}, but the file has {} bytes of "
          "data; "
          "it may be cut off: download it again",
          name, tensor, begin, end, data_bytes);
    }
    uint64_t expected = ElementBytes(entry.dtype);
    bool overflow = false;
    for (const int64_t dimension : entry.shape) {
      overflow |= dimension < 0 ||
                  __builtin_mul_overflow(
                      expected, static_cast<uint64_t>(dimension), &expected);
    }
    if (overflow ||
        (ElementBytes(entry.dtype) != 0 && expected != end - begin)) {
      throw UsageError(
          "{}: tensor '{}' has {} bytes, its shape of {} wants {}", name,
          tensor, end - begin, Json(entry.shape).dump(),
          overflow ? "more than there can be" : std::to_string(expected));
    }
    entry.offset = data_begin + begin;
    entry.bytes = end - begin;
    entries.emplace(tensor, std::move(entry));
  }
  for (const auto& [tensor, entry] : entries) {
    if (entry.bytes > 0) order.emplace_back(entry.offset, &tensor);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); ++i) {
    const SafetensorsEntry& before = entries.at(*order[i - 1].second);
    if (before.offset + before.bytes > order[i].first) {
      throw UsageError("{}: tensors '{}' and '{}' overlap", name,
                       *order[i - 1].second, *order[i].second);
    }
  }
  return entries;
}

}  // namespace rbln
