// Scripts by which shells complete the command line, made from what the parser
// knows: there is no second list of options to keep.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "rbln-tool/commands.h"

namespace rbln {
namespace {

std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// What is in --help: options and no positional arguments.
std::vector<const CLI::Option*> Options(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && option->nonpositional();
  });
}

// "-o", "--output".
std::vector<std::string> Names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

// The values of an option that has a list of them, as the parser describes it,
// "TEXT:{auto,none}", with spaces between; else empty.
std::string Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return "";
  std::string choices = type.substr(begin + 1, end - begin - 1);
  for (char& c : choices) {
    if (c == ',') c = ' ';
  }
  return choices;
}

std::string CommandNames(const CLI::App& app, const char* between) {
  std::string names;
  for (const CLI::App* command : Commands(app)) {
    names += (names.empty() ? "" : between) + command->get_name();
  }
  return names;
}

// ---- bash ----

std::string BashFlags(const CLI::App& app) {
  std::string flags;
  for (const CLI::Option* option : Options(app)) {
    for (const std::string& name : Names(*option)) flags += " " + name;
  }
  return flags;
}

std::string BashValues(const CLI::App& app, const std::string& command) {
  std::string cases;
  std::string files;
  for (const CLI::Option* option : Options(app)) {
    if (!TakesValue(*option)) continue;
    std::string patterns;
    for (const std::string& name : Names(*option)) {
      patterns += (patterns.empty() ? "" : "|") + command + ":" + name;
    }
    if (const std::string choices = Choices(*option); !choices.empty()) {
      cases += fmt::format("    {}) words='{}' ;;\n", patterns, choices);
    } else {
      files += (files.empty() ? "" : "|") + patterns;
    }
  }
  if (!files.empty()) cases += fmt::format("    {}) return ;;\n", files);
  return cases;
}

std::string Bash(const CLI::App& app) {
  std::string values = BashValues(app, "*");
  std::string flags;
  for (const CLI::App* command : Commands(app)) {
    values += BashValues(*command, command->get_name());
    flags += fmt::format("    {}) words+='{}' ;;\n", command->get_name(),
                         BashFlags(*command));
  }
  return fmt::format(
      R"(# bash completion for rbln-tool, written by the tool itself.
_rbln_tool() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command= words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
    {}) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  # The values of a flag; where nothing is said, files.
  case $command:$previous in
{}  esac
  if [[ -z $words ]]; then
    words='{}'
    case $command in
    '') words+=' {}' ;;
{}    esac
    [[ -z $command || $word == -* ]] || return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _rbln_tool rbln-tool
)",
      CommandNames(app, "|"), values, BashFlags(app), CommandNames(app, " "),
      flags);
}

// ---- zsh ----

// In single quotes, with what _arguments and _describe read as their own
// escaped.
std::string ZshText(const std::string& text, const char* special) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (std::string_view(special).find(c) != std::string_view::npos) {
      result += '\\';
    }
    result += c;
  }
  return result;
}

// Without its help, where a command has one of its own.
std::string ZshOptions(const CLI::App& app, bool help = true) {
  std::string lines;
  for (const CLI::Option* option : Options(app)) {
    if (!help && option == app.get_help_ptr()) continue;
    const std::vector<std::string> names = Names(*option);
    const std::string choices = Choices(*option);
    std::string value;
    if (!choices.empty()) {
      value = fmt::format(":value:({})", choices);
    } else if (TakesValue(*option)) {
      value = ":value:_files";
    }
    for (const std::string& name : names) {
      // One of a pair stands for the other.
      const std::string instead =
          names.size() > 1 ? fmt::format("({})", fmt::join(names, " ")) : "";
      lines += fmt::format("      '{}{}[{}]{}' \\\n", instead, name,
                           ZshText(option->get_description(), "[]\\"), value);
    }
  }
  return lines;
}

std::string Zsh(const CLI::App& app) {
  std::string described;
  std::string cases;
  for (const CLI::App* command : Commands(app)) {
    described += fmt::format("    '{}:{}'\n", command->get_name(),
                             ZshText(command->get_description(), ":\\"));
    cases +=
        fmt::format("    {}) _arguments \\\n{}{}      '*:file:_files' ;;\n",
                    command->get_name(), ZshOptions(app, /*help=*/false),
                    ZshOptions(*command));
  }
  return fmt::format(
      R"(#compdef rbln-tool
# zsh completion for rbln-tool, written by the tool itself.
_rbln_tool() {{
  local curcontext="$curcontext" state line
  local -a commands=(
{}  )
  _arguments -C \
{}      '1:command:->command' '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
{}    esac ;;
  esac
}}
_rbln_tool "$@"
)",
      described, ZshOptions(app), cases);
}

}  // namespace

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  return shell == "bash" ? Bash(app) : Zsh(app);
}

}  // namespace rbln
