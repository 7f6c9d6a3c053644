// The subcommands, one file each: flags to options, results to exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace rbln {

// Flags that every command has.
struct CommonFlags {
  bool quiet = false;
  int verbose = 0;
  bool color = false;  // of standard error, decided
};

// Each adds its subcommand to `app`. When the command line names it, its
// callback runs it and stores the exit code in `exit_code`, or throws Error.
// `common` and `exit_code` must outlive `app`; `common` is filled in before a
// callback runs.
void AddCompileCommand(CLI::App& app, const CommonFlags& common,
                       int& exit_code);
void AddInspectCommand(CLI::App& app, const CommonFlags& common,
                       int& exit_code);
void AddBenchCommand(CLI::App& app, const CommonFlags& common, int& exit_code);
void AddCompareCommand(CLI::App& app, const CommonFlags& common,
                       int& exit_code);
void AddGenerateCommand(CLI::App& app, const CommonFlags& common,
                        int& exit_code);

void AddMergeCommand(CLI::App& app, const CommonFlags& common, int& exit_code);

// The completion script for `shell`, bash or zsh, of all that --help shows.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

// The compiled directory to run: `named`, else RBLN_MODEL, else the output of
// ./rbln.yaml. Throws Error(kUsage) where none of them says one.
std::string ModelDirectory(const std::string& named);

}  // namespace rbln
