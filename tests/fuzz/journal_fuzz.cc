// Any lines as a journal to resume from. Their checksums are made right, except
// in a line that begins with '!': what is behind them is to be reached.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "job/output.h"
#include "test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const rbln::TempDir directory;
  std::string journal;
  std::string_view left(reinterpret_cast<const char*>(data), size);
  while (!left.empty()) {
    const size_t end = left.find('\n');
    const std::string_view line = left.substr(0, end);
    if (line.starts_with('!')) {
      journal += line.substr(1);
    } else {
      journal += fmt::format("{:016x} {}", rbln::Hash64(line), line);
    }
    if (end == left.npos) break;
    journal += '\n';
    left.remove_prefix(end + 1);
  }
  const std::string path = directory / "out.jsonl";
  rbln::WriteTestFile(rbln::JournalPath(path), journal);
  try {
    rbln::FileOutput output(path, {"i", "p", "m"}, /*resume=*/true,
                            /*keep_journal=*/false);
    output.Flush();
  } catch (const rbln::Error&) {
  }
  return 0;
}
