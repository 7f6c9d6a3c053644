// What tests share: temporary directories, small files, and where data lies.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace rbln {

// A directory of its own, removed with the object.
class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "rbln-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const {
    return path_ + "/" + std::string(name);
  }

 private:
  std::string path_;
};

inline void WriteTestFile(const std::string& path, std::string_view content) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string ReadTestFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A path in the directory of real tokenizers, templates and models, which is
// not part of the project: RBLN_SHARED_DATA, or ../shared/data beside the
// source. Empty when it is absent; the test then skips with a message.
inline std::optional<std::string> SharedData(std::string_view relative) {
  const char* root = std::getenv("RBLN_SHARED_DATA");
  std::string path =
      (root != nullptr ? std::string(root)
                       : std::string(RBLN_SOURCE_DIR) + "/../shared/data") +
      "/" + std::string(relative);
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

}  // namespace rbln
