#include "job/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/console.h"

namespace rbln {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;
// Lines begun ahead of the first one that is not written yet, and bytes of
// answers that wait for it.
constexpr int64_t kMaxLinesAhead = 4096;
constexpr size_t kMaxBytesWaiting = size_t{256} << 20;

}  // namespace

StreamOutput::StreamOutput(bool in_order)
    : in_order_(in_order), to_terminal_(isatty(STDOUT_FILENO) != 0) {}

bool StreamOutput::MayBegin(int64_t index) const {
  return !in_order_ ||
         (index - next_ < kMaxLinesAhead && waiting_bytes_ < kMaxBytesWaiting);
}

void StreamOutput::Put(Answer answer) {
  answer.text += '\n';
  if (in_order_ && answer.index != next_) {
    waiting_bytes_ += answer.text.size();
    waiting_.emplace(answer.index, std::move(answer.text));
    return;
  }
  buffer_ += answer.text;
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

bool StreamOutput::Flush() {
  std::string_view bytes = buffer_;
  if (!bytes.empty() && to_terminal_) ClearStatus();
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
  buffer_.clear();
  return !reader_gone_;
}

}  // namespace rbln
