// rbln-tool inspect: what is in a compiled directory or a program.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "artifact/manifest.h"
#include "artifact/program.h"
#include "artifact/sharding.h"
#include "artifact/weights.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/units.h"
#include "compiler/options.h"
#include "rbln-tool/commands.h"
#include "rbln-tool/values.h"
#include "runtime/cost.h"
#include "runtime/runtime.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

struct InspectFlags {
  std::string path;
  bool verify = false;
  bool graph = false;
  bool json = false;
  // For the estimate, in the units of the flags.
  double memory = 0;
  double compute = 0;
  double network = 0;
  double latency = 0;
  int depth = 0;
};

uint64_t WeightsBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const auto& [name, file] : manifest.files) {
    if (name.starts_with("weights.")) bytes += file.size;
  }
  return bytes;
}

std::string ProgramPhase(const std::string& file) {
  return file.starts_with("prefill") ? "prefill" : "decode";
}

// ---- one program ----

OrderedJson ProgramJson(const ProgramT& program) {
  OrderedJson json = {{"isa", program.isa},
                      {"rows", program.rows},
                      {"rank", program.rank},
                      {"ranks", program.ranks},
                      {"arena_bytes", program.arena_bytes},
                      {"num_layers", program.num_layers},
                      {"kv_format", FormatName(program.kv_format)},
                      {"kvcache_block_size", program.kvcache_block_size},
                      {"kvcache_partition_len", program.kvcache_partition_len}};
  json["values"] = OrderedJson::array();
  for (const auto& value : program.values) {
    json["values"].push_back({{"name", value->name},
                              {"rows", value->rows},
                              {"columns", value->columns},
                              {"format", FormatName(value->format)},
                              {"offset", value->offset},
                              {"bytes", value->row_bytes * value->rows}});
  }
  json["weights"] = OrderedJson::array();
  for (const auto& weight : program.weights) {
    json["weights"].push_back({{"name", weight->name},
                               {"outputs", weight->outputs},
                               {"inputs", weight->inputs},
                               {"format", FormatName(weight->format)},
                               {"bytes", weight->bytes}});
  }
  json["ops"] = OrderedJson::array();
  for (const auto& op : program.ops) {
    OrderedJson entry = {{"op", EnumNameOpKind(op->kind)}, {"name", op->name}};
    entry["inputs"] = OrderedJson::array();
    for (const int input : op->inputs) {
      entry["inputs"].push_back(program.values[input]->name);
    }
    entry["output"] = program.values[op->output]->name;
    if (op->weight >= 0) entry["weight"] = program.weights[op->weight]->name;
    entry["kernel"] = op->kernel;
    if (op->kind == OpKind::Matmul) {
      entry["epilogue"] = EnumNameEpilogue(op->epilogue);
      entry["tile"] = {{"rows", op->tile_rows},
                       {"panels", op->tile_panels},
                       {"inputs", op->tile_inputs}};
      for (const auto& tile : op->measured) {
        entry["measured"].push_back(
            {{"tile", tile->kernel}, {"microseconds", tile->microseconds}});
      }
    }
    if (op->window > 0) entry["window"] = op->window;
    json["ops"].push_back(std::move(entry));
  }
  return json;
}

// The tiles that were measured, once for each kind of matmul.
void PrintMeasured(const ProgramT& program) {
  std::map<std::string, const OpT*> kinds;
  for (const auto& op : program.ops) {
    if (op->measured.empty()) continue;
    const WeightT& weight = *program.weights[op->weight];
    kinds.emplace(
        fmt::format(
            "{} of {} inputs{}", op->kernel, weight.inputs,
            op->epilogue == Epilogue::SiluGate ? ", then SiluGate" : ""),
        op.get());
  }
  if (!kinds.empty()) {
    fmt::print(
        "\ntiles (rows x panels, inputs) measured, the one taken first, "
        "in microseconds:\n");
  }
  for (const auto& [kind, op] : kinds) {
    fmt::print("  {}\n", kind);
    for (const auto& tile : op->measured) {
      fmt::print("    {:<20} {:>10.1f}\n", tile->kernel, tile->microseconds);
    }
  }
}

void PrintProgram(const std::string& path, const ProgramT& program) {
  fmt::print("{}: {} for {}, up to {} token rows a step\n\n", path,
             ProgramPhase(fs::path(path).filename()), program.isa,
             program.rows);
  fmt::print("{:<26} {:<10} {:>14} {:<10} {}\n", "operation", "kind", "output",
             "format", "kernel");
  for (const auto& op : program.ops) {
    const ValueT& out = *program.values[op->output];
    std::string kernel = op->kernel;
    if (op->kind == OpKind::Matmul) {
      const WeightT& weight = *program.weights[op->weight];
      kernel += fmt::format(" {}x{}, tile {} rows x {} panels x {} inputs",
                            weight.outputs, weight.inputs, op->tile_rows,
                            op->tile_panels, op->tile_inputs);
      if (op->epilogue != Epilogue::None) {
        kernel += fmt::format(", then {}", EnumNameEpilogue(op->epilogue));
      }
    }
    if (op->window > 0) kernel += fmt::format(", window {}", op->window);
    fmt::print("{:<26} {:<10} {:>14} {:<10} {}\n", op->name,
               EnumNameOpKind(op->kind),
               fmt::format("{} x {}", out.rows, out.columns),
               FormatName(out.format), kernel);
  }
  PrintMeasured(program);
  fmt::print("\narena {}, {} values:\n", FormatBytes(program.arena_bytes),
             program.values.size());
  std::vector<const ValueT*> values;
  for (const auto& value : program.values) values.push_back(value.get());
  std::stable_sort(
      values.begin(), values.end(),
      [](const ValueT* a, const ValueT* b) { return a->offset < b->offset; });
  fmt::print("{:>12} {:>12}  {}\n", "offset", "bytes", "value");
  for (const ValueT* value : values) {
    fmt::print("{:>12} {:>12}  {}\n", value->offset,
               value->row_bytes * value->rows, value->name);
  }
}

std::string Quoted(const std::string& text) { return Json(text).dump(); }

void PrintGraphviz(const ProgramT& program) {
  fmt::print("digraph program {{\n  node [shape=box, fontname=monospace];\n");
  // The op that wrote a value last; values may be overwritten in place.
  std::map<int, int> writer;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const OpT& op = *program.ops[i];
    fmt::print("  op{} [label={}];\n", i,
               Quoted(op.name + "\n" + EnumNameOpKind(op.kind)));
    std::vector<int> reads = op.inputs;
    if (op.epilogue == Epilogue::Add) reads.push_back(op.output);
    for (const int input : reads) {
      const ValueT& value = *program.values[input];
      fmt::print("  op{} -> op{} [label={}];\n", writer[input], i,
                 Quoted(fmt::format("{} x {} {}", value.rows, value.columns,
                                    FormatName(value.format))));
    }
    writer[op.output] = static_cast<int>(i);
  }
  fmt::print("}}\n");
}

// ---- the directory ----

void Verify(const std::string& directory, const Manifest& manifest) {
  for (const auto& [name, entry] : manifest.files) {
    const std::string path = directory + "/" + name;
    const MappedFile file(path, ErrorKind::kModel);
    if (file.bytes().size() != entry.size ||
        HashBytes(file.bytes()) != entry.checksum) {
      throw ModelError(
          "{}: {} bytes with checksum {}, the manifest says {} bytes with {}; "
          "compile it again",
          path, file.bytes().size(), HashBytes(file.bytes()), entry.size,
          entry.checksum);
    }
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name == kManifestName || manifest.files.contains(name)) continue;
    spdlog::warn("{}/{} is not part of the compiled directory", directory,
                 name);
  }
}

// The programs of a directory with the work of a full step, by rank.
struct StepWork {
  std::string name;
  int rows = 0;
  int tokens = 0;  // of a step, that come out or go in
  std::vector<Work> ranks;
};

std::vector<StepWork> CountSteps(const std::string& directory,
                                 const Manifest& manifest, int depth) {
  std::vector<StepWork> steps;
  const auto add = [&](int rows, int file_rows, int logits,
                       const Context& context) {
    StepWork step;
    step.name =
        file_rows == 0 ? "prefill" : fmt::format("decoder_batch_{}", file_rows);
    step.rows = rows;
    const int ranks = manifest.tensor_parallel_size;
    for (int rank = 0; rank < ranks; ++rank) {
      const ProgramT program = ReadProgram(
          directory + "/" + ProgramFileName(file_rows, rank, ranks));
      step.ranks.push_back(Total(CountWork(program, rows, logits, context)));
    }
    steps.push_back(std::move(step));
  };
  const int chunk = std::min(manifest.prefill_chunk_size, manifest.max_seq_len);
  add(chunk, 0, 1, PrefillContext(0, chunk));
  for (const int rows : manifest.decoder_batch_sizes) {
    add(rows, rows, rows, DecodeContext(rows, depth));
  }
  return steps;
}

// What lies where, and what ranks tell each other.
void PrintSharding(const std::string& directory, const Manifest& manifest) {
  const int ranks = manifest.tensor_parallel_size;
  fmt::print("\ntensor parallel ranks\n");
  fmt::print("  {:<6} {:>11} {:>11} {:>15} {:>11} {:>20}\n", "rank", "heads",
             "KV heads", "tokens", "weights", "KV cache, a sequence");
  const auto range = [](ShardRange r) {
    return fmt::format("{}-{}", r.begin, r.end - 1);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    fmt::print(
        "  {:<6} {:>11} {:>11} {:>15} {:>11} {:>20}\n", rank,
        range(HeadShard(manifest.num_heads, rank, ranks)),
        range(KvHeadShard(manifest.num_kv_heads, rank, ranks)),
        range(VocabShard(manifest.vocab_size, rank, ranks)),
        FormatBytes(manifest.files.at(WeightsFileName(rank, ranks)).size),
        FormatBytes(manifest.KvBytesPerSequence() / ranks));
  }
  fmt::print("  between processes, rank 1 sends in a full step:\n");
  for (const StepWork& step : CountSteps(directory, manifest, 0)) {
    const Work& work = step.ranks[1];
    fmt::print("    {:<20} {:.0f} messages to each other rank, {} in all\n",
               step.name, work.messages,
               FormatBytes(static_cast<uint64_t>(work.message_bytes)));
  }
}

// How long a step of a program takes on paper.
struct Estimate {
  std::string program;
  int depth = 0;
  double compute = 0;   // seconds
  double exchange = 0;  // seconds
  double tokens_per_second = 0;
};

std::vector<Estimate> EstimateSteps(const std::string& directory,
                                    const Manifest& manifest,
                                    const InspectFlags& flags) {
  Limits limits;
  limits.read = flags.memory * 1e9;
  limits.peak = flags.compute * 1e9;
  // Attention computes in float32, at about a quarter of the integer rate.
  limits.float_peak = manifest.weights == "float32"    ? limits.peak
                      : manifest.weights == "bfloat16" ? limits.peak / 2
                                                       : limits.peak / 4;
  limits.network = flags.network * 1e9;
  limits.latency = flags.latency * 1e-6;
  Limits alone = limits;
  alone.network = alone.latency = 0;
  const int depth =
      flags.depth > 0 ? flags.depth : std::min(1024, manifest.max_seq_len - 1);
  std::vector<Estimate> estimates;
  for (const StepWork& step : CountSteps(directory, manifest, depth)) {
    // The slowest rank keeps the others waiting.
    double compute = 0, total = 0;
    for (const Work& work : step.ranks) {
      compute = std::max(compute, alone.Floor(work));
      total = std::max(total, limits.Floor(work));
    }
    estimates.push_back({step.name, step.name == "prefill" ? 0 : depth, compute,
                         total - compute, step.rows / total});
  }
  return estimates;
}

void PrintEstimate(const std::vector<Estimate>& estimates,
                   const InspectFlags& flags) {
  fmt::print("\nestimate, a rank at {} GB/s of memory and {} Gop/s",
             flags.memory, flags.compute);
  if (flags.network > 0 || flags.latency > 0) {
    fmt::print(
        ", {} GB/s and {} us between ranks",
        flags.network > 0 ? fmt::format("{}", flags.network) : "unlimited",
        flags.latency);
  }
  fmt::print("\n  {:<20} {:>6} {:>12} {:>12} {:>12} {:>12}\n", "program",
             "depth", "compute ms", "exchange ms", "step ms", "tokens/s");
  for (const Estimate& one : estimates) {
    fmt::print("  {:<20} {:>6} {:>12.3f} {:>12.3f} {:>12.3f} {:>12.1f}\n",
               one.program, one.depth, one.compute * 1e3, one.exchange * 1e3,
               (one.compute + one.exchange) * 1e3, one.tokens_per_second);
  }
}

OrderedJson EstimateJson(const std::vector<Estimate>& estimates,
                         const InspectFlags& flags) {
  OrderedJson json = {{"memory_bandwidth", flags.memory},
                      {"compute", flags.compute},
                      {"network_bandwidth", flags.network},
                      {"network_latency", flags.latency}};
  json["steps"] = OrderedJson::array();
  for (const Estimate& one : estimates) {
    json["steps"].push_back(
        {{"program", one.program},
         {"depth", one.depth},
         {"compute_ms", one.compute * 1e3},
         {"exchange_ms", one.exchange * 1e3},
         {"ms_per_step", (one.compute + one.exchange) * 1e3},
         {"tokens_per_s", one.tokens_per_second}});
  }
  return json;
}

void PrintDirectory(const std::string& directory, const Manifest& manifest,
                    bool verified) {
  const auto line = [](const char* key, const std::string& value) {
    fmt::print("  {:<22} {}\n", key, value);
  };
  fmt::print("{}\n", directory);
  line("model", fmt::format("{}, {:.1f} M parameters, {} layers, {} heads, {} "
                            "KV heads of {}, vocabulary {}",
                            manifest.architecture,
                            manifest.num_parameters * 1e-6, manifest.num_layers,
                            manifest.num_heads, manifest.num_kv_heads,
                            manifest.head_dim, manifest.vocab_size));
  line("source", manifest.source + " (" + manifest.source_fingerprint + ")");
  line("target", manifest.target);
  line("weights", manifest.weights);
  line("activations", manifest.activations);
  line("kv_caches", manifest.kv_caches);
  line("batch_size", std::to_string(manifest.batch_size));
  line("decoder_batch_sizes",
       fmt::format("{}", fmt::join(manifest.decoder_batch_sizes, ", ")));
  line("prefill_chunk_size", std::to_string(manifest.prefill_chunk_size));
  line("max_seq_len", std::to_string(manifest.max_seq_len));
  line("attn_impl", manifest.attn_impl);
  if (manifest.kvcache_partition_len > 0) {
    line("kvcache_partition_len",
         std::to_string(manifest.kvcache_partition_len));
  }
  line("kvcache_block_size", std::to_string(manifest.kvcache_block_size));
  line("kvcache_num_blocks", manifest.kvcache_num_blocks > 0
                                 ? std::to_string(manifest.kvcache_num_blocks)
                                 : "what fits");
  line("tensor_parallel_size", std::to_string(manifest.tensor_parallel_size));
  if (!manifest.sampling.empty()) line("sampling", manifest.sampling.dump());
  const uint64_t weights = WeightsBytes(manifest);
  fmt::print("\nmemory\n");
  line("weights, mapped", FormatBytes(weights));
  line("KV cache, a sequence",
       fmt::format("{} ({} a block of {})",
                   FormatBytes(manifest.KvBytesPerSequence()),
                   FormatBytes(manifest.KvBytesPerBlock()),
                   manifest.kvcache_block_size));
  line("to run a full batch",
       FormatBytes(weights +
                   manifest.KvBytesPerSequence() * manifest.batch_size));
  try {
    const MemoryPlan plan = PlanMemory(directory, {});
    line("KV cache blocks here",
         fmt::format("{}: {}", plan.num_blocks, plan.blocks_reason));
  } catch (const Error& error) {
    line("KV cache blocks here", fmt::format("none: {}", error.what()));
  }
  if (manifest.tensor_parallel_size > 1) PrintSharding(directory, manifest);
  fmt::print("\nfiles{}\n", verified ? " (every byte verified)" : "");
  for (const auto& [name, file] : manifest.files) {
    fmt::print("  {:<30} {:>10}\n", name, FormatBytes(file.size));
  }
}

// The output of ./rbln.yaml.
std::string DefaultDirectory() {
  if (!FileExists("rbln.yaml")) {
    throw UsageError(
        "inspect: name a compiled directory or a .rbln file; there is no "
        "./rbln.yaml to take one from");
  }
  const CompileConfig config = CompileConfig::FromFile("rbln.yaml");
  const ConfigValue* output = config.Find("output");
  if (output == nullptr) {
    throw UsageError("inspect: ./rbln.yaml has no 'output'; name a directory");
  }
  return output->text;
}

void RunInspect(const InspectFlags& flags) {
  const std::string path = flags.path.empty() ? DefaultDirectory() : flags.path;
  if (!fs::exists(path)) throw ModelError("{}: no such directory", path);
  if (!fs::is_directory(path)) {
    const ProgramT program = ReadProgram(path);
    if (flags.graph) return PrintGraphviz(program);
    if (flags.json) {
      fmt::print("{}\n", ProgramJson(program).dump(2));
      return;
    }
    return PrintProgram(path, program);
  }
  const Manifest manifest = Manifest::Read(path);
  if (flags.verify) Verify(path, manifest);
  const std::string decoder =
      path + "/" +
      ProgramFileName(manifest.batch_size, 0, manifest.tensor_parallel_size);
  if (flags.graph) return PrintGraphviz(ReadProgram(decoder));
  if (flags.json) {
    OrderedJson json = OrderedJson::parse(manifest.ToJson());
    json["kv_bytes_per_block"] = manifest.KvBytesPerBlock();
    json["kv_bytes_per_sequence"] = manifest.KvBytesPerSequence();
    json["verified"] = flags.verify;
    for (const auto& [name, file] : manifest.files) {
      if (name.ends_with(".rbln")) {
        json["programs"][name] = ProgramJson(ReadProgram(path + "/" + name));
      }
    }
    if (flags.memory > 0) {
      json["estimate"] =
          EstimateJson(EstimateSteps(path, manifest, flags), flags);
    }
    fmt::print("{}\n", json.dump(2));
    return;
  }
  PrintDirectory(path, manifest, flags.verify);
  if (flags.memory > 0) {
    PrintEstimate(EstimateSteps(path, manifest, flags), flags);
  }
}

}  // namespace

void AddInspectCommand(CLI::App& app, const CommonFlags&, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "Show what is in a compiled directory, or in one program of it: "
      "operations with shapes, kernels, where values lie in memory.");
  command->add_option("PATH", flags->path,
                      "A compiled directory or a .rbln file; default the "
                      "output of ./rbln.yaml");
  command->add_flag("--verify", flags->verify,
                    "Check every byte against the manifest");
  command->add_flag("--graph", flags->graph,
                    "Write the program (of a directory: its largest decoder) "
                    "as Graphviz");
  command->add_flag("--json", flags->json, "Write all of it as JSON");
  const auto number = [command](const char* name, double* value,
                                const char* help, const char* unit) {
    return command->add_option(name, *value, help)
        ->check(PositiveNumber())
        ->type_name(unit)
        ->group("On paper");
  };
  CLI::Option* memory =
      number("--memory-bandwidth", &flags->memory,
             "How long steps take where a rank reads so much a second", "GB/S");
  CLI::Option* compute = number(
      "--compute", &flags->compute,
      "and computes so many operations of its weights' arithmetic", "GOP/S");
  memory->needs(compute);
  compute->needs(memory);
  number("--network-bandwidth", &flags->network,
         "Bytes that a rank sends a second; default unlimited", "GB/S")
      ->needs(memory);
  number("--network-latency", &flags->latency,
         "Until a message is there; default 0", "US")
      ->needs(memory);
  command
      ->add_option("--depth", flags->depth,
                   "Tokens of context of each sequence; default 1024")
      ->check(WholeNumber(1))
      ->type_name("N")
      ->group("On paper")
      ->needs(memory);
  command->callback([flags, &exit_code] {
    RunInspect(*flags);
    exit_code = 0;
  });
}

}  // namespace rbln
