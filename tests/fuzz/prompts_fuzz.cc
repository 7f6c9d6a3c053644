// Any bytes as a file of prompts, line by line.
#include <cstdint>
#include <string>

#include "job/line_reader.h"
#include "job/prompt_line.h"
#include "test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string model =
      std::string(RBLN_SOURCE_DIR) + "/examples/tiny-chat";
  static const auto tokenizer =
      rbln::Tokenizer::Load(model, rbln::ErrorKind::kModel);
  static const auto chat_template =
      rbln::ChatTemplate::Load(model, false, rbln::ErrorKind::kModel);
  static const rbln::TempDir directory;
  rbln::LineContext context;
  context.tokenizer = tokenizer.get();
  context.chat_template = context.tool_template = chat_template.get();
  context.max_model_len = 100;

  const std::string path = directory / "prompts.jsonl";
  rbln::WriteTestFile(path, {reinterpret_cast<const char*>(data), size});
  constexpr size_t kMaxLine = 4096;
  rbln::LineReader reader(path, kMaxLine);
  using Result = rbln::LineReader::Result;
  std::string line;
  for (int64_t index = 0;; ++index) {
    const Result result = reader.Next(rbln::LineReader::kForever, line);
    if (result == Result::kEnd) return 0;
    if (result == Result::kTooLong) continue;
    if (line.size() > kMaxLine) __builtin_trap();
    const rbln::PromptLine parsed =
        rbln::ParsePromptLine(line, index, reader.line_number(), context);
    if (!parsed.error && parsed.prompts.empty()) __builtin_trap();
  }
}
