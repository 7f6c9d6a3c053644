#include "engine/prefix_store.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "RBLNKV01";
constexpr std::string_view kSuffix = ".rblnkv";
constexpr std::string_view kPartial = ".rblnkv-partial";
constexpr size_t kDigits = 32;
constexpr size_t kDigestBytes = 5 + kDigits;  // "xxh3:" and digits
// Unfinished files this old belong to no process that still runs.
constexpr auto kAbandoned = std::chrono::hours(1);

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string Checksum(const std::string& head,
                     std::span<const std::byte> block) {
  Hasher hasher;
  hasher.Update(head);
  hasher.Update(block);
  return hasher.Digest();
}

}  // namespace

PrefixStore::PrefixStore(std::string directory, uint64_t max_bytes,
                         std::string fingerprint)
    : directory_(std::move(directory)),
      max_bytes_(max_bytes),
      fingerprint_(std::move(fingerprint)) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error || !fs::is_directory(directory_, error)) {
    throw ResourceError("--prefix-cache: {}: cannot be used as a directory: {}",
                        directory_, error ? error.message() : "it is a file");
  }
  Trim(max_bytes_);
}

std::string PrefixStore::Name(const std::string& previous,
                              std::span<const TokenId> tokens) const {
  Hasher hasher;
  hasher.Update(previous.empty() ? fingerprint_ : previous);
  hasher.Update(std::as_bytes(tokens));
  return hasher.Digest().substr(kDigestBytes - kDigits);
}

std::string PrefixStore::Path(const std::string& name) const {
  return fmt::format("{}/{}{}", directory_, name, kSuffix);
}

bool PrefixStore::Load(const std::string& name, std::span<std::byte> block) {
  const std::string path = Path(name);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  const std::string head = std::string(kMagic) + name;
  try {
    const RandomAccessFile file(path, ErrorKind::kResource);
    if (file.size() == head.size() + block.size() + kDigestBytes) {
      std::string found(head.size(), '\0');
      std::string digest(kDigestBytes, '\0');
      buffer_.resize(block.size());
      file.Read(0, std::as_writable_bytes(std::span(found)));
      file.Read(head.size(), buffer_);
      file.Read(head.size() + block.size(),
                std::as_writable_bytes(std::span(digest)));
      if (found == head && digest == Checksum(head, buffer_)) {
        std::copy(buffer_.begin(), buffer_.end(), block.begin());
        // Used now: it goes last.
        fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
        known_.insert(name);
        return true;
      }
    }
    // The first says enough.
    spdlog::log(std::exchange(warned_, true) ? spdlog::level::debug
                                             : spdlog::level::warn,
                "{}: damaged, and ignored; it is computed again", path);
  } catch (const Error& error) {
    // Another process may have dropped it just now.
    if (fs::exists(path, ignored)) spdlog::warn("{}", error.what());
    return false;
  }
  fs::remove(path, ignored);
  known_.erase(name);
  return false;
}

void PrefixStore::Save(const std::string& name,
                       std::span<const std::byte> block) {
  const uint64_t size = kMagic.size() + kDigits + block.size() + kDigestBytes;
  if (!writable_ || size > max_bytes_ || known_.contains(name)) return;
  const std::string path = Path(name);
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    known_.insert(name);
    return;
  }
  // Some room, so that not every block looks through the directory.
  if (bytes_ + size > max_bytes_) Trim(max_bytes_ - max_bytes_ / 8 - size / 2);
  if (bytes_ + size > max_bytes_) return;
  const std::string partial =
      fmt::format("{}/{}-{}{}", directory_, getpid(), saves_++, kPartial);
  try {
    const std::string head = std::string(kMagic) + name;
    FileWriter file(partial);
    file.Write(head);
    file.Write(AsText(block));
    file.Write(Checksum(head, block));
    file.Close();
    // Not synced: a file torn by a power loss fails its checksum.
    RenameFile(partial, path, /*sync=*/false);
  } catch (const Error& error) {
    fs::remove(partial, ignored);
    writable_ = false;
    spdlog::warn("--prefix-cache: nothing more is kept: {}", error.what());
    return;
  }
  bytes_ += size;
  known_.insert(name);
}

void PrefixStore::Trim(uint64_t most) {
  struct Entry {
    fs::file_time_type time;
    fs::path path;
    uint64_t size;
  };
  std::vector<Entry> entries;
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  bytes_ = 0;
  for (auto at = fs::directory_iterator(directory_, error);
       !error && at != fs::directory_iterator(); at.increment(error)) {
    // Any of these may be gone by now.
    std::error_code gone;
    const std::string name = at->path().filename();
    const bool partial = name.ends_with(kPartial);
    if (!partial && !name.ends_with(kSuffix)) continue;
    const auto time = fs::last_write_time(at->path(), gone);
    const uint64_t size = gone ? 0 : fs::file_size(at->path(), gone);
    if (gone) continue;
    if (partial) {
      if (now - time > kAbandoned) fs::remove(at->path(), gone);
      continue;
    }
    entries.push_back({time, at->path(), size});
    bytes_ += size;
  }
  if (bytes_ <= most) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (bytes_ <= most) break;
    fs::remove(entry.path, error);
    known_.erase(entry.path.stem());
    bytes_ -= entry.size;
  }
}

}  // namespace rbln
