// FileOutput: the journal, and the file made of it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "job/output.h"

namespace rbln {
namespace {

// 1 had the parameters as one text.
constexpr int kJournalVersion = 2;
constexpr size_t kHashDigits = 16;
constexpr size_t kBufferBytes = size_t{1} << 18;
// What a power loss may cost at most.
constexpr double kSyncSeconds = 2;
// And a kill: of models whose steps are shorter, several share one write.
constexpr double kWriteSeconds = 0.01;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The checksum of a line, as it stands before the rest.
std::array<char, kHashDigits> HashDigits(std::string_view rest) {
  std::array<char, kHashDigits> digits;
  fmt::format_to(digits.data(), "{:016x}", Hash64(rest));
  return digits;
}

// What follows the checksum of a whole line; nullopt where that is wrong.
std::optional<std::string_view> Rest(std::string_view line) {
  if (line.size() <= kHashDigits || line[kHashDigits] != ' ') {
    return std::nullopt;
  }
  const std::string_view rest = line.substr(kHashDigits + 1);
  const std::array<char, kHashDigits> digits = HashDigits(rest);
  if (!std::equal(digits.begin(), digits.end(), line.begin())) {
    return std::nullopt;
  }
  return rest;
}

// INDEX, "ok" or "error", and where the answer begins in the rest.
struct Record {
  int64_t index;
  bool error;
  size_t begin;
};
std::optional<Record> ParseRecord(std::string_view rest) {
  Record record{};
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), record.index);
  const size_t at = end - rest.data();
  if (error != std::errc() || record.index < 0) return std::nullopt;
  if (rest.substr(at).starts_with(" ok ")) {
    record.begin = at + 4;
  } else if (rest.substr(at).starts_with(" error ")) {
    record.error = true;
    record.begin = at + 7;
  } else {
    return std::nullopt;
  }
  return record;
}

// The lines of a file from its start, in pieces.
class Lines {
 public:
  explicit Lines(const RandomAccessFile& file) : file_(file) {}

  // The next whole line and where it begins; nullopt at the end, also before a
  // last line that has no end.
  std::optional<std::string_view> Next() {
    offset_ += taken_;
    start_ += taken_;
    taken_ = 0;
    while (true) {
      const size_t end = buffer_.find('\n', start_ + scanned_);
      if (end != std::string::npos) {
        const std::string_view line =
            std::string_view(buffer_).substr(start_, end - start_);
        taken_ = line.size() + 1;
        scanned_ = 0;
        return line;
      }
      scanned_ = buffer_.size() - start_;
      buffer_.erase(0, start_);
      start_ = 0;
      const uint64_t left = file_.size() - read_;
      if (left == 0) return std::nullopt;
      const size_t piece = std::min<uint64_t>(left, size_t{1} << 20);
      const size_t old = buffer_.size();
      buffer_.resize(old + piece);
      file_.Read(read_, std::as_writable_bytes(
                            std::span(buffer_).subspan(old, piece)));
      read_ += piece;
    }
  }
  uint64_t offset() const { return offset_; }

 private:
  const RandomAccessFile& file_;
  std::string buffer_;
  size_t start_ = 0;
  size_t scanned_ = 0;
  size_t taken_ = 0;
  uint64_t offset_ = 0;
  uint64_t read_ = 0;
};

// What lies in a file, in any order; places near each other take one read.
class NearReader {
 public:
  explicit NearReader(const RandomAccessFile& file) : file_(file) {}

  // Valid until the next call.
  std::string_view Read(uint64_t offset, uint64_t bytes) {
    if (offset < begin_ || offset + bytes > begin_ + window_.size()) {
      // Some of what is asked for next lies before it.
      begin_ = offset - std::min(offset, kBehind);
      const uint64_t end =
          std::max(offset + bytes, std::min(begin_ + kWindow, file_.size()));
      window_.resize(end - begin_);
      file_.Read(begin_, std::as_writable_bytes(std::span(window_)));
    }
    return std::string_view(window_).substr(offset - begin_, bytes);
  }

 private:
  static constexpr uint64_t kWindow = uint64_t{1} << 16;
  static constexpr uint64_t kBehind = kWindow / 4;

  const RandomAccessFile& file_;
  std::string window_;
  uint64_t begin_ = 0;  // of the window, in the file
};

}  // namespace

std::string JournalPath(const std::string& path) { return path + ".journal"; }

FileOutput::FileOutput(const std::string& path, const JobKey& key, bool resume,
                       bool keep_journal)
    : path_(path),
      journal_path_(JournalPath(path)),
      key_(key),
      keep_journal_(keep_journal) {
  journal_ = std::make_unique<FileWriter>(journal_path_, /*append=*/true);
  struct stat info {};
  if (flock(journal_->fd(), LOCK_EX | LOCK_NB) != 0 ||
      fstat(journal_->fd(), &info) != 0 || info.st_nlink == 0) {
    finished_ = true;  // it is not ours
    throw ResourceError(
        "{}: another process is writing it; wait for that, or "
        "name another output",
        path_);
  }
  if (info.st_size == 0) {
    try {
      Begin();
    } catch (const Error&) {
      unlink(journal_path_.c_str());
      throw;
    }
    return;
  }
  // Until it is known to be ours, whatever goes wrong leaves it as it is.
  keep_journal_ = true;
  if (!resume) {
    throw UsageError(
        "{}: an earlier run did not end; go on with it by --resume, or remove "
        "{} to begin again",
        path_, journal_path_);
  }
  Load();
  keep_journal_ = keep_journal;
}

FileOutput::~FileOutput() {
  if (finished_ || journal_ == nullptr) return;
  try {
    WriteBuffer();
    journal_->Sync();
  } catch (const Error&) {
    // What did not get there will be computed again.
  }
  if (!keep_journal_) unlink(journal_path_.c_str());
}

void FileOutput::Begin() {
  Json header = key_.ToJson();
  header["rbln_journal"] = kJournalVersion;
  Append("", header.dump());
  WriteBuffer();
  journal_->Sync();
  synced_at_ = Now();
}

void FileOutput::Load() {
  const RandomAccessFile file(journal_path_, ErrorKind::kUsage);
  Lines lines(file);
  std::optional<std::string_view> line = lines.Next();
  const std::optional<std::string_view> header =
      line ? Rest(*line) : std::nullopt;
  if (!line) {
    // Not even its first line was written: nothing was answered.
    journal_->Truncate(0);
    return Begin();
  }
  if (!header) {
    throw UsageError("{}: damaged in its first line; remove it to begin again",
                     journal_path_);
  }
  const Json found =
      ParseJson(std::string(*header), journal_path_, ErrorKind::kUsage);
  if (!found.is_object() || !found.contains("rbln_journal") ||
      found["rbln_journal"] != kJournalVersion) {
    throw UsageError(
        "{}: of another version of this tool; remove it to begin "
        "again",
        journal_path_);
  }
  if (const std::string what = Difference(found, key_.ToJson());
      !what.empty()) {
    throw UsageError(
        "--resume: {} changed since {} was begun; run with what it was begun "
        "with, or remove {} to begin again",
        what, journal_path_, journal_path_);
  }
  line = lines.Next();
  for (; line; line = lines.Next()) {
    const std::optional<std::string_view> rest = Rest(*line);
    const std::optional<Record> record =
        rest ? ParseRecord(*rest) : std::nullopt;
    // No run begins lines so far apart; only damage looks like that.
    if (!record || record->index > static_cast<int64_t>(places_.size()) +
                                       (int64_t{1} << 24)) {
      break;
    }
    if (Has(record->index)) continue;
    Remember(record->index, {lines.offset() + kHashDigits + 1 + record->begin,
                             rest->size() - record->begin});
    ++num_resumed_;
    num_resumed_errors_ += record->error;
  }
  written_ = lines.offset();
  if (written_ < file.size()) journal_->Truncate(written_);
  synced_at_ = Now();
}

void FileOutput::Remember(int64_t index, Place place) {
  if (index >= static_cast<int64_t>(places_.size())) places_.resize(index + 1);
  places_[index] = place;
}

uint64_t FileOutput::Append(std::string_view head, std::string_view text) {
  const size_t begin = buffer_.size();
  buffer_.append(kHashDigits + 1, ' ');
  buffer_ += head;
  buffer_ += text;
  const auto digits =
      HashDigits(std::string_view(buffer_).substr(begin + kHashDigits + 1));
  std::copy(digits.begin(), digits.end(), buffer_.begin() + begin);
  buffer_ += '\n';
  written_ += buffer_.size() - begin;
  return written_ - 1 - text.size();
}

void FileOutput::Put(Answer answer) {
  const std::string head =
      fmt::format("{} {} ", answer.index, answer.error ? "error" : "ok");
  const uint64_t offset = Append(head, answer.text);
  Remember(answer.index, {offset, answer.text.size()});
}

void FileOutput::WriteBuffer() {
  if (buffer_.empty()) return;
  // Once begun, a write that fails leaves a torn line, after which nothing more
  // may be written.
  const std::string bytes = std::exchange(buffer_, "");
  journal_->Write(bytes);
}

bool FileOutput::Flush() {
  const double now = Now();
  if (now - written_at_ > kWriteSeconds || buffer_.size() >= kBufferBytes) {
    WriteBuffer();
    written_at_ = now;
  }
  if (now - synced_at_ > kSyncSeconds) {
    journal_->Sync();
    synced_at_ = Now();
  }
  return true;
}

void FileOutput::Finish(int64_t count) {
  WriteBuffer();
  journal_->Sync();
  try {
    const RandomAccessFile journal(journal_path_, ErrorKind::kResource);
    NearReader answers(journal);
    AtomicFile file(path_);
    Hasher hasher;
    std::string out;
    const auto write = [&] {
      hasher.Update(out);
      file.Write(out);
      out.clear();
    };
    for (int64_t index = 0; index < count; ++index) {
      const Place place = places_.at(index);
      out += answers.Read(place.offset, place.bytes);
      out += '\n';
      if (out.size() >= kBufferBytes) write();
    }
    write();
    // First, so that whoever sees the answers knows what they are of.
    if (key_.shards > 0) PartFacts::Write(path_, key_, hasher.Digest());
    file.Commit();
  } catch (const Error& error) {
    if (std::exchange(keep_journal_, true)) throw;
    // There is no run to resume: a person has to look.
    throw Error(error.kind(),
                fmt::format("{}; the answers are in {}, each behind a checksum "
                            "and its index",
                            error.what(), journal_path_));
  }
  finished_ = true;
  unlink(journal_path_.c_str());
}

}  // namespace rbln
