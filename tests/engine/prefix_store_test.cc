#include "engine/prefix_store.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "test_util.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> Content(int seed, size_t size = 1000) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = std::byte(seed * 7 + i * 13);
  return bytes;
}

std::vector<fs::path> Files(const std::string& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files.push_back(entry.path());
  }
  return files;
}

const std::vector<TokenId> kTokens = {1, 2, 3, 4};

TEST_CASE(
    "a block is found again by its tokens, those before and the artifact") {
  const TempDir temp;
  PrefixStore store(temp / "cache", 1 << 20, "artifact");
  const std::string first = store.Name("", kTokens);
  const std::string second = store.Name(first, kTokens);
  CHECK(first != second);
  CHECK(PrefixStore(temp / "cache", 1 << 20, "other").Name("", kTokens) !=
        first);
  store.Save(first, Content(1));
  store.Save(second, Content(2));
  PrefixStore again(temp / "cache", 1 << 20, "artifact");
  std::vector<std::byte> block(1000);
  CHECK(again.Load(again.Name("", kTokens), block));
  CHECK(block == Content(1));
  CHECK(again.Load(second, block));
  CHECK(block == Content(2));
  CHECK_FALSE(again.Load(again.Name(second, kTokens), block));
}

TEST_CASE("a damaged file is dropped, and what was asked for stays as it was") {
  const TempDir temp;
  PrefixStore store(temp.path(), 1 << 20, "artifact");
  const std::string name = store.Name("", kTokens);
  store.Save(name, Content(1));
  const std::string path = Files(temp.path()).at(0);
  const std::string good = ReadTestFile(path);
  std::vector<std::byte> block = Content(9);
  // Every byte matters, and every length.
  for (size_t at = 0; at < good.size(); at += 17) {
    std::string bad = good;
    bad[at] ^= 1;
    WriteTestFile(path, bad);
    REQUIRE_FALSE(store.Load(name, block));
    REQUIRE_FALSE(fs::exists(path));
    WriteTestFile(path, good.substr(0, at));
    REQUIRE_FALSE(store.Load(name, block));
    REQUIRE_FALSE(fs::exists(path));
  }
  CHECK(block == Content(9));
  // It can be kept anew.
  store.Save(name, Content(1));
  CHECK(store.Load(name, block));
  // A file of another block under this name is none.
  const std::string other = store.Name(name, kTokens);
  fs::copy_file(path, temp / (other + ".rblnkv"));
  CHECK_FALSE(store.Load(other, block));
}

TEST_CASE("the least recently used go first, and nothing but our files") {
  const TempDir temp;
  WriteTestFile(temp / "mine.txt", std::string(100000, 'x'));
  PrefixStore store(temp.path(), 11000, "artifact");
  std::vector<std::string> names = {store.Name("", kTokens)};
  for (int i = 1; i < 30; ++i)
    names.push_back(store.Name(names[i - 1], kTokens));
  std::vector<std::byte> block(1000);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 10; ++i) {
    store.Save(names[i], Content(i));
    fs::last_write_time(temp / (names[i] + ".rblnkv"),
                        now - std::chrono::minutes(100 - i));
  }
  CHECK(store.Load(names[0], block));  // used: no longer the oldest
  for (int i = 10; i < 13; ++i) store.Save(names[i], Content(i));
  CHECK(store.Load(names[0], block));
  CHECK_FALSE(store.Load(names[1], block));
  CHECK(store.Load(names[12], block));
  uint64_t bytes = 0;
  for (const fs::path& file : Files(temp.path())) bytes += fs::file_size(file);
  CHECK(bytes <= 111000);
  CHECK(fs::exists(temp / "mine.txt"));
  // A smaller bound holds from the start.
  PrefixStore smaller(temp.path(), 3000, "artifact");
  CHECK(Files(temp.path()).size() <= 3);
  // A block that is larger than all of it is not kept.
  smaller.Save(names[29], Content(1, 5000));
  CHECK_FALSE(fs::exists(temp / (names[29] + ".rblnkv")));
}

TEST_CASE("what cannot be a directory is refused") {
  const TempDir temp;
  WriteTestFile(temp / "file", "x");
  CHECK_THROWS_AS(PrefixStore(temp / "file", 1 << 20, "a"), Error);
}

}  // namespace
}  // namespace rbln
