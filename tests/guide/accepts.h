// Whether a spec lets a text through, byte by byte, and what it says if it is
// refused itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "guide/grammar.h"
#include "guide/guide_spec.h"
#include "guide/matcher.h"

namespace rbln {

class Acceptor {
 public:
  explicit Acceptor(const GuideSpec& spec)
      : grammar_(CompileGuide(spec)), matcher_(*grammar_) {}

  bool operator()(std::string_view text) {
    int state = matcher_.start();
    for (const char c : text) {
      state = matcher_.Next(state, static_cast<uint8_t>(c));
    }
    return matcher_.MayEnd(state);
  }
  // Whether the text is the beginning of one that is let through.
  bool Begins(std::string_view text) {
    int state = matcher_.start();
    for (const char c : text) {
      state = matcher_.Next(state, static_cast<uint8_t>(c));
    }
    return state != Matcher::kDead;
  }
  Matcher& matcher() { return matcher_; }

 private:
  std::unique_ptr<const Grammar> grammar_;
  Matcher matcher_;
};

inline GuideSpec SchemaSpec(std::string schema) {
  return {GuideSpec::Kind::kSchema, std::move(schema), "guided_json"};
}
inline GuideSpec RegexSpec(std::string pattern) {
  return {GuideSpec::Kind::kRegex, std::move(pattern), "guided_regex"};
}
inline GuideSpec ChoiceSpec(std::string list) {
  return {GuideSpec::Kind::kChoice, std::move(list), "guided_choice"};
}

// What compiling a spec says against it; empty where it is fine.
inline std::string Problem(const GuideSpec& spec) {
  try {
    CompileGuide(spec);
    return "";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return "not a usage error";
    return error.what();
  }
}

}  // namespace rbln
