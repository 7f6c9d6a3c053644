// Lines of a file or of standard input, one by one, of bounded length.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace rbln {

class LineReader {
 public:
  enum class Result {
    kLine,
    kTooLong,   // a line beyond the bound; it was skipped
    kNotReady,  // nothing has come yet (only where the caller does not wait)
    kEnd,
  };

  static constexpr std::chrono::milliseconds kForever{-1};

  // Opens `path`; "-" is standard input. Throws Error(kUsage) when that fails.
  LineReader(const std::string& path, size_t max_line_bytes);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line, without its end ("\n" or "\r\n"); the last one needs none.
  // For a pipe it waits at most `wait`, then, or at a signal, returns
  // kNotReady. Throws Error(kResource) when reading fails.
  Result Next(std::chrono::milliseconds wait, std::string& line);

  // Number of the line that Next returned last, from 1.
  int64_t line_number() const { return line_number_; }
  int64_t bytes_read() const { return bytes_taken_; }
  size_t max_line_bytes() const { return max_line_bytes_; }
  // Size of a regular file; 0 where it is not known.
  int64_t total_bytes() const { return total_bytes_; }

 private:
  int fd_ = -1;
  bool owned_ = false;
  bool end_ = false;
  bool skipping_ = false;
  std::string name_;
  size_t max_line_bytes_;
  std::string buffer_;
  size_t start_ = 0;    // of the bytes in buffer_ not taken yet
  size_t scanned_ = 0;  // up to here there is no end of line
  int64_t line_number_ = 0;
  int64_t bytes_taken_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace rbln
