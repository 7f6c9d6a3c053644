// Chat templates: the Jinja that checkpoints use, with the output of Python's
// jinja2 set up as transformers sets it up (trim_blocks, lstrip_blocks, the
// sandbox, loop controls, `tojson`, `raise_exception`, `strftime_now`).
// Reference: https://jinja.palletsprojects.com/en/stable/templates/ and
// transformers.utils.chat_template_utils.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace rbln {

// Immutable once parsed; Render may be called from many threads at once.
class ChatTemplate {
 public:
  // Bounds on one rendering; a template that passes one ends in an Error.
  struct Limits {
    size_t max_steps = 10'000'000;  // expressions and statements evaluated
    size_t max_output_bytes = size_t{64} << 20;  // also of any one string
    int max_depth = 100;                         // nested calls and expressions
  };

  // Parses `source`. `name` says in errors whose text it is. Throws
  // Error(kind) with the line of a syntax error or of a construct we lack.
  static std::unique_ptr<const ChatTemplate> Parse(std::string_view source,
                                                   std::string_view name,
                                                   ErrorKind kind);
  // The template of a checkpoint or compiled directory: chat_template.jinja,
  // else `chat_template` in tokenizer_config.json (a string, or a list of named
  // ones: "tool_use" where `tools` are given and it exists, else "default").
  // Null where there is none.
  static std::unique_ptr<const ChatTemplate> Load(const std::string& directory,
                                                  bool with_tools,
                                                  ErrorKind kind);
  ~ChatTemplate();

  // Renders with the variables in `context` (an object: messages,
  // add_generation_prompt, bos_token, eos_token, tools, documents, and any
  // other). Keys keep their order. `now` is the time for strftime_now, in
  // seconds since 1970, UTC; default: the clock. It is shown as local time, as
  // Python's datetime.now() is. Throws Error(kUsage) with the
  // template's own message for raise_exception, or the line of a failing
  // expression.
  std::string Render(const OrderedJson& context,
                     std::optional<int64_t> now = std::nullopt) const;
  std::string Render(const OrderedJson& context, std::optional<int64_t> now,
                     const Limits& limits) const;

 private:
  ChatTemplate();
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace rbln
