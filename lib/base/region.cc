#include "base/region.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace rbln {

Region::Region(uint64_t bytes, const char* what) {
  if (bytes == 0) return;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    throw ResourceError("cannot take {} bytes for {}: {}", bytes, what,
                        std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(data);
  size_ = bytes;
}

Region::Region(Region&& other) noexcept { *this = std::move(other); }

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Region::~Region() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace rbln
