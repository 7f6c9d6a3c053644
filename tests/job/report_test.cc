#include "job/report.h"

#include <doctest/doctest.h>

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
  CHECK(ProgressLine(state, 512, 10) ==
        "12 prompts, 512.0 tokens/s, 8 running, 24 waiting");
  state.fraction = 0.25;
  CHECK(ProgressLine(state, 512, 100) ==
        "12 prompts (25%), 512.0 tokens/s, 8 running, 24 waiting, 5m00s left");
}

}  // namespace
}  // namespace rbln
