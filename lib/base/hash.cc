#include "base/hash.h"

#include <fmt/core.h>
#include <xxhash.h>

namespace rbln {
namespace {

std::string Format(XXH128_hash_t hash) {
  return fmt::format("xxh3:{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh);
}
Hasher::~Hasher() = default;

void Hasher::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
void Hasher::Update(std::string_view bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
std::string Hasher::Digest() const {
  return Format(XXH3_128bits_digest(state_->xxh));
}

std::string HashBytes(std::span<const std::byte> bytes) {
  return Format(XXH3_128bits(bytes.data(), bytes.size()));
}
std::string HashBytes(std::string_view bytes) {
  return Format(XXH3_128bits(bytes.data(), bytes.size()));
}
uint64_t Hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace rbln
