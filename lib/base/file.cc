#include "base/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace rbln {
namespace {

namespace fs = std::filesystem;

std::string Reason() { return std::strerror(errno); }

std::string ParentDirectory(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Opens a regular file for reading; its size goes to `size`.
int OpenRegular(const std::string& path, ErrorKind kind, uint64_t* size) {
  // O_NONBLOCK: a FIFO in the place of a file must not hang the open.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    throw Error(kind, fmt::format("{}: cannot open: {}", path, Reason()));
  }
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    const std::string what =
        S_ISDIR(info.st_mode) ? "a directory" : "no regular file";
    close(fd);
    throw Error(kind, fmt::format("{}: expected a file, found {}", path, what));
  }
  *size = static_cast<uint64_t>(info.st_size);
  return fd;
}

// Fills `out` from `offset`; false at the end of the file or on an error, which
// is then in errno (0 at the end).
bool ReadFully(int fd, uint64_t offset, std::byte* out, size_t size) {
  while (size > 0) {
    const ssize_t n = pread(fd, out, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = 0;
      return false;
    }
    out += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

FileCalls file_calls = {write, pwrite, fsync, rename};

std::string ReadFile(const std::string& path, ErrorKind kind,
                     size_t max_bytes) {
  const RandomAccessFile file(path, kind);
  if (file.size() > max_bytes) {
    throw Error(kind, fmt::format("{}: {} bytes, more than the {} expected of "
                                  "such a file",
                                  path, file.size(), max_bytes));
  }
  std::string result(file.size(), '\0');
  file.Read(0, std::as_writable_bytes(std::span(result)));
  return result;
}

bool FileExists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

MappedFile::MappedFile(const std::string& path, ErrorKind kind) : path_(path) {
  uint64_t size = 0;
  const int fd = OpenRegular(path, kind, &size);
  size_ = size;
  if (size_ > 0) {
    void* data = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    const std::string reason = data == MAP_FAILED ? Reason() : "";
    close(fd);
    if (data == MAP_FAILED) {
      throw Error(kind, fmt::format("{}: cannot map {} bytes: {}", path, size_,
                                    reason));
    }
    data_ = static_cast<const std::byte*>(data);
  } else {
    close(fd);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

RandomAccessFile::RandomAccessFile(const std::string& path, ErrorKind kind)
    : path_(path), kind_(kind) {
  fd_ = OpenRegular(path, kind, &size_);
}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)),
      kind_(other.kind_) {}

RandomAccessFile::~RandomAccessFile() {
  if (fd_ >= 0) close(fd_);
}

void RandomAccessFile::Read(uint64_t offset, std::span<std::byte> out) const {
  if (!ReadFully(fd_, offset, out.data(), out.size())) {
    throw Error(kind_, fmt::format("{}: cannot read {} bytes at {}: {}", path_,
                                   out.size(), offset,
                                   errno != 0 ? Reason() : "the file ends"));
  }
}

FileWriter::FileWriter(const std::string& path, bool append) : path_(path) {
  fd_ = open(path.c_str(),
             O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC),
             0666);
  if (fd_ < 0) throw ResourceError("{}: cannot create: {}", path, Reason());
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

FileWriter::~FileWriter() {
  if (fd_ >= 0) close(fd_);
}

void FileWriter::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = file_calls.write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw ResourceError("{}: cannot write: {}", path_, Reason());
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void FileWriter::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = file_calls.pwrite(fd_, bytes.data(), bytes.size(),
                                        static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw ResourceError("{}: cannot write: {}", path_, Reason());
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void FileWriter::Truncate(uint64_t size) {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) {
    throw ResourceError("{}: cannot set the size: {}", path_, Reason());
  }
}

void FileWriter::Sync() {
  if (file_calls.fsync(fd_) != 0) {
    throw ResourceError("{}: cannot sync: {}", path_, Reason());
  }
}

void FileWriter::Close() {
  if (close(std::exchange(fd_, -1)) != 0) {
    throw ResourceError("{}: cannot close: {}", path_, Reason());
  }
}

OutputPath ResolveOutput(const std::string& path, ErrorKind kind) {
  constexpr int kMaxLinks = 40;  // as the kernel has it
  const auto fail = [&](const std::string& why) {
    return Error(kind, fmt::format("{}: cannot be written: {}", path, why));
  };
  OutputPath out{path};
  fs::path directory;
  for (int links = 0;; ++links) {
    if (links > kMaxLinks) throw fail("too many symbolic links");
    std::error_code error;
    directory = fs::canonical(ParentDirectory(out.path), error);
    if (error) {
      throw fail(fmt::format("directory {}: {}; make it, or name another file",
                             ParentDirectory(out.path), error.message()));
    }
    out.path = (directory / fs::path(out.path).filename()).string();
    // A link there stands for an open file, not for a name.
    out.direct = directory.native().starts_with("/proc/");
    if (out.direct) break;
    const fs::path target = fs::read_symlink(out.path, error);
    if (error) break;
    out.path = (directory / target).string();
  }
  struct stat info {};
  if (stat(out.path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) throw fail("it is a directory; name a file");
    if (S_ISSOCK(info.st_mode)) throw fail("it is a socket; name a file");
    out.direct = out.direct || !S_ISREG(info.st_mode);
  } else if (errno != ENOENT) {
    throw fail(Reason());
  }
  const std::string written = out.direct ? out.path : directory.string();
  if (access(written.c_str(), W_OK) != 0) {
    throw fail(fmt::format("{}: {}", written, Reason()));
  }
  return out;
}

std::string TemporaryPath(const std::string& path) { return path + ".tmp"; }

AtomicFile::AtomicFile(const std::string& path)
    : place_(ResolveOutput(path, ErrorKind::kResource)),
      // What is open may be a file with something in it.
      file_(place_.direct ? place_.path : TemporaryPath(place_.path),
            /*append=*/place_.direct) {}

AtomicFile::~AtomicFile() {
  // After a Commit there is none.
  if (!place_.direct) unlink(file_.path().c_str());
}

void AtomicFile::Commit() {
  if (!place_.direct) file_.Sync();
  file_.Close();
  if (!place_.direct) RenameFile(file_.path(), place_.path);
}

void WriteFileAtomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

void SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw ResourceError("{}: cannot open: {}", path, Reason());
  const int rc = file_calls.fsync(fd);
  const std::string reason = rc != 0 ? Reason() : "";
  close(fd);
  if (rc != 0) throw ResourceError("{}: cannot sync: {}", path, reason);
}

void RenameFile(const std::string& from, const std::string& to, bool sync) {
  if (file_calls.rename(from.c_str(), to.c_str()) != 0) {
    throw ResourceError("{}: cannot rename to {}: {}", from, to, Reason());
  }
  if (sync) SyncDirectory(ParentDirectory(to));
}

void ReplaceDirectory(const std::string& from, const std::string& to) {
  if (!FileExists(to)) return RenameFile(from, to);
  if (syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
              RENAME_EXCHANGE) != 0) {
    // Some file systems cannot exchange: for a moment there is no directory at
    // `to`, but never a half-made one.
    std::string old;
    for (int i = 0; old.empty() || FileExists(old); ++i) {
      old = fmt::format("{}.old{}", to, i);
    }
    RenameFile(to, old);
    RenameFile(from, to);
    fs::remove_all(old);
    return;
  }
  SyncDirectory(ParentDirectory(to));
  std::error_code ignored;  // what is left over does no harm
  fs::remove_all(from, ignored);
}

}  // namespace rbln
