// Answers out: a stream in the order of the input or of completion, or a file
// that is absent until it is complete, with a journal beside it meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "job/job_key.h"

namespace rbln {

// One line of the input, answered. `text` has no end of line.
struct Answer {
  int64_t index = 0;  // of the lines, from 0 with no gap
  bool error = false;
  std::string text;
};

// Where a job puts its answers. One thread.
class JobOutput {
 public:
  virtual ~JobOutput() = default;

  // Answers that an earlier run left, which need not be computed again.
  virtual bool Has(int64_t index) const { return false; }
  virtual int64_t num_resumed() const { return 0; }
  virtual int64_t num_resumed_errors() const { return 0; }
  // Whether line `index` may be begun: what waits for earlier lines is bounded.
  virtual bool MayBegin(int64_t index) const { return true; }

  // Takes an answer, in any order. Throws Error(kResource) when writing fails.
  virtual void Put(Answer answer) = 0;
  // Passes on what was put, some milliseconds later at most. Returns false when
  // nobody reads it any more.
  virtual bool Flush() = 0;
  // Ends it: answers to all of `count` lines have been put.
  virtual void Finish(int64_t count) = 0;
};

// Standard output, in the order of the input (each as soon as those before it
// are there) or of completion.
class StreamOutput : public JobOutput {
 public:
  explicit StreamOutput(bool in_order);

  bool MayBegin(int64_t index) const override;
  void Put(Answer answer) override;
  bool Flush() override;
  void Finish(int64_t count) override { Flush(); }

 private:
  const bool in_order_;
  const bool to_terminal_;
  bool reader_gone_ = false;
  int64_t next_ = 0;
  std::map<int64_t, std::string> waiting_;
  size_t waiting_bytes_ = 0;
  std::string buffer_;
};

// A file. Answers go to `path`.journal as they finish; at the end the file is
// written in order, synced and renamed to its place, and the journal removed. A
// run that ended early, however, leaves a journal to resume from. Beside the
// file of a shard lies what merge wants to know of it (see PartFacts).
//
// The journal is lines of text: 16 hexadecimal digits of XXH3-64 over the rest
// of the line, a space, and the rest: of the first line the key as JSON, of the
// others INDEX, "ok" or "error", and the answer. What follows the first line
// that is torn or damaged is not believed, and computed again.
class FileOutput : public JobOutput {
 public:
  // Takes the lock on the journal. Throws Error(kUsage) where there is a
  // journal and `resume` is not set, or it is of something else;
  // Error(kResource) where another process holds it or it cannot be written.
  // `keep_journal`: leave it for a later run when this one ends early.
  FileOutput(const std::string& path, const JobKey& key, bool resume,
             bool keep_journal);
  ~FileOutput() override;
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;

  bool Has(int64_t index) const override {
    return index < static_cast<int64_t>(places_.size()) &&
           places_[index].offset != 0;
  }
  int64_t num_resumed() const override { return num_resumed_; }
  int64_t num_resumed_errors() const override { return num_resumed_errors_; }
  void Put(Answer answer) override;
  bool Flush() override;
  void Finish(int64_t count) override;

 private:
  // Where an answer lies in the journal; no answer begins at 0.
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  void Begin();
  void Load();
  // Adds a line: its checksum, and as the rest `head` and `text`. Returns where
  // the text begins in the journal.
  uint64_t Append(std::string_view head, std::string_view text);
  void WriteBuffer();
  void Remember(int64_t index, Place place);

  const std::string path_;
  const std::string journal_path_;
  const JobKey key_;
  bool keep_journal_;
  bool finished_ = false;
  std::unique_ptr<FileWriter> journal_;
  uint64_t written_ = 0;  // bytes of the journal, with what is in buffer_
  std::string buffer_;
  double written_at_ = 0;
  double synced_at_ = 0;
  std::vector<Place> places_;
  int64_t num_resumed_ = 0;
  int64_t num_resumed_errors_ = 0;
};

// The name of a file's journal.
std::string JournalPath(const std::string& path);

}  // namespace rbln
