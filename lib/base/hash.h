// Checksums: XXH3, 128 bits, written "xxh3:" and 32 hexadecimal digits.
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rbln {

// A running checksum over bytes in order. Not thread safe.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view bytes);
  // The checksum of everything so far.
  std::string Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string HashBytes(std::span<const std::byte> bytes);
std::string HashBytes(std::string_view bytes);
// 64 bits of the same function, for tables in memory.
uint64_t Hash64(std::string_view bytes, uint64_t seed = 0);

}  // namespace rbln
