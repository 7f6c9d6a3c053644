#include "job/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rbln {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

}  // namespace

OrderedOutput::OrderedOutput(const std::string& path)
    : path_(path == "-" ? "" : path) {
  if (path_.empty()) return;
  temporary_ = fmt::format("{}.tmp-{}", path_, getpid());
  file_ = std::make_unique<FileWriter>(temporary_);
}

OrderedOutput::~OrderedOutput() {
  if (file_ != nullptr && !finished_) unlink(temporary_.c_str());
}

void OrderedOutput::Put(int64_t index, std::string line) {
  line += '\n';
  if (index != next_) {
    waiting_bytes_ += line.size();
    waiting_.emplace(index, std::move(line));
    return;
  }
  buffer_ += line;
  ++next_;
  for (auto first = waiting_.begin();
       first != waiting_.end() && first->first == next_;
       first = waiting_.erase(first)) {
    waiting_bytes_ -= first->second.size();
    buffer_ += first->second;
    ++next_;
  }
  if (buffer_.size() >= kBufferBytes) Flush();
}

bool OrderedOutput::Flush() {
  // What is on its way to a file nobody sees may wait for more.
  if (file_ == nullptr || buffer_.size() >= kBufferBytes) {
    Write(buffer_);
    buffer_.clear();
  }
  return !reader_gone_;
}

void OrderedOutput::Finish() {
  Write(buffer_);
  buffer_.clear();
  if (file_ == nullptr) return;
  file_->Sync();
  file_->Close();
  RenameFile(temporary_, path_);
  finished_ = true;
}

void OrderedOutput::Write(std::string_view bytes) {
  if (file_ != nullptr) {
    if (!bytes.empty()) file_->Write(bytes);
    return;
  }
  while (!bytes.empty() && !reader_gone_) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      reader_gone_ = true;
    } else if (errno != EINTR) {
      throw ResourceError("standard output: cannot write: {}",
                          std::strerror(errno));
    }
  }
}

}  // namespace rbln
