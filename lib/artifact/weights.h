// The packed weights: a safetensors file of byte tensors whose content is laid
// out as kernels read it. One per tensor parallel rank.
// Format: https://huggingface.co/docs/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace rbln {

// Name of the weights file of a rank, of `ranks`.
std::string WeightsFileName(int rank, int ranks);

// Where each tensor of a weights file goes. Tensors are laid out in the order
// of Add, each at a multiple of kAlignment.
class WeightsLayout {
 public:
  // `bytes` is a multiple of kAlignment.
  void Add(const std::string& name, uint64_t bytes);
  // The file's first bytes: length and JSON.
  std::string Header() const;
  // Position in the file of a tensor's first byte. The header must not grow any
  // more: call after the last Add.
  uint64_t Offset(size_t index) const;
  uint64_t file_bytes() const;

 private:
  struct Entry {
    std::string name;
    uint64_t begin;
    uint64_t end;
  };
  std::vector<Entry> entries_;
};

// A weights file, mapped. Immutable; shared by all threads.
class PackedWeights {
 public:
  // Maps the file and checks its header: tensors are aligned and take every
  // byte, each once. Their content is not read. Throws Error(kModel).
  explicit PackedWeights(const std::string& path);
  // The bytes of a tensor. Throws Error(kModel) when it is not there or does
  // not have `bytes` bytes.
  std::span<const std::byte> Find(const std::string& name,
                                  uint64_t bytes) const;
  std::span<const std::byte> file() const { return file_.bytes(); }
  const std::string& path() const { return file_.path(); }

 private:
  MappedFile file_;
  std::map<std::string, std::span<const std::byte>, std::less<>> tensors_;
};

}  // namespace rbln
