// Reading tokenizer.json. Its vocabulary and merges, nearly all of its bytes,
// go straight from the text into flat arrays; only the rest becomes a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/bpe.h"

namespace rbln {

// Whose text is being read, for errors.
struct FileContext {
  ErrorKind kind;
  std::string path;

  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format,
                         Args&&... args) const {
    throw Error(kind,
                path + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
};

// One JSON object of the file, read member by member. `path` is where it stands
// ("pre_tokenizer.pretokenizers[0]").
class JsonFields {
 public:
  // Fails unless `value` is an object.
  JsonFields(const Json& value, std::string path, const FileContext& file);

  const std::string& path() const { return path_; }
  const FileContext& file() const { return *file_; }

  // The member; fails when it is missing or of another type.
  bool Bool(const char* name) const;
  std::string String(const char* name) const;
  // An integer in [0, limit).
  int64_t Integer(const char* name, int64_t limit) const;
  const Json& Array(const char* name) const;
  JsonFields Object(const char* name) const;
  // As above; the default when the member is missing or null.
  bool Bool(const char* name, bool otherwise) const;
  std::string String(const char* name, const std::string& otherwise) const;

  // The member, or nullptr when it is missing or null.
  const Json* Find(const char* name) const;
  // Fails with what this object is and `message`.
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  const Json& Get(const char* name, const char* wanted,
                  bool (Json::*is)() const noexcept) const;

  const Json* value_;
  std::string path_;
  const FileContext* file_;
};

// Reads the text of a tokenizer.json: model.vocab into `vocabulary` and
// model.merges into `merges`, where they have BPE's form, and returns the rest
// with those two members replaced by null. Throws on text that is not JSON, on
// ids outside [0, kMaxTokenId], given twice, or on tokens given twice, and on
// merges of tokens that are not in the vocabulary. `*has_both` says whether
// both were there.
Json ReadTokenizerJson(std::string_view text, const FileContext& file,
                       Vocabulary* vocabulary, std::vector<Merge>* merges,
                       bool* has_both);

}  // namespace rbln
