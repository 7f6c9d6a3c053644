// Answers out, in the order of the input.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/file.h"

namespace rbln {

// Takes lines in any order of their index (0, 1, 2, ... with no gap) and writes
// them in that order, each as soon as those before it are there. A file is
// absent until the end and then complete: it is written beside its place,
// synced and renamed. Standard output is a stream.
class OrderedOutput {
 public:
  // `path` is empty or "-" for standard output. Throws Error(kResource) where
  // the file cannot be created.
  explicit OrderedOutput(const std::string& path);
  // Removes an unfinished file.
  ~OrderedOutput();
  OrderedOutput(const OrderedOutput&) = delete;
  OrderedOutput& operator=(const OrderedOutput&) = delete;

  // `line` has no end of line. Throws Error(kResource) when writing fails.
  void Put(int64_t index, std::string line);
  // Writes what is buffered. Returns false when the reader of standard output
  // has gone away; what is put from then on is dropped.
  bool Flush();
  // Puts the file in its place. Every line must have been put.
  void Finish();

  int64_t next_index() const { return next_; }
  // Bytes of lines that wait for an earlier one.
  size_t waiting_bytes() const { return waiting_bytes_; }

 private:
  void Write(std::string_view bytes);

  std::string path_;
  std::string temporary_;
  std::unique_ptr<FileWriter> file_;  // null for standard output
  bool reader_gone_ = false;
  bool finished_ = false;
  int64_t next_ = 0;
  std::map<int64_t, std::string> waiting_;
  size_t waiting_bytes_ = 0;
  std::string buffer_;
};

}  // namespace rbln
