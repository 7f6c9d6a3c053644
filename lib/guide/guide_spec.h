// What the text of an answer must match.
#pragma once

#include <memory>
#include <string>

namespace rbln {

class Grammar;

struct GuideSpec {
  enum class Kind {
    kSchema,  // JSON that is valid under the JSON schema `text`
    kRegex,   // the regular expression `text`, from start to end
    kChoice,  // one of the strings of `text`, a JSON list
  };
  Kind kind = Kind::kSchema;
  std::string text;
  std::string name;  // of the parameter it came from, for messages
};

// Throws Error(kUsage), beginning with the parameter's name.
std::unique_ptr<const Grammar> CompileGuide(const GuideSpec& spec);

}  // namespace rbln
