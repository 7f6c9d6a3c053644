#include "job/output.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "test_util.h"

namespace rbln {
namespace {

TEST_CASE("lines are written in order, whatever order they come in") {
  TempDir dir;
  OrderedOutput output(dir / "out");
  output.Put(2, "c");
  output.Put(1, "b");
  CHECK(output.next_index() == 0);
  CHECK(output.waiting_bytes() == 4);
  output.Put(0, "a");
  CHECK(output.next_index() == 3);
  CHECK(output.waiting_bytes() == 0);
  output.Put(3, "d");
  CHECK_FALSE(std::filesystem::exists(dir / "out"));
  output.Finish();
  CHECK(ReadTestFile(dir / "out") == "a\nb\nc\nd\n");
}

TEST_CASE("an unfinished output leaves nothing, and an older file as it was") {
  TempDir dir;
  WriteTestFile(dir / "out", "old");
  {
    OrderedOutput output(dir / "out");
    output.Put(0, std::string(1 << 20, 'x'));
    output.Flush();
  }
  CHECK(ReadTestFile(dir / "out") == "old");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    (void)entry;
    ++files;
  }
  CHECK(files == 1);
}

TEST_CASE("a directory that is not there is a resource error") {
  TempDir dir;
  try {
    OrderedOutput output(dir / "none/out");
    FAIL("opened");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kResource);
  }
}

}  // namespace
}  // namespace rbln
