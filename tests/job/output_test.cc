// Answers in files: whole or not at all, and nothing that was answered lost.
#include "job/output.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <functional>

#include "base/hash.h"
#include "test_util.h"

namespace rbln {
namespace {

const JobKey kKey = {"input", "model", {{"seed", 0}}};

std::string ErrorOf(const std::function<void()>& run, ErrorKind kind) {
  try {
    run();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "none";
}

// Answers to `lines` of which `from` has none, as a run would: out of order.
std::string AnswerOf(int64_t index) {
  return "{\"answer\":" + std::to_string(index * index) + "}";
}
// Returns how many were computed.
int Answer(FileOutput& output, int count, int stop_after = 1 << 30) {
  int done = 0;
  for (int i = 0; i < count && done < stop_after; ++i) {
    const int index = i ^ 1;  // neighbours exchanged
    if (index >= count || output.Has(index)) continue;
    output.Put({index, index % 5 == 0, AnswerOf(index)});
    output.Flush();
    ++done;
  }
  return done;
}
std::string Whole(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += AnswerOf(i) + "\n";
  return text;
}

TEST_CASE("a file appears whole, in order, and its journal goes") {
  TempDir dir;
  WriteTestFile(dir / "out", "old");
  FileOutput output(dir / "out", kKey, false, true);
  Answer(output, 10);
  CHECK(ReadTestFile(dir / "out") == "old");
  CHECK(std::filesystem::exists(dir / "out.journal"));
  output.Finish(10);
  CHECK(ReadTestFile(dir / "out") == Whole(10));
  CHECK_FALSE(std::filesystem::exists(dir / "out.journal"));
  CHECK_FALSE(std::filesystem::exists(dir / "out.tmp"));
}

TEST_CASE("what was answered is not computed again") {
  TempDir dir;
  {
    FileOutput output(dir / "out", kKey, false, true);
    CHECK(Answer(output, 20, 7) == 7);
  }
  CHECK_FALSE(std::filesystem::exists(dir / "out"));
  FileOutput output(dir / "out", kKey, true, true);
  CHECK(output.num_resumed() == 7);
  CHECK(output.num_resumed_errors() == 2);  // 0 and 5
  CHECK(Answer(output, 20) == 13);
  output.Finish(20);
  CHECK(ReadTestFile(dir / "out") == Whole(20));
}

TEST_CASE("a journal is for one run, one process, and the same inputs") {
  TempDir dir;
  {
    FileOutput output(dir / "out", kKey, false, true);
    Answer(output, 4);
    CHECK(ErrorOf([&] { FileOutput(dir / "out", kKey, true, true); },
                  ErrorKind::kResource)
              .find("another process is writing it") != std::string::npos);
  }
  const std::string journal = ReadTestFile(dir / "out.journal");
  CHECK(ErrorOf([&] { FileOutput(dir / "out", kKey, false, true); },
                ErrorKind::kUsage)
            .find("an earlier run did not end; go on with it by --resume") !=
        std::string::npos);
  for (const auto& [key, part] :
       {std::pair<JobKey, std::string>{{"x", "model", {{"seed", 0}}},
                                       "the file of prompts changed"},
        {{"input", "x", {{"seed", 0}}}, "the model changed"},
        {{"input", "model", {{"seed", 0}}, 1, 2}, "--shard changed"},
        {{"input", "model", {{"seed", 3}}},
         "the parameter seed (0 against 3) changed"},
        {{"input", "model", {{"seed", 0}, {"top_k", 5}}},
         "the parameter top_k (unset against 5) changed"}}) {
    CHECK(ErrorOf([&] { FileOutput(dir / "out", key, true, true); },
                  ErrorKind::kUsage)
              .find(part) != std::string::npos);
  }
  CHECK(ReadTestFile(dir / "out.journal") == journal);
  // Nothing to resume is no error: scripts may always ask for it.
  FileOutput other(dir / "other", kKey, true, true);
  CHECK(other.num_resumed() == 0);
}

TEST_CASE("beside a shard's answers lies what they are of") {
  TempDir dir;
  JobKey key = kKey;
  key.shard = 2;
  key.shards = 3;
  FileOutput output(dir / "out", key, false, true);
  Answer(output, 6);
  output.Finish(6);
  const PartFacts facts = PartFacts::Read(dir / "out");
  CHECK(facts.shard == 2);
  CHECK(facts.shards == 3);
  CHECK(facts.answers == HashBytes(Whole(6)));
  key.shard = 3;
  PartFacts::Write(dir / "other", key, "");
  CHECK(Difference(facts.key, PartFacts::Read(dir / "other").key) == "");
  for (const char* damaged : {"", "{}", "[1]", R"({"rbln_shard":1})"}) {
    WriteTestFile(dir / "out.shard", damaged);
    CHECK(ErrorOf([&] { PartFacts::Read(dir / "out"); }, ErrorKind::kUsage)
              .find("out.shard") != std::string::npos);
  }
}

TEST_CASE("an input that cannot be read again leaves no journal") {
  TempDir dir;
  {
    FileOutput output(dir / "out", kKey, false, false);
    Answer(output, 4);
  }
  CHECK_FALSE(std::filesystem::exists(dir / "out.journal"));
}

TEST_CASE(
    "a journal cut off or damaged anywhere gives the same file in the "
    "end, or an error") {
  TempDir dir;
  {
    FileOutput output(dir / "out", kKey, false, true);
    Answer(output, 8, 6);
  }
  const std::string whole = ReadTestFile(dir / "out.journal");
  int refused = 0;
  const auto check = [&](const std::string& journal) {
    WriteTestFile(dir / "out.journal", journal);
    std::filesystem::remove(dir / "out");
    const std::string error = ErrorOf(
        [&] {
          FileOutput output(dir / "out", kKey, true, true);
          Answer(output, 8);
          output.Finish(8);
        },
        ErrorKind::kUsage);
    if (error != "none") {
      ++refused;
      CHECK(error.find("damaged in its first line") != std::string::npos);
      CHECK(ReadTestFile(dir / "out.journal") == journal);
      return;
    }
    CHECK(ReadTestFile(dir / "out") == Whole(8));
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(i);
    check(whole.substr(0, i));
    for (const int flip : {1, 0x80, 0x2a}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      check(damaged);
    }
  }
  CHECK(refused > 0);
  CHECK(refused <= static_cast<int>(3 * (whole.find('\n') + 1)));
}

// The n-th call of those counted fails.
struct Fault {
  int countdown = 0;
  int error = 0;
  bool short_write = false;
  bool Now() { return --countdown == 0; }
};
Fault fault;
const FileCalls kReal = file_calls;

ssize_t FaultyWrite(int fd, const void* bytes, size_t size) {
  if (!fault.Now()) return kReal.write(fd, bytes, size);
  if (fault.short_write) {
    // Some bytes go, the next call fails.
    fault.countdown = 1;
    fault.short_write = false;
    return kReal.write(fd, bytes, size / 2);
  }
  errno = fault.error;
  return -1;
}
int FaultySync(int fd) {
  if (!fault.Now()) return kReal.fsync(fd);
  errno = fault.error;
  return -1;
}
int FaultyRename(const char* from, const char* to) {
  if (!fault.Now()) return kReal.rename(from, to);
  errno = fault.error;
  return -1;
}

TEST_CASE("whichever write, sync or rename fails, nothing is lost or torn") {
  for (const bool short_write : {false, true}) {
    for (const int error : {ENOSPC, EIO}) {
      bool failed = true;
      for (int n = 1; failed; ++n) {
        CAPTURE(n);
        TempDir dir;
        WriteTestFile(dir / "out", "old");
        fault = {n, error, short_write};
        file_calls.write = FaultyWrite;
        file_calls.fsync = FaultySync;
        file_calls.rename = FaultyRename;
        const std::string message = ErrorOf(
            [&] {
              FileOutput output(dir / "out", kKey, false, true);
              Answer(output, 6);
              output.Finish(6);
            },
            ErrorKind::kResource);
        file_calls = kReal;
        failed = fault.countdown <= 0;
        CHECK(failed == (message != "none"));
        REQUIRE(n < 100);
        if (failed) {
          // A sync of the directory fails when the new file is in its place.
          const std::string now = ReadTestFile(dir / "out");
          CHECK((now == "old" || now == Whole(6)));
          CHECK_FALSE(std::filesystem::exists(dir / "out.tmp"));
        }
        FileOutput output(dir / "out", kKey, true, true);
        Answer(output, 6);
        output.Finish(6);
        CHECK(ReadTestFile(dir / "out") == Whole(6));
      }
    }
  }
}

TEST_CASE("a directory that is not there is a resource error") {
  TempDir dir;
  CHECK(ErrorOf([&] { FileOutput(dir / "none/out", kKey, false, true); },
                ErrorKind::kResource)
            .find("none/out.journal: cannot create") != std::string::npos);
}

}  // namespace
}  // namespace rbln
