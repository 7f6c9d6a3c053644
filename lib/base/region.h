// Large memory, taken from the machine as it is touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rbln {

// Memory of zeros, page-aligned, in huge pages where the machine gives them.
// Owned by this object, which can be moved.
class Region {
 public:
  Region() = default;
  // `what` names it in the message of Error(kResource).
  Region(uint64_t bytes, const char* what);
  Region(const Region&) = delete;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace rbln
