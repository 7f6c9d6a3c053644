// Files that are written whole or not at all, and what else a path may name.
#include "base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "test_util.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

std::string ErrorOf(const std::string& path) {
  try {
    ResolveOutput(path, ErrorKind::kUsage);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    return error.what();
  }
  return "none";
}

TEST_CASE("a file takes the place of the old one, or leaves it as it was") {
  const TempDir dir;
  WriteTestFile(dir / "out", "old");
  {
    AtomicFile file(dir / "out");
    file.Write("half");
  }
  CHECK(ReadTestFile(dir / "out") == "old");
  CHECK_FALSE(fs::exists(TemporaryPath(dir / "out")));
  WriteFileAtomically(dir / "out", "new");
  CHECK(ReadTestFile(dir / "out") == "new");
  CHECK_FALSE(fs::exists(TemporaryPath(dir / "out")));
}

TEST_CASE("a symbolic link stays, and what it leads to is replaced") {
  const TempDir dir;
  fs::create_directories(dir / "far");
  WriteTestFile(dir / "far/there", "old");
  fs::create_symlink("far/there", dir / "link");
  fs::create_symlink(dir / "link", dir / "again");
  fs::create_symlink("far/not yet", dir / "dangling");
  WriteFileAtomically(dir / "again", "new");
  CHECK(fs::is_symlink(dir / "again"));
  CHECK(fs::is_symlink(dir / "link"));
  CHECK(ReadTestFile(dir / "far/there") == "new");
  WriteFileAtomically(dir / "dangling", "first");
  CHECK(fs::is_symlink(dir / "dangling"));
  CHECK(ReadTestFile(dir / "far/not yet") == "first");
  fs::create_symlink("round", dir / "round");
  CHECK(ErrorOf(dir / "round").find("too many symbolic links") !=
        std::string::npos);
}

TEST_CASE("a FIFO stays one, and gets the bytes") {
  const TempDir dir;
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("fifo", dir / "link");
  const int reader = open((dir / "fifo").c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  for (const char* name : {"fifo", "link"}) {
    CHECK(ResolveOutput(dir / name, ErrorKind::kUsage).direct);
    WriteFileAtomically(dir / name, "bytes");
    char bytes[8] = {};
    CHECK(read(reader, bytes, sizeof(bytes)) == 5);
    CHECK(std::string(bytes) == "bytes");
    CHECK(fs::is_fifo(dir / name));
  }
  close(reader);
}

TEST_CASE("what a process has open is added to, not replaced") {
  const TempDir dir;
  WriteTestFile(dir / "open", "answers\n");
  const int fd = open((dir / "open").c_str(), O_RDONLY);
  REQUIRE(fd >= 0);
  WriteFileAtomically("/dev/fd/" + std::to_string(fd), "report\n");
  close(fd);
  CHECK(ReadTestFile(dir / "open") == "answers\nreport\n");
}

TEST_CASE("where no file can be written, an error says why") {
  const TempDir dir;
  CHECK(ErrorOf(dir.path()) ==
        dir.path() + ": cannot be written: it is a directory; name a file");
  CHECK(ErrorOf(dir.path() + "/").find("it is a directory") !=
        std::string::npos);
  CHECK(ErrorOf(dir / "none/out") ==
        (dir / "none/out") + ": cannot be written: directory " +
            (dir / "none") +
            ": No such file or directory; make it, or name another file");
  WriteTestFile(dir / "file", "");
  CHECK(ErrorOf(dir / "file/out").find("cannot be written") !=
        std::string::npos);
  fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec);
  // Nothing is forbidden to root.
  if (geteuid() != 0) {
    CHECK(ErrorOf(dir / "out").find("Permission denied") != std::string::npos);
  }
  fs::permissions(dir.path(), fs::perms::owner_all);
}

}  // namespace
}  // namespace rbln
