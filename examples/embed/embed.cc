// Loads a compiled directory and answers one prompt: embed DIR PROMPT
#include <cstdio>
#include <vector>

#include "engine/engine.h"
#include "runtime/runtime.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed DIR PROMPT\n");
    return 2;
  }
  try {
    const auto executor = rbln::LoadModel(argv[1], {});
    const auto tokenizer =
        rbln::Tokenizer::Load(argv[1], rbln::ErrorKind::kModel);
    const auto chat = rbln::ChatTemplate::Load(argv[1], /*with_tools=*/false,
                                               rbln::ErrorKind::kModel);
    std::string prompt = argv[2];
    if (chat) {
      prompt =
          chat->Render({{"messages", {{{"role", "user"}, {"content", prompt}}}},
                        {"add_generation_prompt", true},
                        {"bos_token", tokenizer->bos_token()},
                        {"eos_token", tokenizer->eos_token()}});
    }
    rbln::EngineOptions options;
    if (tokenizer->eos()) options.eos_token_ids = {*tokenizer->eos()};
    rbln::Engine engine(*executor, *tokenizer, options);
    rbln::Request request;
    request.prompt = tokenizer->Encode(prompt, /*add_special_tokens=*/!chat);
    request.params.max_tokens = 64;
    request.params.temperature = 0;
    engine.Add(request);
    std::vector<rbln::Finished> finished;
    while (engine.Step(finished)) {
    }
    std::printf("%s\n", finished.at(0).completions.at(0).text.c_str());
  } catch (const rbln::Error& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return error.exit_code();
  }
}
