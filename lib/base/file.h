// Files: whole reads, read-only maps, positioned reads, and writes that are
// whole or not at all. Every byte the project writes goes through FileWriter,
// and every sync and rename through this header, so that faults can be injected
// in one place.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rbln {

// Reads a whole file. Throws Error(kind) naming the path when it is missing,
// unreadable, not a regular file or larger than `max_bytes`.
std::string ReadFile(const std::string& path, ErrorKind kind,
                     size_t max_bytes = size_t{1} << 30);

bool FileExists(const std::string& path);

// A file mapped read-only. Movable; the map lives as long as the object.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws Error(kind) when the file cannot be opened or mapped.
  MappedFile(const std::string& path, ErrorKind kind);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// A file read at positions, from any number of threads at once.
class RandomAccessFile {
 public:
  RandomAccessFile(const std::string& path, ErrorKind kind);
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;
  ~RandomAccessFile();

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Fills `out` from `offset`. Throws Error(kind) on a short or failed read.
  void Read(uint64_t offset, std::span<std::byte> out) const;

 private:
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
  ErrorKind kind_;
};

// The system calls behind what is written, replaced by tests to inject faults.
struct FileCalls {
  ssize_t (*write)(int fd, const void* bytes, size_t size);
  ssize_t (*pwrite)(int fd, const void* bytes, size_t size, off_t offset);
  int (*fsync)(int fd);
  int (*rename)(const char* from, const char* to);
};
extern FileCalls file_calls;

// A file being written, buffered by nothing: callers write large pieces. Throws
// Error(kResource) with the path and the system's reason on any failure.
class FileWriter {
 public:
  // Creates the file; with `append`, keeps what is there and writes at its end.
  explicit FileWriter(const std::string& path, bool append = false);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  // Closes without a check; call Close to know that the bytes were taken.
  ~FileWriter();

  void Write(std::string_view bytes);
  // Writes at a position, from any number of threads at once.
  void WriteAt(uint64_t offset, std::span<const std::byte> bytes);
  void Truncate(uint64_t size);
  void Sync();
  void Close();
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

// Where what is written to a path goes: symbolic links are followed, to a file
// that need not be there.
struct OutputPath {
  std::string path;  // absolute, through directories that are no links
  // It is a device or FIFO, or, by a name such as /dev/stdout, something that
  // is open: no other file may take its place.
  bool direct = false;
};
// Throws Error(kind) where `path` is a directory or a socket, or where no file
// can be written.
OutputPath ResolveOutput(const std::string& path, ErrorKind kind);

// The name that a file has until it is whole.
std::string TemporaryPath(const std::string& path);

// A file that appears when it is whole: written beside its place, synced, and
// renamed over what was there, so that after a crash the file is the old one or
// the new one. What is direct (see OutputPath) is written as it is. Throws
// Error(kResource) as FileWriter does.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  // Without a Commit, nothing is left.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::string_view bytes) { file_.Write(bytes); }
  void Commit();

 private:
  const OutputPath place_;
  FileWriter file_;
};

// All of a file at once.
void WriteFileAtomically(const std::string& path, std::string_view bytes);

// Syncs a directory, so that renames in it survive a power loss.
void SyncDirectory(const std::string& path);
// rename(2), then, unless what may be lost is only a cache, a sync of the
// parent directory.
void RenameFile(const std::string& from, const std::string& to,
                bool sync = true);
// Puts directory `from` at `to`. What was at `to` is exchanged for it in one
// step and then removed; there is no moment at which `to` is half-made.
void ReplaceDirectory(const std::string& from, const std::string& to);

}  // namespace rbln
