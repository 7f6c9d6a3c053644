#include "job/line_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rbln {
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;

}  // namespace

LineReader::LineReader(const std::string& path, size_t max_line_bytes)
    : name_(path == "-" ? "standard input" : path),
      max_line_bytes_(max_line_bytes) {
  if (path == "-") {
    fd_ = STDIN_FILENO;
  } else {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    owned_ = true;
    if (fd_ < 0) throw UsageError("{}: {}", path, std::strerror(errno));
  }
  struct stat info;
  if (fstat(fd_, &info) != 0) {
    const int reason = errno;
    if (owned_) close(fd_);
    throw UsageError("{}: {}", name_, std::strerror(reason));
  }
  if (S_ISDIR(info.st_mode)) {
    if (owned_) close(fd_);
    throw UsageError("{}: is a directory, not a file of prompts", name_);
  }
  if (S_ISREG(info.st_mode)) total_bytes_ = info.st_size;
}

LineReader::~LineReader() {
  if (owned_) close(fd_);
}

LineReader::Result LineReader::Next(std::chrono::milliseconds wait,
                                    std::string& line) {
  while (true) {
    size_t end = buffer_.find('\n', scanned_);
    if (end == std::string::npos && end_ && start_ < buffer_.size()) {
      end = buffer_.size();
    }
    if (end != std::string::npos) {
      const size_t next = std::min(end + 1, buffer_.size());
      bytes_taken_ += static_cast<int64_t>(next - start_);
      ++line_number_;
      const bool too_long = skipping_ || end - start_ > max_line_bytes_;
      skipping_ = false;
      if (!too_long) {
        line.assign(buffer_, start_, end - start_);
        if (!line.empty() && line.back() == '\r') line.pop_back();
      }
      start_ = scanned_ = next;
      return too_long ? Result::kTooLong : Result::kLine;
    }
    if (end_) {
      if (!skipping_) return Result::kEnd;
      // The file ended inside a line that was too long.
      skipping_ = false;
      ++line_number_;
      return Result::kTooLong;
    }
    buffer_.erase(0, start_);
    start_ = 0;
    if (buffer_.size() > max_line_bytes_) {
      skipping_ = true;
      bytes_taken_ += static_cast<int64_t>(buffer_.size());
      buffer_.clear();
    }
    scanned_ = buffer_.size();
    pollfd ready = {fd_, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(wait.count())) <= 0) {
      return Result::kNotReady;
    }
    buffer_.resize(scanned_ + kReadBytes);
    const ssize_t got = read(fd_, buffer_.data() + scanned_, kReadBytes);
    const int reason = errno;
    buffer_.resize(scanned_ + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0) {
      if (reason == EINTR) return Result::kNotReady;
      throw ResourceError("{}: cannot read: {}", name_, std::strerror(reason));
    }
    if (got == 0) end_ = true;
  }
}

}  // namespace rbln
