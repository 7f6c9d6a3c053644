#include "job/report.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/units.h"

namespace rbln {
namespace {

double Rate(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

OrderedJson Times(const Quantiles& quantiles) {
  return {{"count", quantiles.count()},
          {"p50", quantiles.Get(0.5)},
          {"p95", quantiles.Get(0.95)}};
}

std::string Milliseconds(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3)
                     : fmt::format("{:.3g} s", seconds);
}

}  // namespace

int JobResult::exit_code() const {
  if (signal != 0) return 128 + signal;
  if (out_of_time) return static_cast<int>(ErrorKind::kResource);
  return errors > 0 ? 1 : 0;
}

OrderedJson ReportJson(const JobResult& result, const EngineStats& stats,
                       const JobFacts& facts) {
  OrderedJson decoders = OrderedJson::array();
  OrderedJson prefill = nullptr;
  for (const auto& [rows, program] : stats.programs) {
    const bool is_decoder = std::find(facts.decoder_batch_sizes.begin(),
                                      facts.decoder_batch_sizes.end(),
                                      rows) != facts.decoder_batch_sizes.end();
    OrderedJson entry = {
        {"rows", rows},
        {"steps", program.steps},
        {"rows_run", program.rows},
        {"occupancy", Share(program.rows, program.steps * rows)},
        {"seconds", program.seconds}};
    if (is_decoder) {
      decoders.push_back(std::move(entry));
    } else {
      prefill = std::move(entry);
    }
  }
  return {
      {"model", facts.model},
      {"input", facts.input},
      {"seconds", result.seconds},
      {"prompts", result.prompts},
      {"errors", result.errors},
      {"resumed", result.resumed},
      {"ended_early", result.ended_early()},
      {"interrupted_by",
       result.signal != 0 ? OrderedJson(result.signal) : OrderedJson(nullptr)},
      {"prompt_tokens", stats.prompt_tokens},
      {"completion_tokens", stats.completion_tokens},
      {"completion_tokens_per_s",
       Rate(stats.completion_tokens, result.seconds)},
      {"prefill",
       {{"tokens", stats.prefill_tokens},
        {"seconds", stats.prefill_seconds},
        {"tokens_per_s", Rate(stats.prefill_tokens, stats.prefill_seconds)},
        {"program", std::move(prefill)}}},
      {"decode",
       {{"tokens", stats.decode_tokens},
        {"seconds", stats.decode_seconds},
        {"tokens_per_s", Rate(stats.decode_tokens, stats.decode_seconds)},
        {"decoders", std::move(decoders)}}},
      {"sample_seconds", stats.sample_seconds},
      {"time_to_first_token_s", Times(stats.first_token)},
      {"time_per_token_s", Times(stats.per_token)},
      {"prefix_cache",
       {{"hit_tokens", stats.cached_tokens},
        {"disk_tokens", stats.disk_tokens},
        {"hit_rate", Share(stats.cached_tokens, stats.prompt_tokens)}}},
      {"preemptions", stats.preemptions},
      {"kv_cache",
       {{"blocks", facts.num_blocks},
        {"block_size", facts.block_size},
        {"peak_blocks", stats.peak_blocks}}},
      {"threads", facts.threads},
      {"replicas", facts.replicas},
      {"tensor_parallel_size", facts.ranks},
      {"peak_memory_bytes", PeakMemory()},
      {"sampling", facts.sampling},
  };
}

std::string MetricsText(const JobResult& result, const EngineStats& stats,
                        const JobGauges& gauges) {
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text += fmt::format("# HELP rbln_{0} {1}\n# TYPE rbln_{0} {2}\n", name,
                        help, type);
  };
  const auto one = [&](const char* name, const char* type, const char* help,
                       int64_t value) {
    head(name, type, help);
    text += fmt::format("rbln_{} {}\n", name, value);
  };
  one("prompts_total", "counter", "Lines answered.", result.prompts);
  one("prompt_errors_total", "counter", "Lines answered with an error.",
      result.errors);
  one("prompts_resumed", "gauge", "Lines answered by an earlier run.",
      result.resumed);
  one("prompt_tokens_total", "counter", "Tokens of prompts.",
      stats.prompt_tokens);
  one("completion_tokens_total", "counter", "Tokens of answers.",
      stats.completion_tokens);
  one("prefix_cache_tokens_total", "counter",
      "Tokens of prompts found instead of computed.", stats.cached_tokens);
  one("preemptions_total", "counter", "Sequences that gave up their memory.",
      stats.preemptions);
  head("steps_total", "counter", "Steps of each program, by its rows.");
  for (const auto& [rows, program] : stats.programs) {
    text += fmt::format("rbln_steps_total{{rows=\"{}\"}} {}\n", rows,
                        program.steps);
  }
  head("step_rows_total", "counter", "Rows of the steps that were in use.");
  for (const auto& [rows, program] : stats.programs) {
    text += fmt::format("rbln_step_rows_total{{rows=\"{}\"}} {}\n", rows,
                        program.rows);
  }
  one("sequences_running", "gauge", "Sequences in the batch.", gauges.running);
  one("sequences_waiting", "gauge", "Sequences that wait for a place.",
      gauges.waiting);
  one("job_ended", "gauge", "1 once the job is over.", gauges.ended);
  return text;
}

std::string ReportText(const JobResult& result, const EngineStats& stats,
                       const JobFacts& facts) {
  std::string text =
      fmt::format("{} prompt{} answered in {:.1f} s, {} with an error\n",
                  result.prompts - result.resumed,
                  result.prompts - result.resumed == 1 ? "" : "s",
                  result.seconds, result.errors);
  if (result.resumed > 0) {
    text += fmt::format("{} more had been answered before\n", result.resumed);
  }
  text += fmt::format(
      "prefill    {:>9} tokens  {:>9.1f} tokens/s\n"
      "decode     {:>9} tokens  {:>9.1f} tokens/s\n",
      stats.prefill_tokens, Rate(stats.prefill_tokens, stats.prefill_seconds),
      stats.decode_tokens, Rate(stats.decode_tokens, stats.decode_seconds));
  for (const auto& [rows, program] : stats.programs) {
    const bool is_decoder = std::find(facts.decoder_batch_sizes.begin(),
                                      facts.decoder_batch_sizes.end(),
                                      rows) != facts.decoder_batch_sizes.end();
    text += fmt::format(
        "{:<18} {:>7} step{} {:>5.1f}% full\n",
        is_decoder ? fmt::format("decoder_batch_{}", rows) : "prefill",
        program.steps, program.steps == 1 ? " " : "s",
        100 * Share(program.rows, program.steps * rows));
  }
  text += fmt::format("first token p50 {}, p95 {}; per token p50 {}, p95 {}\n",
                      Milliseconds(stats.first_token.Get(0.5)),
                      Milliseconds(stats.first_token.Get(0.95)),
                      Milliseconds(stats.per_token.Get(0.5)),
                      Milliseconds(stats.per_token.Get(0.95)));
  text += fmt::format(
      "prefix cache {} of {} prompt tokens ({:.1f}%{}), {} preemption{}, peak "
      "memory {}\n",
      stats.cached_tokens, stats.prompt_tokens,
      100 * Share(stats.cached_tokens, stats.prompt_tokens),
      stats.disk_tokens > 0
          ? fmt::format("; {} tokens read from disk", stats.disk_tokens)
          : "",
      stats.preemptions, stats.preemptions == 1 ? "" : "s",
      FormatBytes(PeakMemory()));
  std::string sampling;
  for (const auto& [name, entry] : facts.sampling.items()) {
    sampling +=
        fmt::format("{}{} {} ({})", sampling.empty() ? "" : ", ", name,
                    entry["value"].dump(), entry["from"].get<std::string>());
  }
  return text + "sampling: " + sampling + "\n";
}

}  // namespace rbln
