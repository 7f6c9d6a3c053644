// The one error type of the project.
//
// Whatever comes from a file, a flag or a prompt ends, when it is bad, in an
// rbln::Error whose message names the item, what was wanted, what was found and
// what to do. Assertions are for our own bugs only. Errors are thrown as
// exceptions; kernels and the code of a step never throw.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace rbln {

// What kind of thing went wrong. The value is the exit code of the tool.
enum class ErrorKind {
  kUsage = 2,     // flags, config file, input file, checkpoint to compile
  kModel = 3,     // a compiled directory that cannot be used
  kResource = 4,  // memory, disk, a failing read or write
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// Builds an Error with a formatted message:
//   throw UsageError("{}: no such file", path);
template <typename... Args>
Error UsageError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kUsage,
               fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
Error ModelError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kModel,
               fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
Error ResourceError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kResource,
               fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace rbln
