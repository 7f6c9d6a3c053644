// rbln-tool compile: a checkpoint becomes a compiled directory.
#include "compiler/compile.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "base/console.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "compiler/options.h"
#include "job/parameters.h"
#include "rbln-tool/cluster.h"
#include "rbln-tool/commands.h"
#include "rbln-tool/values.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace rbln {
namespace {

struct CompileFlags {
  std::string config;
  int threads = 0;
  bool force = false;
  bool dump_graph = false;
  // By key; only those given are there.
  std::map<std::string, std::string> keys;
};

// A line that is rewritten in place, on a terminal only.
class ProgressLine {
 public:
  explicit ProgressLine(bool shown) : shown_(shown) {}
  ~ProgressLine() { ClearStatus(); }
  void Show(uint64_t done, uint64_t total) {
    if (!shown_) return;
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = seconds > 0 ? done / seconds : 0;
    ShowStatus(fmt::format(
        "packing weights {:3.0f}%  {} of {}  {:.2f} GB/s  {:.0f} s left",
        100.0 * done / std::max<uint64_t>(1, total), FormatBytes(done),
        FormatBytes(total), rate * 1e-9,
        rate > 0 ? (total - done) / rate : 0.0));
  }

 private:
  const bool shown_;
  bool drawn_ = false;
  std::mutex mutex_;
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_;
};

// The first signal to end; a second one ends the process as always.
std::atomic<int> ended_by{0};

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { ended_by = number; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

CompileConfig ReadConfig(const CompileFlags& flags) {
  constexpr char kDefaultConfig[] = "rbln.yaml";
  CompileConfig config;
  if (!flags.config.empty() && std::filesystem::is_directory(flags.config)) {
    config.SetFlag("model", flags.config);
  } else if (!flags.config.empty()) {
    config = CompileConfig::FromFile(flags.config);
  } else if (FileExists(kDefaultConfig)) {
    config = CompileConfig::FromFile(kDefaultConfig);
  } else if (!flags.keys.contains("model")) {
    throw UsageError(
        "compile: nothing to compile: there is no ./{}; name a config file or "
        "a checkpoint directory, or give --model",
        kDefaultConfig);
  }
  for (const auto& [key, value] : flags.keys) config.SetFlag(key, value);
  return config;
}

// Defaults for generate meet its own rules, before any work is done, and by
// where each was set.
void CheckSampling(const CompileConfig& config, const CompileOptions& options,
                   int vocab_size) {
  for (const auto& [name, value] : options.sampling.values) {
    const std::string key = "sampling." + name;
    try {
      RequestParams params;
      params.sampling.max_tokens.reset();  // what min_tokens is held against
      SetParameter(params, name, ParseJson(value, key, ErrorKind::kUsage));
      Normalize(params.sampling, vocab_size);
    } catch (const Error& error) {
      throw UsageError("{}: sampling: {}", config.Find(key)->origin,
                       error.what());
    }
  }
}

// Tries the files that are copied as they are, and says what generate would
// refuse. No error: a directory may be for bench, and two of the three files
// can be put aside by a flag.
void TryTextFiles(const std::string& directory, bool dummy, int vocab_size) {
  const auto attempt = [](const char* consequence, const auto& load) {
    try {
      load();
    } catch (const Error& error) {
      spdlog::warn("{}; generate {}", error.what(), consequence);
    }
  };
  // A shape to be timed comes as a config.json alone.
  if (!dummy || FileExists(directory + "/tokenizer.json")) {
    attempt("will refuse the model",
            [&] { Tokenizer::Load(directory, ErrorKind::kUsage); });
  }
  attempt("will want --chat-template", [&] {
    ChatTemplate::Load(directory, /*with_tools=*/false, ErrorKind::kUsage);
    ChatTemplate::Load(directory, /*with_tools=*/true, ErrorKind::kUsage);
  });
  const std::string generation = directory + "/generation_config.json";
  if (!FileExists(generation)) return;
  attempt("will want --generation-config none", [&] {
    ParameterDefaults defaults({});
    defaults.Apply(
        GenerationConfigValues(ReadJsonFile(generation, ErrorKind::kUsage)),
        generation);
    SamplingParams sampling = defaults.params().sampling;
    try {
      Normalize(sampling, vocab_size);
    } catch (const Error& error) {
      throw UsageError("{}: {}", generation, error.what());
    }
  });
}

void RunCompile(const CompileFlags& flags, const CommonFlags& common) {
  const CompileConfig config = ReadConfig(flags);
  const ConfigValue* model = config.Find("model");
  if (model == nullptr) {
    throw UsageError(
        "model: not set; name a checkpoint directory, in the "
        "config file or with --model");
  }
  const ConfigValue* load_format = config.Find("load_format");
  const Checkpoint checkpoint = Checkpoint::Open(
      model->text, load_format != nullptr && load_format->text == "dummy");
  const CompileOptions options = ResolveOptions(config, checkpoint.model());
  CheckSampling(config, options, checkpoint.model().vocab_size);
  for (const std::string& warning : checkpoint.warnings()) {
    spdlog::warn(warning);
  }
  for (const std::string& warning : options.warnings) spdlog::warn(warning);
  TryTextFiles(checkpoint.directory(), options.dummy_weights,
               checkpoint.model().vocab_size);

  CompileSettings settings;
  settings.threads = flags.threads;
  settings.force = flags.force;
  ProgressLine progress(!common.quiet && isatty(STDERR_FILENO) != 0);
  // Before anything is packed there is nothing to remove.
  std::once_flag caught;
  settings.progress = [&](const char*, uint64_t done, uint64_t total) {
    std::call_once(caught, CatchSignals);
    if (const int number = ended_by; number != 0) throw Ended{128 + number};
    progress.Show(done, total);
  };
  if (flags.dump_graph) {
    settings.dump = [](const std::string& pass, const std::string& graph) {
      fmt::print("# after {}\n{}\n", pass, graph);
    };
  }
  CompileReport report;
  try {
    report = Compile(checkpoint, options, settings);
  } catch (const Ended&) {
    spdlog::error("interrupted: nothing was written");
    throw;
  }
  if (report.up_to_date()) {
    spdlog::info("{} is up to date: nothing changed", report.output);
    return;
  }
  spdlog::info("{}: {} {:.1f} M parameters for {}, {} in {:.2f} s",
               report.output, checkpoint.model().architecture,
               checkpoint.model().NumParameters() * 1e-6, report.target,
               FormatBytes(report.output_bytes), report.seconds);
  for (const std::string& file : report.written) {
    spdlog::debug("wrote {}", file);
  }
  if (!report.kept.empty()) {
    spdlog::info("kept {} of {} files as they were", report.kept.size(),
                 report.kept.size() + report.written.size());
  }
}

}  // namespace

void AddCompileCommand(CLI::App& app, const CommonFlags& common,
                       int& exit_code) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App* command = app.add_subcommand(
      "compile",
      "Turn a Hugging Face checkpoint into a directory of programs: one "
      "decoder for each batch size, one prefill, one set of packed weights. "
      "What did not change since the last compile is kept.");
  command->add_option("CONFIG", flags->config,
                      "A config file, or a checkpoint directory (then all "
                      "defaults); default ./rbln.yaml");
  for (const CompileConfig::Key& key : CompileConfig::Keys()) {
    const std::string name = key.name;
    command
        ->add_option_function<std::string>(
            FlagName(name),
            [flags, name](const std::string& value) {
              flags->keys[name] = value;
            },
            key.help)
        ->type_name(key.value_name)
        ->group("Config keys (over the file's)");
  }
  for (const ParameterInfo& parameter : Parameters()) {
    const std::string name = std::string("sampling.") + parameter.name;
    command
        ->add_option_function<std::string>(
            FlagName(name),
            [flags, name](const std::string& value) {
              flags->keys[name] = value;
            },
            parameter.help)
        ->type_name("VALUE")
        ->group("Defaults for generate (over the file's)");
  }
  command
      ->add_option("--threads", flags->threads,
                   "Threads to pack with; default what this process is granted")
      ->check(WholeNumber(1))
      ->type_name("N");
  command->add_flag("--force", flags->force,
                    "Do everything again, also what did not change");
  command->add_flag("--dump-graph", flags->dump_graph,
                    "Print the graph after each pass");
  command->callback([flags, &common, &exit_code] {
    RunCompile(*flags, common);
    exit_code = 0;
  });
}

}  // namespace rbln
