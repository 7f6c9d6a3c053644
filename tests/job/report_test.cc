#include "job/report.h"

#include <doctest/doctest.h>

#include <sstream>

#include "engine/quantiles.h"
#include "job/progress.h"

namespace rbln {
namespace {

TEST_CASE("exit codes") {
  JobResult result;
  CHECK(result.exit_code() == 0);
  result.errors = 2;
  CHECK(result.exit_code() == 1);
  result.signal = 2;
  CHECK(result.exit_code() == 130);
  result.signal = 15;
  CHECK(result.exit_code() == 143);
}

TEST_CASE("quantiles are within two percent") {
  Quantiles quantiles;
  CHECK(quantiles.Get(0.5) == 0);
  for (int i = 1; i <= 1000; ++i) quantiles.Add(i * 1e-3);
  CHECK(quantiles.Get(0.5) == doctest::Approx(0.5).epsilon(0.02));
  CHECK(quantiles.Get(0.95) == doctest::Approx(0.95).epsilon(0.02));
  CHECK(quantiles.count() == 1000);
}

TEST_CASE("the report tells decoders from prefill and how full they were") {
  EngineStats stats;
  stats.programs[8] = {10, 60, 1.0};
  stats.programs[128] = {1, 32, 0.5};
  stats.prompt_tokens = 32;
  stats.cached_tokens = 8;
  JobFacts facts;
  facts.decoder_batch_sizes = {8, 1};
  JobResult result;
  result.prompts = 4;
  result.seconds = 2;
  const OrderedJson report = ReportJson(result, stats, facts);
  CHECK(report["decode"]["decoders"].size() == 1);
  CHECK(report["decode"]["decoders"][0]["rows"] == 8);
  CHECK(report["decode"]["decoders"][0]["occupancy"] == 0.75);
  CHECK(report["prefill"]["program"]["occupancy"] == 0.25);
  CHECK(report["prefix_cache"]["hit_rate"] == 0.25);
  CHECK(report["interrupted_by"].is_null());
  const std::string text = ReportText(result, stats, facts);
  CHECK(text.find("4 prompts answered in 2.0 s, 0 with an error") == 0);
  CHECK(text.find("decoder_batch_8") != std::string::npos);
  CHECK(text.find("75.0% full") != std::string::npos);
}

TEST_CASE("the progress line") {
  ProgressState state;
  state.prompts = 12;
  state.running = 8;
  state.waiting = 24;
  CHECK(ProgressLine(state, {3072, 512}, 10) ==
        "12 prompts, in 3072.0, out 512.0 tokens/s, 8 running, 24 waiting");
  state.fraction = 0.25;
  CHECK(
      ProgressLine(state, {3072, 512}, 100) ==
      "12 prompts (25%), in 3072.0, out 512.0 tokens/s, 8 running, 24 waiting, "
      "5m00s left");
}

TEST_CASE("the figures are in the text form of Prometheus") {
  JobResult result;
  result.prompts = 12;
  result.errors = 2;
  EngineStats stats;
  stats.completion_tokens = 345;
  stats.programs[8].steps = 7;
  stats.programs[8].rows = 50;
  const std::string text = MetricsText(result, stats, {3, 4, false});
  for (const char* line :
       {"# TYPE rbln_prompts_total counter\nrbln_prompts_total 12\n",
        "rbln_prompt_errors_total 2\n", "rbln_completion_tokens_total 345\n",
        "rbln_steps_total{rows=\"8\"} 7\n",
        "rbln_step_rows_total{rows=\"8\"} 50\n",
        "# TYPE rbln_sequences_running gauge\nrbln_sequences_running 3\n",
        "rbln_sequences_waiting 4\n", "rbln_job_ended 0\n"}) {
    CAPTURE(std::string(line));
    CHECK(text.find(line) != std::string::npos);
  }
  // Every line is a comment or a name and a number.
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CHECK((line.starts_with("# ") ||
           (line.starts_with("rbln_") && line.find(' ') == line.rfind(' '))));
  }
}

}  // namespace
}  // namespace rbln
