#include "engine/engine.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "engine/fake_executor.h"
#include "test_util.h"

namespace rbln {
namespace {

constexpr int kVocab = 1536;
constexpr TokenId kEos = 3;

const Tokenizer& TinyTokenizer() {
  static const auto tokenizer =
      Tokenizer::Load(RBLN_EXAMPLES "/tiny-chat", ErrorKind::kModel);
  return *tokenizer;
}

struct Setup {
  std::vector<int> decoders = {8, 4, 2, 1};
  int block_size = 16;
  int num_blocks = 200;
  int chunk = 64;
  int max_seq_len = 256;
  std::vector<int> windows;
  EngineOptions options;
};

// Requests that differ in length, share prefixes, draw at random or not.
std::vector<Request> RandomRequests(int count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  std::vector<std::vector<TokenId>> prefixes(3);
  for (auto& prefix : prefixes) {
    const int size = 20 + below(60);
    for (int i = 0; i < size; ++i) prefix.push_back(4 + below(kVocab - 4));
  }
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request request;
    request.id = i;
    request.seed = 1000 + i;
    if (below(2) == 0) request.prompt = prefixes[below(3)];
    const int more = 1 + below(below(4) == 0 ? 120 : 12);
    for (int j = 0; j < more; ++j) {
      request.prompt.push_back(4 + below(kVocab - 4));
    }
    SamplingParams& params = request.params;
    params.max_tokens = 1 + below(40);
    if (below(2) == 0) {
      params.temperature = 0;
    } else {
      params.temperature = 1 + below(2);
      params.top_p = below(2) == 0 ? 0.9 : 1.0;
      params.n = below(4) == 0 ? 3 : 1;
      params.repetition_penalty = below(2) == 0 ? 1.2 : 1.0;
    }
    if (below(6) == 0) params.prompt_logprobs = 2;
    if (below(6) == 0) params.logprobs = 1;
    if (below(6) == 0) params.stop = {"e"};
    if (below(8) == 0) params.min_tokens = 1 + below(*params.max_tokens);
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Run {
  std::map<int64_t, Finished> finished;
  EngineStats stats;
  std::vector<FakeExecutor::StepRecord> steps;
  int copies = 0;
};

// Runs the requests, `at_once` of them given to the engine from the start and
// the others at random moments.
Run RunAll(const std::vector<Request>& requests, const Setup& setup,
           size_t at_once = 1000, uint32_t seed = 1) {
  Manifest manifest = FakeExecutor::MakeManifest(
      setup.decoders, setup.block_size, setup.max_seq_len, setup.chunk, kVocab);
  manifest.sliding_window = setup.windows;
  FakeExecutor executor(std::move(manifest), setup.num_blocks);
  executor.eos = kEos;
  EngineOptions options = setup.options;
  options.eos_token_ids = {kEos};
  Engine engine(executor, TinyTokenizer(), options);
  std::mt19937 random(seed);
  size_t next = 0;
  std::vector<Finished> finished;
  while (true) {
    while (next < requests.size() && (next < at_once || random() % 3 == 0)) {
      engine.Add(requests[next++]);
    }
    if (!engine.Step(finished) && next == requests.size()) break;
  }
  CHECK(engine.num_running() == 0);
  CHECK(engine.num_waiting() == 0);
  CHECK(engine.blocks().num_free() == setup.num_blocks);
  Run run;
  for (Finished& one : finished) {
    const int64_t id = one.id;
    CHECK(run.finished.emplace(id, std::move(one)).second);
  }
  CHECK(run.finished.size() == requests.size());
  run.stats = engine.stats();
  run.steps = executor.steps;
  run.copies = executor.copies;
  return run;
}

bool Same(const std::vector<PositionLogprobs>& a,
          const std::vector<PositionLogprobs>& b) {
  const auto same = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.id == y.id && x.logprob == y.logprob && x.rank == y.rank;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const auto& x, const auto& y) {
                      return same(x.chosen, y.chosen) &&
                             std::equal(x.top.begin(), x.top.end(),
                                        y.top.begin(), y.top.end(), same);
                    });
}

void CheckSame(const Run& a, const Run& b) {
  for (const auto& [id, one] : a.finished) {
    const Finished& other = b.finished.at(id);
    CAPTURE(id);
    REQUIRE(one.completions.size() == other.completions.size());
    CHECK(Same(one.prompt_logprobs, other.prompt_logprobs));
    for (size_t i = 0; i < one.completions.size(); ++i) {
      CHECK(one.completions[i].tokens == other.completions[i].tokens);
      CHECK(one.completions[i].text == other.completions[i].text);
      CHECK(one.completions[i].finish_reason ==
            other.completions[i].finish_reason);
      CHECK(one.completions[i].stop_reason == other.completions[i].stop_reason);
      CHECK(Same(one.completions[i].logprobs, other.completions[i].logprobs));
    }
  }
}

TEST_CASE(
    "answers do not depend on decoders, arrival, chunks, blocks, caching "
    "or preemption") {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    const std::vector<Request> requests = RandomRequests(40, seed);
    Setup plain;
    plain.decoders = {1};
    plain.block_size = 256;
    plain.num_blocks = 4;
    plain.options.prefix_caching = false;
    const Run reference = RunAll(requests, plain);

    std::vector<Setup> setups(10);
    setups[1].decoders = {8};
    setups[2].chunk = 128;
    setups[2].options.prefix_caching = false;
    setups[3].options.max_num_batched_tokens = 7;
    setups[4].block_size = 4;
    setups[4].num_blocks = 64;  // one sequence of the greatest length
    setups[5].block_size = 4;
    setups[5].num_blocks = 64;
    setups[5].options.prefix_caching = false;
    setups[6].block_size = 256;  // as eager: a block is a whole sequence
    setups[6].num_blocks = 8;
    setups[7].block_size = 256;
    setups[7].num_blocks = 1;
    setups[8].decoders = {16, 3};
    setups[8].block_size = 8;
    setups[8].num_blocks = 40;
    setups[9].options.max_num_seqs = 3;
    for (size_t i = 0; i < setups.size(); ++i) {
      CAPTURE(i);
      CheckSame(reference, RunAll(requests, setups[i]));
      CheckSame(reference, RunAll(requests, setups[i], 5, seed));
    }
    // These setups are what they are meant to be.
    CHECK(RunAll(requests, setups[4]).stats.preemptions > 0);
    CHECK(RunAll(requests, setups[5]).stats.preemptions > 0);
    CHECK(RunAll(requests, setups[0]).stats.cached_tokens > 0);
    CHECK(RunAll(requests, setups[6]).copies > 0);
    CHECK(RunAll(requests, setups[2]).stats.cached_tokens == 0);
  }
}

TEST_CASE(
    "blocks that every window has passed are given back, and no answer "
    "changes") {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    const std::vector<Request> requests = RandomRequests(40, seed);
    Setup plain;
    plain.windows = {24, 16};
    plain.decoders = {1};
    plain.block_size = 256;
    plain.num_blocks = 4;
    plain.options.prefix_caching = false;
    const Run reference = RunAll(requests, plain);
    CHECK(reference.stats.preemptions == 0);

    std::vector<Setup> setups(4);
    for (Setup& setup : setups) {
      setup.windows = plain.windows;
      setup.block_size = 4;
      setup.num_blocks = 400;
    }
    // Less than the longest sequence, which a window and a step still fit in.
    setups[1].num_blocks = 12;
    setups[1].options.max_num_batched_tokens = 16;
    setups[2].num_blocks = 40;
    setups[2].options.prefix_caching = false;
    setups[3].num_blocks = 30;
    for (size_t i = 0; i < setups.size(); ++i) {
      CAPTURE(i);
      CheckSame(reference, RunAll(requests, setups[i]));
      CheckSame(reference, RunAll(requests, setups[i], 5, seed));
    }
    CHECK(RunAll(requests, setups[0]).stats.cached_tokens > 0);
    CHECK(RunAll(requests, setups[1]).stats.preemptions > 0);
    // One layer that attends to everything keeps them all.
    Setup hybrid = setups[0];
    const int64_t windowed = RunAll(requests, hybrid).stats.peak_blocks;
    hybrid.windows = {24, 0};
    CHECK(RunAll(requests, hybrid).stats.peak_blocks > windowed);
  }
}

// Everything that may differ between runs, at random; RBLN_SOAK_ROUNDS makes it
// as long as wanted.
TEST_CASE(
    "soak: random limits, schedules, windows and caches give the same "
    "answers") {
  int64_t preemptions = 0, cached = 0, disk = 0, steps = 0;
  const int rounds = SoakRounds(6);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    std::mt19937 random(100 + round);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    const std::vector<Request> requests =
        RandomRequests(10 + below(40), random());
    Setup plain;
    if (below(2) == 0) plain.windows = {2 + below(60), 2 + below(60)};
    if (below(4) == 0) plain.windows = {2 + below(60), 0};
    plain.decoders = {1};
    plain.block_size = 256;
    plain.num_blocks = 4;
    plain.options.prefix_caching = false;
    const Run reference = RunAll(requests, plain);
    const TempDir store;
    for (int i = 0; i < 4; ++i) {
      CAPTURE(i);
      Setup setup;
      setup.windows = plain.windows;
      setup.decoders = {1 + below(12)};
      if (setup.decoders[0] > 2) setup.decoders.push_back(1 + below(2));
      setup.block_size = 1 << below(6);
      setup.chunk = 64 * (1 + below(3));
      const int least = (setup.max_seq_len - 1) / setup.block_size + 1;
      setup.num_blocks = least + below(2) * below(3 * least);
      setup.options.prefix_caching = below(4) > 0;
      if (below(2) == 0) setup.options.max_num_batched_tokens = 1 + below(64);
      if (below(2) == 0) setup.options.prefix_cache = store.path();
      // Small enough that some must go.
      setup.options.prefix_cache_bytes = 1000 + below(40000);
      const Run run = RunAll(requests, setup, below(12), random());
      CheckSame(reference, run);
      preemptions += run.stats.preemptions;
      cached += run.stats.cached_tokens;
      disk += run.stats.disk_tokens;
      steps += static_cast<int64_t>(run.steps.size());
    }
  }
  CHECK(preemptions > 0);
  CHECK(cached > 0);
  CHECK(disk > 0);
  MESSAGE(rounds, " rounds, ", steps, " steps, ", preemptions, " preemptions, ",
          cached, " tokens from the cache, ", disk, " read from disk");
}

Request Simple(int64_t id, int prompt, int max_tokens) {
  Request request;
  request.id = id;
  for (int i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>(10 + id * 97 + i) % kVocab);
  }
  request.params.temperature = 0;
  request.params.max_tokens = max_tokens;
  request.params.ignore_eos = true;
  return request;
}

TEST_CASE("the smallest decoder that fits runs each step") {
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(Simple(i, 4, 4 + 2 * i));
  const Run run = RunAll(requests, Setup());
  // All prompts are packed into one step; the last row of a prompt gives the
  // first token.
  CHECK(run.steps[0].program_rows == 64);
  CHECK(run.steps[0].rows == 32);
  for (size_t i = 1; i < run.steps.size(); ++i) {
    const int rows = run.steps[i].rows;
    const int expected = rows > 4 ? 8 : rows > 2 ? 4 : rows;
    CHECK(run.steps[i].program_rows == expected);
  }
  CHECK(run.steps.back().program_rows == 1);
  CHECK(run.stats.programs.at(1).steps == 2);
  CHECK(run.stats.completion_tokens == 4 + 6 + 8 + 10 + 12 + 14 + 16 + 18);
  CHECK(run.stats.decode_tokens == run.stats.completion_tokens - 8);
  CHECK(run.stats.prefill_tokens == 32);
}

TEST_CASE("a long prompt comes in chunks beside the sequences that decode") {
  std::vector<Request> requests = {Simple(0, 4, 30), Simple(1, 200, 2)};
  FakeExecutor executor(FakeExecutor::MakeManifest({2, 1}, 16, 256, 64, kVocab),
                        64);
  Engine engine(executor, TinyTokenizer(), {});
  std::vector<Finished> finished;
  engine.Add(requests[0]);
  engine.Step(finished);
  engine.Add(requests[1]);
  for (int i = 0; i < 4; ++i) engine.Step(finished);
  // 63 + 63 + 63 + 11 tokens, each time with one row that decodes.
  CHECK(executor.steps[1].rows == 64);
  CHECK(executor.steps[4].rows == 12);
  CHECK(engine.stats().decode_tokens == 4);
}

TEST_CASE("a common prefix is computed once") {
  std::vector<Request> requests;
  for (int i = 0; i < 20; ++i) {
    Request request = Simple(0, 100, 4);
    request.id = i;
    request.prompt.push_back(100 + i);
    requests.push_back(std::move(request));
  }
  const Run run = RunAll(requests, Setup());
  CHECK(run.stats.prompt_tokens == 20 * 101);
  // The first computes all of it; the others their own last token.
  CHECK(run.stats.prefill_tokens == 101 + 19);
  CHECK(run.stats.cached_tokens == 19 * 100);
  CHECK(run.finished.at(0).cached_tokens == 0);
  CHECK(run.finished.at(1).cached_tokens == 100);

  Setup off;
  off.options.prefix_caching = false;
  CHECK(RunAll(requests, off).stats.prefill_tokens == 20 * 101);
}

TEST_CASE("n answers share the prompt, and differ") {
  Request request = Simple(0, 100, 8);
  request.params.temperature = 2;
  request.params.n = 4;
  const Run run = RunAll({request}, Setup());
  const auto& completions = run.finished.at(0).completions;
  REQUIRE(completions.size() == 4);
  CHECK(completions[0].tokens != completions[1].tokens);
  // Each of the others computes the 4 tokens of the block that is not full:
  // too few to copy a block for.
  CHECK(run.stats.prefill_tokens == 100 + 3 * 4);
  // Each is what it would be as the n-th of more.
  request.params.n = 2;
  const Run fewer = RunAll({request}, Setup());
  CHECK(fewer.finished.at(0).completions[1].tokens == completions[1].tokens);
}

TEST_CASE("a seed of the request's own decides, whoever it is") {
  Request a = Simple(0, 10, 8);
  a.params.temperature = 2;
  a.seed = 1;
  Request b = a;
  b.id = 1;
  b.seed = 2;
  const Run other = RunAll({a, b}, Setup());
  CHECK(other.finished.at(0).completions[0].tokens !=
        other.finished.at(1).completions[0].tokens);
  a.params.seed = b.params.seed = 5;
  const Run same = RunAll({a, b}, Setup());
  CHECK(same.finished.at(0).completions[0].tokens ==
        same.finished.at(1).completions[0].tokens);
}

TEST_CASE("how a sequence ends") {
  FakeExecutor executor(FakeExecutor::MakeManifest({2, 1}, 16, 64, 64, kVocab),
                        16);
  const auto run = [&](Request request, std::vector<TokenId> eos) {
    EngineOptions options;
    options.eos_token_ids = std::move(eos);
    Engine engine(executor, TinyTokenizer(), options);
    engine.Add(std::move(request));
    std::vector<Finished> finished;
    while (engine.Step(finished)) {
    }
    return finished.at(0).completions.at(0);
  };
  const Request request = Simple(0, 10, 6);
  const Completion full = run(request, {});
  REQUIRE(full.tokens.size() == 6);
  CHECK(full.finish_reason == "length");
  CHECK(full.stop_reason.index() == 0);
  CHECK(full.text == TinyTokenizer().Decode(full.tokens, true));
  const TokenId third = full.tokens[2];
  REQUIRE(full.tokens[0] != third);
  REQUIRE(full.tokens[1] != third);
  const std::string two =
      TinyTokenizer().Decode({full.tokens[0], full.tokens[1]}, true);

  SUBCASE("EOS is counted, and is not text") {
    Request ending = request;
    ending.params.ignore_eos = false;
    const Completion completion = run(ending, {third});
    CHECK(completion.tokens.size() == 3);
    CHECK(completion.finish_reason == "stop");
    CHECK(completion.stop_reason.index() == 0);
    CHECK(completion.text == two);
  }
  SUBCASE("a second EOS token is named") {
    Request ending = request;
    ending.params.ignore_eos = false;
    const Completion completion = run(ending, {kVocab - 1, third});
    CHECK(completion.finish_reason == "stop");
    CHECK(std::get<TokenId>(completion.stop_reason) == third);
  }
  SUBCASE("a stop token is named, also when EOS is ignored") {
    Request ending = request;
    ending.params.stop_token_ids = {third};
    const Completion completion = run(ending, {});
    CHECK(completion.finish_reason == "stop");
    CHECK(std::get<TokenId>(completion.stop_reason) == third);
    CHECK(completion.text == two);
  }
  SUBCASE("min_tokens keeps EOS away") {
    Request ending = request;
    ending.params.ignore_eos = false;
    ending.params.min_tokens = 5;
    const Completion completion = run(ending, {third});
    CHECK(completion.tokens.size() >= 5);
    CHECK(completion.tokens[2] != third);
  }
  SUBCASE("the model's length ends it") {
    Request long_one = Simple(0, 60, 100);
    CHECK(run(long_one, {}).tokens.size() == 4);
    long_one.params.max_tokens.reset();
    const Completion completion = run(long_one, {});
    CHECK(completion.tokens.size() == 4);
    CHECK(completion.finish_reason == "length");
  }
}

TEST_CASE("what can never run is refused, and says why") {
  FakeExecutor executor(FakeExecutor::MakeManifest({4, 1}, 16, 64, 64, kVocab),
                        2);
  Engine engine(executor, TinyTokenizer(), {});
  const auto problem = [&](Request request) -> std::string {
    try {
      engine.Add(std::move(request));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      return error.what();
    }
    return "";
  };
  CHECK(problem(Simple(0, 0, 1)) == "the prompt is empty: it has no token");
  CHECK(problem(Simple(0, 64, 1)) ==
        "the prompt is too long: 64 tokens, and max_model_len 64 leaves room "
        "for 63 and an answer");
  CHECK(problem(Simple(0, 30, 4)) ==
        "prompt and max_tokens can never fit: 34 tokens take 3 KV cache blocks "
        "of 16, and there are 2");
  Request bad = Simple(0, 3, 1);
  bad.prompt[1] = kVocab;
  CHECK(problem(bad) == "the prompt has token id 1536; they go from 0 to 1535");
  CHECK(engine.num_waiting() == 0);
}

TEST_CASE("blocks of prompts are read from disk in the next run") {
  const TempDir temp;
  Setup setup;
  setup.options.prefix_cache = temp / "cache";
  const std::vector<Request> requests = RandomRequests(20, 5);
  const Run first = RunAll(requests, setup);
  CHECK(first.stats.disk_tokens == 0);
  const Run second = RunAll(requests, setup);
  CHECK(second.stats.disk_tokens > 0);
  CHECK(second.stats.prefill_tokens < first.stats.prefill_tokens);
  CheckSame(first, second);
}

TEST_CASE("a trace shows each step in the lane of its program") {
  const TempDir temp;
  Setup setup;
  setup.options.trace = temp / "trace.json";
  const Run run = RunAll({Simple(0, 70, 3), Simple(1, 4, 9)}, setup);
  const std::string text = ReadTestFile(temp / "trace.json");
  const Json trace = ParseJson(text, "trace", ErrorKind::kUsage);
  std::map<int, std::string> lanes;
  size_t steps = 0;
  int64_t decode_rows = 0, prefill_rows = 0;
  std::map<std::string, int> counters;
  double last = 0;
  for (const Json& event : trace) {
    if (event["name"] == "thread_name") {
      lanes[event["tid"]] = event["args"]["name"];
    } else if (event["ph"] == "C") {
      ++counters[event["name"]];
    } else if (event["ph"] == "X") {
      CHECK(event["ts"].get<double>() >= last);
      last = event["ts"].get<double>() + event["dur"].get<double>();
      const int rows = run.steps.at(steps).program_rows;
      CHECK(lanes.at(event["tid"]) ==
            (rows == 64 ? "prefill of 64"
                        : "decoder_batch_" + std::to_string(rows)));
      decode_rows += event["args"]["decode_rows"].get<int>();
      prefill_rows += event["args"]["prefill_rows"].get<int>();
      ++steps;
    }
  }
  CHECK(steps == run.steps.size());
  CHECK(decode_rows == run.stats.decode_tokens);
  CHECK(prefill_rows == run.stats.prefill_tokens);
  for (const char* name : {"occupancy_percent", "running", "waiting",
                           "free_blocks", "preemptions"}) {
    CHECK(counters[name] == static_cast<int>(steps));
  }
  // Cut off after an event, it lacks but the bracket.
  const size_t cut = text.rfind(",\n");
  CHECK(
      ParseJson(text.substr(0, cut) + "]", "trace", ErrorKind::kUsage).size() ==
      trace.size() - 1);
}

TEST_CASE("more than was compiled is refused") {
  FakeExecutor executor(FakeExecutor::MakeManifest({4, 1}, 16, 64, 64, kVocab),
                        8);
  const auto make = [&](int num_seqs, int model_len) {
    EngineOptions options;
    options.max_num_seqs = num_seqs;
    options.max_model_len = model_len;
    Engine engine(executor, TinyTokenizer(), options);
  };
  CHECK_NOTHROW(make(2, 32));
  CHECK_THROWS_WITH(
      make(5, 0),
      "--max-num-seqs 5 is more than the model was compiled for: batch_size 4");
  CHECK_THROWS_WITH(make(0, 65),
                    "--max-model-len 65 is more than the model was compiled "
                    "for: max_seq_len 64");
}

}  // namespace
}  // namespace rbln
