// rbln-tool merge: the answers of several shards as one file.
#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "job/job_key.h"
#include "job/line_reader.h"
#include "job/output.h"
#include "rbln-tool/commands.h"
#include "rbln-tool/outputs.h"

namespace rbln {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{1} << 32;
constexpr size_t kBufferBytes = size_t{1} << 18;

struct MergeFlags {
  std::vector<std::string> parts;
  std::string output;
};

// Holds each part against its place on the command line and against the first,
// and returns what each is. Throws one error for all that is wrong.
std::vector<PartFacts> CheckParts(const std::vector<std::string>& parts) {
  std::vector<PartFacts> all(parts.size());
  std::string wrong;
  const auto check = [&](size_t i) -> std::string {
    const std::string& part = parts[i];
    const std::string place = fmt::format("{}/{}", i + 1, parts.size());
    if (FileExists(JournalPath(part))) {
      return fmt::format("{}: shard {} did not end; run it again with --resume",
                         part, place);
    }
    if (!FileExists(part)) {
      return fmt::format("{}: shard {} is not there", part, place);
    }
    try {
      all[i] = PartFacts::Read(part);
    } catch (const Error& error) {
      return error.what();
    }
    const std::string is = fmt::format("{}/{}", all[i].shard, all[i].shards);
    if (is != place) {
      return fmt::format("{}: is shard {}, where {} is wanted", part, is,
                         place);
    }
    const std::string what = Difference(all[0].key, all[i].key);
    return what.empty() || all[0].shards == 0
               ? ""
               : fmt::format("{}: of another run than {}: {} differs", part,
                             parts[0], what);
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (const std::string error = check(i); !error.empty()) {
      wrong += "\n  " + error;
    }
  }
  if (!wrong.empty()) {
    throw UsageError(
        "merge: name all the parts of one run, each once, in the "
        "order of their shards:{}",
        wrong);
  }
  return all;
}

// Shard I of N has every N-th line: the parts' lines taken in turn are those of
// the whole.
int64_t Merge(const MergeFlags& flags) {
  const std::vector<PartFacts> facts = CheckParts(flags.parts);
  std::vector<NamedFile> parts;
  for (const std::string& part : flags.parts) {
    parts.push_back({"a part", part});
    parts.push_back({"the .shard of a part", PartPath(part)});
  }
  CheckOutputs({{"--output", flags.output}}, parts, /*model=*/"");
  std::vector<std::unique_ptr<LineReader>> readers;
  for (const std::string& part : flags.parts) {
    readers.push_back(std::make_unique<LineReader>(part, kMaxAnswerBytes));
  }
  std::vector<Hasher> hashers(readers.size());
  AtomicFile file(flags.output);
  std::string buffer, line;
  int64_t count = 0;
  size_t ended = readers.size();  // the part that has no more
  for (bool more = true; more;) {
    for (size_t i = 0; i < readers.size(); ++i) {
      const bool has = readers[i]->Next(LineReader::kForever, line) ==
                       LineReader::Result::kLine;
      if (!has) {
        if (ended == readers.size()) ended = i;
        more = false;
        continue;
      }
      if (ended != readers.size()) {
        throw UsageError(
            "merge: {} has more lines than {}: they are not of the same "
            "prompts, or one was changed; run them again",
            flags.parts[i], flags.parts[ended]);
      }
      line += '\n';
      hashers[i].Update(line);
      buffer += line;
      ++count;
    }
    if (buffer.size() >= kBufferBytes || !more) {
      file.Write(buffer);
      buffer.clear();
    }
  }
  for (size_t i = 0; i < readers.size(); ++i) {
    if (hashers[i].Digest() != facts[i].answers) {
      throw UsageError(
          "merge: {}: not the answers that its shard wrote; run it "
          "again",
          flags.parts[i]);
    }
  }
  file.Commit();
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
                   "The shards' outputs, from shard 1/N to N/N, each with its "
                   ".shard beside it")
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
