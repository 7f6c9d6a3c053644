#include "text/chat_template.h"

#include <ctime>

#include "base/file.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

namespace rbln {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{16} << 20;

// The text of `chat_template` in tokenizer_config.json; null where there is
// none. Of a list of named templates, the one for tools or the default.
const std::string* FindTemplate(const Json& config, const std::string& path,
                                bool with_tools, ErrorKind kind) {
  const auto it =
      config.is_object() ? config.find("chat_template") : config.end();
  if (it == config.end() || it->is_null()) return nullptr;
  if (it->is_string()) return it->get_ptr<const std::string*>();
  const auto fail = [&](std::string_view found) {
    return Error(kind, fmt::format("{}: chat_template: expected a string or a "
                                   "list of named templates, found {}",
                                   path, found));
  };
  if (!it->is_array()) throw fail(it->type_name());
  const std::string* chosen = nullptr;
  for (const Json& entry : *it) {
    if (!entry.is_object() || !entry.contains("name") ||
        !entry["name"].is_string() || !entry.contains("template") ||
        !entry["template"].is_string()) {
      throw fail("an entry without the strings 'name' and 'template'");
    }
    const auto& name = entry["name"].get_ref<const std::string&>();
    const auto* text = entry["template"].get_ptr<const std::string*>();
    if (name == "tool_use" && with_tools) return text;
    if (name == "default") chosen = text;
  }
  if (chosen == nullptr) throw fail("no template named 'default'");
  return chosen;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string name;
  std::unique_ptr<const jinja::Program> program;
};

ChatTemplate::ChatTemplate() = default;
ChatTemplate::~ChatTemplate() = default;

std::unique_ptr<const ChatTemplate> ChatTemplate::Parse(std::string_view source,
                                                        std::string_view name,
                                                        ErrorKind kind) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  try {
    impl->program = jinja::ParseProgram(source);
  } catch (const jinja::SyntaxFailure& failure) {
    throw Error(kind, fmt::format("{}: line {}: {}", name, failure.line,
                                  failure.what()));
  }
  std::unique_ptr<ChatTemplate> result(new ChatTemplate);
  result->impl_ = std::move(impl);
  return result;
}

std::unique_ptr<const ChatTemplate> ChatTemplate::Load(
    const std::string& directory, bool with_tools, ErrorKind kind) {
  const std::string own_file = directory + "/chat_template.jinja";
  if (FileExists(own_file)) {
    return Parse(ReadFile(own_file, kind, kMaxTemplateBytes), own_file, kind);
  }
  const std::string path = directory + "/tokenizer_config.json";
  if (!FileExists(path)) return nullptr;
  const Json config = ReadJsonFile(path, kind);
  const std::string* text = FindTemplate(config, path, with_tools, kind);
  if (text == nullptr) return nullptr;
  return Parse(*text, path + ": chat_template", kind);
}

std::string ChatTemplate::Render(const OrderedJson& context,
                                 std::optional<int64_t> now) const {
  return Render(context, now, Limits());
}

std::string ChatTemplate::Render(const OrderedJson& context,
                                 std::optional<int64_t> now,
                                 const Limits& limits) const {
  const std::time_t time =
      now.has_value() ? static_cast<std::time_t>(*now) : std::time(nullptr);
  if (!context.is_object()) {
    throw UsageError("{}: the variables of a chat template must be an object",
                     impl_->name);
  }
  int line = 1;
  try {
    jinja::Interpreter interpreter(*impl_->program, context, time, limits);
    try {
      return interpreter.Run();
    } catch (const jinja::Failure&) {
      line = interpreter.line();
      throw;
    }
  } catch (const jinja::Failure& failure) {
    throw UsageError("{}: line {}: {}", impl_->name, line, failure.what());
  }
}

}  // namespace rbln
