// rbln-tool: compile a language model, look into it, run prompts through it.
#include <fcntl.h>
#include <fmt/core.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/console.h"
#include "base/error.h"
#include "base/nearest.h"
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

// A message takes the place of the line of progress.
class LogSink : public spdlog::sinks::stderr_color_sink_st {
 public:
  using Base = spdlog::sinks::stderr_color_sink_st;
  using Base::Base;
  void log(const spdlog::details::log_msg& message) override {
    ClearStatus();
    Base::log(message);
  }
};

// Everything that is said to a person goes to standard error.
void SetUpLog(const CommonFlags& common) {
  // Of processes that mpirun started together one is enough to hear.
  const bool quiet = common.quiet || World::LaunchedRank() > 0;
  auto sink = std::make_shared<LogSink>(
      common.color ? spdlog::color_mode::always : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("rbln-tool", sink);
  logger->set_pattern("%^rbln-tool:%$ %v");
  logger->set_level(quiet                 ? spdlog::level::err
                    : common.verbose >= 2 ? spdlog::level::trace
                    : common.verbose == 1 ? spdlog::level::debug
                                          : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

// Where one of the three standard files is closed, the next file to be opened
// would get its number, and what is said would go into it. Its place is taken
// by one that fails as a closed one does.
void OpenStandardFiles() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest number that is free.
    const int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", mode) < 0) {
      _exit(static_cast<int>(ErrorKind::kResource));
    }
  }
}

// What was printed is in a buffer until now: a disk may be full.
int FlushOutput(int exit_code) {
  const bool failed = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed) return exit_code;
  spdlog::error("standard output: cannot write{}{}", errno != 0 ? ": " : "",
                errno != 0 ? std::strerror(errno) : "");
  return exit_code != 0 ? exit_code : static_cast<int>(ErrorKind::kResource);
}

// Names the first flag of `words`, or else the first word, none of which
// `command` knows.
std::string Unexpected(const std::vector<std::string>& words,
                       const CLI::App& app, const CLI::App& command) {
  const auto flag = std::find_if(
      words.begin(), words.end(),
      [](const std::string& word) { return word.starts_with("-"); });
  if (flag == words.end()) {
    return fmt::format("unexpected argument '{}'", words.at(0));
  }
  const std::string name = flag->substr(0, flag->find('='));
  std::vector<std::string> known;
  for (const CLI::App* one : {&app, &command}) {
    for (const CLI::Option* option : one->get_options()) {
      for (const std::string& known_name : option->get_lnames()) {
        known.push_back("--" + known_name);
      }
    }
  }
  const std::string nearest = Nearest(name, known);
  return fmt::format("no flag {}{}", name,
                     nearest.empty() ? "" : "; the nearest is " + nearest);
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
    std::ostringstream text;
    const int code = app.exit(success, text, text);  // --help, --version
    std::fputs(text.str().c_str(), stdout);
    return code;
  } catch (const CLI::ParseError& error) {
    if (World::LaunchedRank() > 0) return static_cast<int>(ErrorKind::kUsage);
    const CLI::App* command = &app;
    for (const CLI::App* one : app.get_subcommands()) command = one;
    if (command == &app && dynamic_cast<const CLI::RequiredError*>(&error)) {
      // Not the parser's "A subcommand is required", which names none.
      const std::vector<std::string> left = app.remaining(true);
      const std::string what = left.empty() ? "no command"
                               : left[0].starts_with("-")
                                   ? Unexpected(left, app, app)
                                   : fmt::format("no command '{}'", left[0]);
      std::string names;
      for (const CLI::App* one : app.get_subcommands({})) {
        names += (names.empty() ? "" : ", ") + one->get_name();
      }
      spdlog::error("{}; the commands are: {} (see rbln-tool --help)", what,
                    names);
      return static_cast<int>(ErrorKind::kUsage);
    }
    const bool extras =
        dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    spdlog::error(
        "{} (see rbln-tool {}--help)",
        extras ? Unexpected(app.remaining(true), app, *command) : error.what(),
        command == &app ? "" : command->get_name() + " ");
    return static_cast<int>(ErrorKind::kUsage);
  } catch (const Ended& ended) {
    return ended.exit_code;
  } catch (const Error& error) {
    // All processes meet an error before they join.
    if (World::LaunchedRank() == 0) spdlog::error("{}", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    spdlog::error("out of memory");
    return static_cast<int>(ErrorKind::kResource);
  } catch (const std::system_error& error) {
    // Of files, mostly. What could not be printed is for FlushOutput to say.
    if (std::ferror(stdout) == 0) spdlog::error("{}", error.what());
    return static_cast<int>(ErrorKind::kResource);
  }
}

}  // namespace
}  // namespace rbln

int main(int argc, char** argv) {
  rbln::OpenStandardFiles();
  return rbln::FlushOutput(rbln::Main(argc, argv));
}
