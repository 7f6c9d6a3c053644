// What a tokenizer.json does to text before it is cut into pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_file.h"
#include "text/tokenizer_regex.h"

namespace rbln {

// What a Replace or Split looks for: a literal text, or else a pattern.
struct TextPattern {
  std::string literal;
  std::optional<Regex> regex;

  // Reads the member "pattern": {"String": ...} or {"Regex": ...}.
  static TextPattern Read(const JsonFields& fields);
  // Appends `text` with every match replaced by `content`.
  void AppendReplaced(std::string_view text, std::string_view content,
                      std::string* out) const;
};

// The steps of the "normalizer" member, in order. Immutable once built.
class Normalizer {
 public:
  // Does nothing.
  Normalizer() = default;
  // Throws on a normalizer that is not known.
  Normalizer(const Json& value, const FileContext& file);

  bool empty() const { return steps_.empty(); }
  // Whether text can begin with something that did not stand first in it.
  bool MovesStart() const;

  // Normalizes `text`, well-formed UTF-8. Returns `text` itself or a view of
  // `*buffer`.
  std::string_view Apply(std::string_view text, std::string* buffer) const;

 private:
  enum class Kind {
    kUnicodeForm,
    kPrepend,
    kReplace,
    kLowercase,
    kStrip,
    kStripAccents,
    kByteLevel,
  };
  struct Step {
    Kind kind;
    int form = 0;         // kUnicodeForm: options of utf8proc
    std::string content;  // kPrepend, kReplace
    TextPattern pattern;  // kReplace
    bool left = false;    // kStrip
    bool right = false;
  };

  void Add(const JsonFields& fields);
  static void Run(const Step& step, std::string_view text, std::string* out);

  std::vector<Step> steps_;
};

}  // namespace rbln
