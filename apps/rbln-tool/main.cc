// rbln-tool: compile a language model, look into it, run prompts through it.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>

#include "base/error.h"
#include "rbln-tool/cluster.h"
#include "rbln-tool/commands.h"

namespace rbln {
namespace {

bool WantsColor(const std::string& when) {
  if (when == "always") return true;
  if (when == "never") return false;
  const char* const no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') &&
         isatty(STDERR_FILENO) != 0;
}

// Everything that is said to a person goes to standard error.
void SetUpLog(const CommonFlags& common) {
  // Of processes that mpirun started together one is enough to hear.
  const bool quiet = common.quiet || World::LaunchedRank() > 0;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_st>(
      common.color ? spdlog::color_mode::always : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("rbln-tool", sink);
  logger->set_pattern("%^rbln-tool:%$ %v");
  logger->set_level(quiet                 ? spdlog::level::err
                    : common.verbose >= 2 ? spdlog::level::trace
                    : common.verbose == 1 ? spdlog::level::debug
                                          : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Compiles language models into fixed-shape programs and runs "
      "batches of prompts through them on CPUs.",
      "rbln-tool");
  app.set_version_flag("--version", "rbln-tool " RBLN_VERSION);
  app.require_subcommand(1);
  app.fallthrough();

  CommonFlags common;
  std::string color = "auto";
  app.add_flag("-q,--quiet", common.quiet, "Say nothing but errors");
  app.add_flag("-v,--verbose", common.verbose, "Say more; twice: most");
  app.add_option("--color", color, "Colour messages: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  // For the build, which installs what it prints.
  app.add_option_function<std::string>(
         "--completion",
         [&app](const std::string& shell) {
           fmt::print("{}", CompletionScript(app, shell));
           throw CLI::Success();
         })
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->group("");
  app.parse_complete_callback([&] {
    common.color = WantsColor(color);
    SetUpLog(common);
  });

  int exit_code = 0;
  AddCompileCommand(app, common, exit_code);
  AddInspectCommand(app, common, exit_code);
  AddGenerateCommand(app, common, exit_code);
  AddMergeCommand(app, common, exit_code);
  AddBenchCommand(app, common, exit_code);
  AddCompareCommand(app, common, exit_code);
  for (CLI::App* command : app.get_subcommands({})) command->fallthrough();

  SetUpLog(common);
  try {
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    if (World::LaunchedRank() > 0) return static_cast<int>(ErrorKind::kUsage);
    const CLI::App* command = &app;
    for (const CLI::App* one : app.get_subcommands()) command = one;
    if (command == &app && dynamic_cast<const CLI::RequiredError*>(&error)) {
      // Not the parser's "A subcommand is required", which names none.
      const auto* const word = std::find_if(
          argv + 1, argv + argc, [](const char* arg) { return *arg != '-'; });
      std::string names;
      for (const CLI::App* one : app.get_subcommands({})) {
        names += (names.empty() ? "" : ", ") + one->get_name();
      }
      spdlog::error("{}; the commands are: {} (see rbln-tool --help)",
                    word == argv + argc
                        ? "no command"
                        : fmt::format("no command '{}'", *word),
                    names);
      return static_cast<int>(ErrorKind::kUsage);
    }
    spdlog::error("{} (see rbln-tool {}--help)", error.what(),
                  command == &app ? "" : command->get_name() + " ");
    return static_cast<int>(ErrorKind::kUsage);
  } catch (const Ended& ended) {
    return ended.exit_code;
  } catch (const Error& error) {
    // All processes meet an error before they join.
    if (World::LaunchedRank() == 0) spdlog::error("{}", error.what());
    return error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(ErrorKind::kResource);
  } catch (const std::bad_alloc&) {
    spdlog::error("out of memory");
    return static_cast<int>(ErrorKind::kResource);
  }
}

}  // namespace
}  // namespace rbln

int main(int argc, char** argv) { return rbln::Main(argc, argv); }
