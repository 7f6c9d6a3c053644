#include "job/line_reader.h"

#include <doctest/doctest.h>

#include <vector>

#include "test_util.h"

namespace rbln {
namespace {

using Result = LineReader::Result;

std::vector<std::string> ReadAll(const std::string& content, size_t bound) {
  TempDir dir;
  WriteTestFile(dir / "in", content);
  LineReader reader(dir / "in", bound);
  CHECK(reader.total_bytes() == static_cast<int64_t>(content.size()));
  std::vector<std::string> lines;
  std::string line;
  while (true) {
    switch (reader.Next(LineReader::kForever, line)) {
      case Result::kLine:
        lines.push_back(line);
        break;
      case Result::kTooLong:
        lines.push_back("TOO LONG");
        break;
      case Result::kNotReady:
        FAIL("not ready");
        break;
      case Result::kEnd:
        CHECK(reader.line_number() == static_cast<int64_t>(lines.size()));
        CHECK(reader.bytes_read() == reader.total_bytes());
        return lines;
    }
  }
}

TEST_CASE("lines come without their ends, and the last one needs none") {
  using Lines = std::vector<std::string>;
  CHECK(ReadAll("", 10).empty());
  CHECK(ReadAll("a\nb\n", 10) == Lines{"a", "b"});
  CHECK(ReadAll("a\r\n\nb", 10) == Lines{"a", "", "b"});
  CHECK(ReadAll("\n", 10) == Lines{""});
}

TEST_CASE("a line beyond the bound is skipped and the next one is read") {
  using Lines = std::vector<std::string>;
  CHECK(ReadAll("0123456789\n01234567890\nb\n", 10) ==
        Lines{"0123456789", "TOO LONG", "b"});
  CHECK(ReadAll("01234567890", 10) == Lines{"TOO LONG"});
  const std::string huge(3 << 20, 'x');
  CHECK(ReadAll("a\n" + huge + "\nb\n", 1000) == Lines{"a", "TOO LONG", "b"});
  CHECK(ReadAll("a\n" + huge, 1000) == Lines{"a", "TOO LONG"});
  CHECK(ReadAll(huge + "\n", 4 << 20) == Lines{huge});
}

TEST_CASE("what is not a file of prompts is an error that names it") {
  TempDir dir;
  CHECK_THROWS_WITH(LineReader(dir / "none", 10),
                    (dir / "none: No such file or directory").c_str());
  CHECK_THROWS_WITH(
      LineReader(dir.path(), 10),
      (dir.path() + ": is a directory, not a file of prompts").c_str());
}

}  // namespace
}  // namespace rbln
