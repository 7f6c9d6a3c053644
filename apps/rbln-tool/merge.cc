// rbln-tool merge: the answers of several shards as one file.
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "job/line_reader.h"
#include "job/output.h"
#include "rbln-tool/commands.h"

namespace rbln {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{1} << 32;
constexpr size_t kBufferBytes = size_t{1} << 18;

struct MergeFlags {
  std::vector<std::string> parts;
  std::string output;
};

void CheckParts(const MergeFlags& flags) {
  std::string missing;
  for (size_t i = 0; i < flags.parts.size(); ++i) {
    const std::string& part = flags.parts[i];
    if (FileExists(JournalPath(part))) {
      missing += fmt::format("\n  {}: shard {}/{} did not end; run it again "
                             "with --resume",
                             part, i + 1, flags.parts.size());
    } else if (!FileExists(part)) {
      missing += fmt::format("\n  {}: shard {}/{} is not there", part, i + 1,
                             flags.parts.size());
    }
  }
  if (!missing.empty()) {
    throw UsageError("merge: not all parts are complete:{}", missing);
  }
}

// Shard I of N has every N-th line: the parts' lines taken in turn are those of
// the whole.
int64_t Merge(const MergeFlags& flags) {
  CheckParts(flags);
  std::vector<std::unique_ptr<LineReader>> readers;
  for (const std::string& part : flags.parts) {
    readers.push_back(std::make_unique<LineReader>(part, kMaxAnswerBytes));
  }
  const std::string temporary = flags.output + ".tmp";
  FileWriter file(temporary);
  std::string buffer, line;
  int64_t count = 0;
  size_t ended = readers.size();  // the part that has no more
  for (bool more = true; more;) {
    for (size_t i = 0; i < readers.size(); ++i) {
      const bool has =
          readers[i]->Next(LineReader::kForever, line) == LineReader::Result::kLine;
      if (!has) {
        if (ended == readers.size()) ended = i;
        more = false;
        continue;
      }
      if (ended != readers.size()) {
        throw UsageError(
            "merge: {} has more lines than {}: name all the parts of one run, "
            "in the order of their shards",
            flags.parts[i], flags.parts[ended]);
      }
      buffer += line;
      buffer += '\n';
      ++count;
    }
    if (buffer.size() >= kBufferBytes || !more) {
      file.Write(buffer);
      buffer.clear();
    }
  }
  file.Sync();
  file.Close();
  RenameFile(temporary, flags.output);
  return count;
}

}  // namespace

void AddMergeCommand(CLI::App& app, const CommonFlags&, int& exit_code) {
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* command = app.add_subcommand(
      "merge",
      "Put the answers of all shards of a run (generate --shard) together, in "
      "the order of the prompts.");
  command
      ->add_option("PARTS", flags->parts,
                   "The shards' outputs, from shard 1/N to N/N")
      ->required();
  command->add_option("-o,--output", flags->output, "File for all answers")
      ->required()
      ->type_name("FILE");
  command->callback([flags, &exit_code] {
    const int64_t count = Merge(*flags);
    spdlog::info("{}: {} answers of {} shards", flags->output, count,
                 flags->parts.size());
    exit_code = 0;
  });
}

}  // namespace rbln
