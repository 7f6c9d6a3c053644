#include "artifact/weights.h"

#include <fmt/core.h>

#include <cstring>

#include "artifact/program.h"
#include "base/json.h"

namespace rbln {
namespace {

constexpr uint64_t kLengthBytes = 8;

}  // namespace

std::string WeightsFileName(int rank, int ranks) {
  return ranks == 1 ? "weights.safetensors"
                    : fmt::format("weights.rank{}.safetensors", rank);
}

void WeightsLayout::Add(const std::string& name, uint64_t bytes) {
  const uint64_t begin = entries_.empty() ? 0 : entries_.back().end;
  entries_.push_back({name, begin, begin + bytes});
}

std::string WeightsLayout::Header() const {
  OrderedJson header = OrderedJson::object();
  for (const Entry& entry : entries_) {
    header[entry.name] = {{"dtype", "U8"},
                          {"shape", {entry.end - entry.begin}},
                          {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string json = header.dump();
  // The format lets a header end in spaces; the data then begins aligned.
  json.resize(AlignUp(kLengthBytes + json.size(), kAlignment) - kLengthBytes,
              ' ');
  std::string result(kLengthBytes, '\0');
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    result[i] = static_cast<char>(json.size() >> (8 * i));
  }
  return result + json;
}

uint64_t WeightsLayout::Offset(size_t index) const {
  return Header().size() + entries_[index].begin;
}

uint64_t WeightsLayout::file_bytes() const {
  return Header().size() + (entries_.empty() ? 0 : entries_.back().end);
}

PackedWeights::PackedWeights(const std::string& path)
    : file_(path, ErrorKind::kModel) {
  const std::span<const std::byte> bytes = file_.bytes();
  uint64_t length = 0;
  if (bytes.size() >= kLengthBytes) {
    for (uint64_t i = 0; i < kLengthBytes; ++i) {
      length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
    }
  }
  if (bytes.size() < kLengthBytes || length > bytes.size() - kLengthBytes) {
    throw ModelError("{}: not a weights file, or cut off: {} bytes", path,
                     bytes.size());
  }
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);
  const Json header = ParseJson(
      {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length},
      path, ErrorKind::kModel);
  if (!header.is_object()) {
    throw ModelError("{}: the header is not a JSON object", path);
  }
  std::map<uint64_t, uint64_t> ends;  // begin to end
  for (const auto& [name, entry] : header.items()) {
    const Json* offsets = nullptr;
    if (entry.is_object()) {
      const auto found = entry.find("data_offsets");
      if (found != entry.end() && found->is_array()) offsets = &*found;
    }
    if (offsets == nullptr || offsets->size() != 2 ||
        !(*offsets)[0].is_number_unsigned() ||
        !(*offsets)[1].is_number_unsigned()) {
      throw ModelError("{}: tensor '{}' has no data_offsets", path, name);
    }
    const uint64_t begin = (*offsets)[0].get<uint64_t>();
    const uint64_t end = (*offsets)[1].get<uint64_t>();
    if (begin >= end || end > data.size() || begin % kAlignment != 0 ||
        !ends.emplace(begin, end).second) {
      throw ModelError("{}: tensor '{}' lies at {} to {} of {} bytes", path,
                       name, begin, end, data.size());
    }
    tensors_[name] = data.subspan(begin, end - begin);
  }
  // Each byte is one tensor's: an offset that was changed leaves a gap.
  uint64_t at = 0;
  for (const auto& [begin, end] : ends) {
    if (begin != at) break;
    at = end;
  }
  if (at != data.size()) {
    throw ModelError(
        "{}: no tensor begins at {} of {} bytes; the header is "
        "damaged: compile it again",
        path, at, data.size());
  }
}

std::span<const std::byte> PackedWeights::Find(const std::string& name,
                                               uint64_t bytes) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw ModelError("{}: tensor '{}' is missing", path(), name);
  }
  if (found->second.size() != bytes) {
    throw ModelError("{}: tensor '{}' has {} bytes, the program wants {}",
                     path(), name, found->second.size(), bytes);
  }
  return found->second;
}

}  // namespace rbln
