// Compiled models against transformers' answers (tests/data/models, made by
// scripts/make_model_goldens.py), and against themselves: the same bits however
// the work is cut.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "artifact/manifest.h"
#include "artifact/program.h"
#include "artifact/sharding.h"
#include "artifact/weights.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "compiler/compile.h"
#include "engine/engine.h"
#include "kernels/kernels.h"
#include "runtime/runtime.h"
#include "test_util.h"

namespace rbln {
namespace {

constexpr const char* kFamilies[] = {
    "llama-mha",
    "llama-gqa-tied-linear",
    "llama3-rope",
    "mistral-window",
    "qwen2",
    "qwen3",
    "llama-bias",
    "llama-odd-sizes",
    "llama-sharded",
    "qwen2-yarn",
    "llama-yarn-mscale",
    "llama-dynamic",
    "mistral-longrope",
    "qwen2-hybrid-window",
    "qwen3-hybrid-window",
    "llama-8-heads",
    "mistral-8-heads",
    "qwen2-8-heads",
    "qwen3-8-heads",
};
// Those with a golden-long.json: longer than they were trained for.
constexpr const char* kLongFamilies[] = {
    "qwen2-yarn",       "llama-yarn-mscale",     "llama-dynamic",
    "mistral-longrope", "llama-gqa-tied-linear",
};

CompileOptions Options(const ModelDescription& model, const std::string& output,
                       WeightFormat format, int max_seq_len = 0,
                       int ranks = 1) {
  CompileOptions options;
  options.tensor_parallel_size = ranks;
  options.model = "checkpoint";
  options.output = output;
  options.batch_size = 8;
  options.decoder_batch_sizes = {8, 4, 2, 1};
  options.max_seq_len = max_seq_len > 0
                            ? max_seq_len
                            : std::min(256, model.max_position_embeddings);
  options.kvcache_block_size = options.max_seq_len;
  options.prefill_chunk_size = 64;
  // By name: nothing is measured.
  options.target = NativeKernels().isa;
  options.weights = format;
  switch (format) {
    case WeightFormat::kFloat32:
      options.activations = ActivationFormat::kFloat32;
      options.kv_caches = KvFormat::kFloat32;
      break;
    case WeightFormat::kBFloat16:
      options.activations = ActivationFormat::kBFloat16;
      options.kv_caches = KvFormat::kBFloat16;
      break;
    case WeightFormat::kInt8:
    case WeightFormat::kInt4:
      options.activations = ActivationFormat::kInt8;
      options.kv_caches = KvFormat::kInt8;
      break;
  }
  return options;
}

std::string CompileModel(const std::string& checkpoint_directory,
                         const std::string& output, WeightFormat format,
                         int max_seq_len = 0, int ranks = 1) {
  const Checkpoint checkpoint = Checkpoint::Open(checkpoint_directory, false);
  Compile(checkpoint,
          Options(checkpoint.model(), output, format, max_seq_len, ranks), {});
  return output;
}

// One sequence fed through an executor; positions follow each other.
class Sequence {
 public:
  // `place`: of the sequences whose blocks lie one after the other.
  Sequence(Executor& executor, int place) : executor_(executor) {
    const Manifest& manifest = executor.manifest();
    const int blocks =
        (manifest.max_seq_len + manifest.kvcache_block_size - 1) /
        manifest.kvcache_block_size;
    for (int i = 0; i < blocks; ++i) blocks_.push_back(place * blocks + i);
  }
  // Feeds `ids`, `chunk` at a time, through programs of `rows` rows. Returns
  // the logits after each.
  std::vector<std::vector<float>> Feed(const std::vector<int>& ids, int rows,
                                       int chunk) {
    std::vector<std::vector<float>> logits;
    for (size_t at = 0; at < ids.size(); at += chunk) {
      std::vector<Row> step;
      for (size_t i = at; i < std::min(ids.size(), at + chunk); ++i) {
        step.push_back({ids[i], position_++, 0, true});
      }
      const BlockTable table = blocks_;
      const std::span<const float> out =
          executor_.Step(rows, step, std::span(&table, 1));
      const size_t vocabulary = out.size() / step.size();
      for (size_t i = 0; i < step.size(); ++i) {
        logits.emplace_back(out.begin() + i * vocabulary,
                            out.begin() + (i + 1) * vocabulary);
      }
    }
    return logits;
  }
  BlockTable table() const { return blocks_; }

 private:
  Executor& executor_;
  std::vector<int32_t> blocks_;
  int position_ = 0;
};

int Argmax(const std::vector<float>& logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) -
                          logits.begin());
}

// Largest difference, relative to the root mean square of what is wanted.
double Distance(const std::vector<float>& got, const Json& want) {
  REQUIRE(got.size() == want.size());
  double worst = 0, squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = want[i];
    worst = std::max(worst, std::abs(got[i] - w));
    squares += w * w;
  }
  return worst / std::sqrt(squares / got.size());
}

// How near to transformers' float32 a format must stay: the largest difference
// of a logit by the root mean square of its row, and the part of the greedy
// tokens that agree (after the reference's tokens, since one other choice
// changes all later ones).
struct Nearness {
  WeightFormat format;
  std::string name;
  double difference;
  double agreement;
};
const Nearness kNearness[] = {
    // Sums of a few hundred float32 products over a few layers.
    {WeightFormat::kFloat32, "float32", 2e-5, 1.0},
    // Eight bits of mantissa, rounded at about ten places in a row.
    {WeightFormat::kBFloat16, "bfloat16", 10.0 / 64, 0.85},
    // Small models of random weights: logits lie near each other, and there are
    // few products for the errors to cancel out in. Measured: 0.25 and 2.3.
    {WeightFormat::kInt8, "int8", 0.4, 0.8},
    {WeightFormat::kInt4, "int4", 3.0, 0.2},
};

void CheckAgainstGolden(const std::string& model,
                        const std::string& golden_file,
                        const Nearness& nearness, int ranks = 1) {
  const TempDir temp;
  const Json golden = ReadJsonFile(golden_file, ErrorKind::kUsage);
  const std::string directory =
      CompileModel(model, temp / "out", nearness.format,
                   golden.value("max_seq_len", 0), ranks);
  RuntimeOptions runtime;
  runtime.threads = 2;
  const std::unique_ptr<Executor> executor = LoadModel(directory, runtime);
  int agree = 0, total = 0;
  double worst = 0;
  for (const Json& prompt : golden.at("prompts")) {
    const std::vector<int> ids = prompt.at("ids");
    const std::vector<int> greedy = prompt.at("greedy");
    Sequence sequence(*executor, 0);
    std::vector<std::vector<float>> logits = sequence.Feed(ids, 64, 64);
    for (const Json& entry : prompt.at("logits")) {
      worst = std::max(
          worst, Distance(logits[entry.at("position")], entry.at("values")));
    }
    for (const int token : greedy) {
      agree += Argmax(logits.back()) == token;
      ++total;
      logits = sequence.Feed({token}, 1, 1);
    }
  }
  CHECK(worst < nearness.difference);
  CHECK(agree >= nearness.agreement * total);
  MESSAGE(nearness.name, ": largest logit difference ", worst,
          " of the RMS, greedy tokens agree ", agree, " of ", total);
}

TEST_CASE(
    "every family gives transformers' logits and greedy tokens, as near "
    "as its format allows") {
  for (const char* family : kFamilies) {
    SUBCASE(family) {
      const std::string model =
          std::string(RBLN_TEST_DATA) + "/models/" + family;
      for (const Nearness& nearness : kNearness) {
        CAPTURE(std::string(family));
        CAPTURE(nearness.name);
        CheckAgainstGolden(model, model + "/golden.json", nearness);
      }
    }
  }
}

// Whether a model can be divided so.
bool Divides(const std::string& model, int ranks) {
  const Checkpoint checkpoint = Checkpoint::Open(model, false);
  const ModelDescription& m = checkpoint.model();
  return WhyNotSharded(m.num_heads, m.num_kv_heads, m.intermediate_size,
                       m.vocab_size, ranks)
      .empty();
}

TEST_CASE("tensor parallel ranks give transformers' logits and greedy tokens") {
  std::map<int, int> tried;
  for (const char* family : kFamilies) {
    const std::string model = std::string(RBLN_TEST_DATA) + "/models/" + family;
    for (const int ranks : {2, 3, 4, 8}) {
      if (!Divides(model, ranks)) continue;
      ++tried[ranks];
      CAPTURE(std::string(family));
      CAPTURE(ranks);
      CheckAgainstGolden(model, model + "/golden.json", kNearness[0], ranks);
    }
    // Every format; ranks with KV heads of their own and with shared ones.
    if (!std::string(family).ends_with("-8-heads")) continue;
    for (size_t i = 1; i < std::size(kNearness); ++i) {
      CAPTURE(std::string(family));
      CheckAgainstGolden(model, model + "/golden.json", kNearness[i],
                         i % 2 == 0 ? 2 : 8);
    }
  }
  CHECK(tried == std::map<int, int>{{2, 18}, {3, 1}, {4, 17}, {8, 4}});
}

TEST_CASE(
    "scaled RoPE gives transformers' logits and greedy tokens beyond the "
    "trained length") {
  for (const char* family : kLongFamilies) {
    SUBCASE(family) {
      const std::string model =
          std::string(RBLN_TEST_DATA) + "/models/" + family;
      CAPTURE(std::string(family));
      CheckAgainstGolden(model, model + "/golden-long.json", kNearness[0]);
    }
  }
}

TEST_CASE(
    "another length packs the weights again only where frequencies "
    "depend on it") {
  for (const char* family : {"llama-dynamic", "qwen2-yarn"}) {
    const TempDir temp;
    const Checkpoint checkpoint = Checkpoint::Open(
        std::string(RBLN_TEST_DATA) + "/models/" + family, false);
    const auto written = [&](int max_seq_len) {
      const CompileReport report =
          Compile(checkpoint,
                  Options(checkpoint.model(), temp / "a",
                          WeightFormat::kBFloat16, max_seq_len),
                  {});
      return std::count(report.written.begin(), report.written.end(),
                        "weights.safetensors");
    };
    CHECK(written(128) == 1);
    CHECK(written(256) == (std::string(family) == "llama-dynamic" ? 1 : 0));
  }
}

TEST_CASE("the example model gives transformers' logits and greedy tokens") {
  // Trained: quantized, it says much the same.
  for (Nearness nearness : kNearness) {
    if (nearness.format == WeightFormat::kInt8) nearness.agreement = 0.95;
    if (nearness.format == WeightFormat::kInt4) nearness.agreement = 0.8;
    CAPTURE(nearness.name);
    CheckAgainstGolden(
        std::string(RBLN_EXAMPLES) + "/tiny-chat",
        std::string(RBLN_TEST_DATA) + "/models/tiny-chat.golden.json",
        nearness);
  }
}

TEST_CASE(
    "logits are the same bits for every program, chunk, batch and thread "
    "count") {
  const std::string models = std::string(RBLN_TEST_DATA) + "/models/";
  const std::pair<std::string, int> families[] = {
      {models + "llama-odd-sizes", 1},
      {models + "mistral-window", 1},
      {models + "qwen3", 1},
      {models + "mistral-window", 2},
      {models + "qwen3", 4},
      // Has a matmul wide enough to be handed out in pieces.
      {std::string(RBLN_EXAMPLES) + "/tiny-chat", 1}};
  for (const auto& [family, ranks] : families) {
    for (const WeightFormat format :
         {WeightFormat::kFloat32, WeightFormat::kBFloat16, WeightFormat::kInt8,
          WeightFormat::kInt4}) {
      CAPTURE(family);
      const TempDir temp;
      // Short partitions: where there are few heads, threads share them out.
      const std::string directory = temp / "out";
      const Checkpoint checkpoint = Checkpoint::Open(family, false);
      CompileOptions compile =
          Options(checkpoint.model(), directory, format, 0, ranks);
      compile.attn_impl = AttnImpl::kFlashAttn;
      compile.kvcache_partition_len = compile.kvcache_block_size = 32;
      Compile(checkpoint, compile, {});
      RuntimeOptions one;
      one.threads = 1;
      const std::unique_ptr<Executor> reference = LoadModel(directory, one);
      std::mt19937 random(7);
      const int vocabulary = reference->manifest().vocab_size;
      std::vector<std::vector<int>> ids(8);
      std::vector<std::vector<std::vector<float>>> want;
      for (std::vector<int>& sequence : ids) {
        sequence.resize(20 + random() % 60);
        for (int& id : sequence) id = static_cast<int>(random() % vocabulary);
        want.push_back(Sequence(*reference, 0).Feed(sequence, 64, 64));
      }
      for (const int threads : {1, 2, 3, 4}) {
        RuntimeOptions options;
        options.threads = threads;
        const std::unique_ptr<Executor> executor =
            LoadModel(directory, options);
        for (const int chunk : {1, 3, 8, 17}) {
          const int rows = chunk <= 8 ? 8 : 64;
          REQUIRE(Sequence(*executor, 0).Feed(ids[0], rows, chunk) == want[0]);
        }
        // All sequences at once, each step a random part of some of them.
        std::vector<size_t> next(ids.size(), 0);
        std::vector<Sequence> sequences;
        std::vector<BlockTable> tables;
        for (size_t i = 0; i < ids.size(); ++i) {
          sequences.emplace_back(*executor, static_cast<int>(i));
        }
        for (const Sequence& sequence : sequences) {
          tables.push_back(sequence.table());
        }
        while (true) {
          std::vector<Row> step;
          for (size_t i = 0; i < ids.size(); ++i) {
            size_t count = random() % 5;
            for (; count > 0 && next[i] < ids[i].size(); --count, ++next[i]) {
              step.push_back({ids[i][next[i]], static_cast<int>(next[i]),
                              static_cast<int>(i), true});
            }
          }
          if (step.empty() && next[0] == ids[0].size()) break;
          if (step.empty()) continue;
          const std::span<const float> logits =
              executor->Step(64, step, tables);
          for (size_t i = 0; i < step.size(); ++i) {
            REQUIRE(std::memcmp(want[step[i].sequence][step[i].position].data(),
                                logits.data() + i * vocabulary,
                                vocabulary * sizeof(float)) == 0);
          }
        }
      }
    }
  }
}

// Ranks in threads of one process that know of each other only by messages.
class ThreadTransport : public Transport {
 public:
  struct Shared {
    explicit Shared(int ranks) : barrier(ranks), sent(ranks) {}
    Barrier barrier;
    std::vector<std::vector<std::span<const std::byte>>> sent;
    std::vector<std::byte> message;
  };
  ThreadTransport(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(shared_.sent.size()); }
  void Exchange(std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> recv) override {
    shared_.sent[rank_].assign(send.begin(), send.end());
    shared_.barrier.Wait();
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == rank_ || recv[rank].empty()) continue;
      const std::span<const std::byte> from = shared_.sent[rank][rank_];
      REQUIRE(from.size() == recv[rank].size());
      std::memcpy(recv[rank].data(), from.data(), from.size());
    }
    shared_.barrier.Wait();
  }
  void Broadcast(std::vector<std::byte>* message) override {
    if (rank_ == 0) shared_.message = *message;
    shared_.barrier.Wait();
    if (rank_ != 0) *message = shared_.message;
    shared_.barrier.Wait();
  }

 private:
  Shared& shared_;
  const int rank_;
};

TEST_CASE(
    "ranks that exchange messages give the bits of ranks that share "
    "memory") {
  for (const auto& [family, ranks] :
       {std::pair{"llama-8-heads", 2}, std::pair{"mistral-8-heads", 4},
        std::pair{"qwen3-8-heads", 8}}) {
    for (const WeightFormat format :
         {WeightFormat::kFloat32, WeightFormat::kInt4}) {
      CAPTURE(std::string(family));
      const TempDir temp;
      const std::string directory = temp / "out";
      const Checkpoint checkpoint = Checkpoint::Open(
          std::string(RBLN_TEST_DATA) + "/models/" + family, false);
      CompileOptions compile =
          Options(checkpoint.model(), directory, format, 0, ranks);
      compile.prefill_chunk_size = 256;
      Compile(checkpoint, compile, {});
      RuntimeOptions options;
      options.threads = 2;
      options.num_blocks = 4;
      const std::unique_ptr<Executor> together = LoadModel(directory, options);
      ThreadTransport::Shared shared(ranks);
      std::vector<std::thread> others;
      for (int rank = 1; rank < ranks; ++rank) {
        others.emplace_back([&, rank] {
          ThreadTransport transport(shared, rank);
          RuntimeOptions mine = options;
          mine.transport = &transport;
          LoadModel(directory, mine)->Follow();
        });
      }
      {
        ThreadTransport transport(shared, 0);
        RuntimeOptions mine = options;
        mine.transport = &transport;
        const std::unique_ptr<Executor> leader = LoadModel(directory, mine);
        const std::vector<int> ids = {7, 1, 249, 33, 90, 15, 16, 100, 2, 3};
        for (const int place : {0, 1}) {
          Sequence a(*together, place), b(*leader, place);
          CHECK(a.Feed(ids, 256, 7) == b.Feed(ids, 256, 7));
          CHECK(a.Feed({5, 6}, 2, 1) == b.Feed({5, 6}, 2, 1));
        }
        // Messages so large that ranks sum shares of them.
        const std::vector<int> many(256, 17);
        CHECK(Sequence(*together, 3).Feed(many, 256, 256) ==
              Sequence(*leader, 3).Feed(many, 256, 256));
        // A copied block is copied on every rank.
        together->CopyBlock(0, 2, static_cast<int>(ids.size()));
        leader->CopyBlock(0, 2, static_cast<int>(ids.size()));
        const int32_t block = 2;
        const BlockTable table(&block, 1);
        const Row row{9, static_cast<int>(ids.size()), 0, true};
        const auto step = [&](Executor& executor) {
          const std::span<const float> logits =
              executor.Step(1, {&row, 1}, {&table, 1});
          return std::vector<float>(logits.begin(), logits.end());
        };
        CHECK(step(*together) == step(*leader));
        CHECK(together->kv_fingerprint().empty());
      }
      for (std::thread& thread : others) thread.join();
    }
  }
}

// Answers with log probabilities, by request.
std::map<int64_t, std::string> Answers(const std::string& directory,
                                       const std::vector<Request>& requests,
                                       int num_blocks, int threads,
                                       const EngineOptions& options,
                                       EngineStats* stats) {
  static const auto tokenizer = Tokenizer::Load(
      std::string(RBLN_EXAMPLES) + "/tiny-chat", ErrorKind::kModel);
  RuntimeOptions runtime;
  runtime.threads = threads;
  runtime.num_blocks = num_blocks;
  const std::unique_ptr<Executor> executor = LoadModel(directory, runtime);
  Engine engine(*executor, *tokenizer, options);
  for (const Request& request : requests) engine.Add(request);
  std::vector<Finished> finished;
  while (engine.Step(finished)) {
  }
  std::map<int64_t, std::string> answers;
  for (const Finished& one : finished) {
    std::string& answer = answers[one.id];
    for (const Completion& completion : one.completions) {
      for (size_t i = 0; i < completion.tokens.size(); ++i) {
        answer += fmt::format("{}:{:a} ", completion.tokens[i],
                              completion.logprobs.at(i).chosen.logprob);
      }
    }
  }
  *stats = engine.stats();
  return answers;
}

TEST_CASE(
    "answers are the same bits for every block size, hit or miss, window "
    "passed or not, preempted or not, from disk or not") {
  for (const char* family :
       {"mistral-window", "qwen2-hybrid-window", "llama-dynamic"}) {
    for (const WeightFormat format :
         {WeightFormat::kFloat32, WeightFormat::kBFloat16,
          WeightFormat::kInt8}) {
      CAPTURE(std::string(family));
      const TempDir temp;
      const Checkpoint checkpoint = Checkpoint::Open(
          std::string(RBLN_TEST_DATA) + "/models/" + family, false);
      std::mt19937 random(11);
      const auto below = [&](int n) { return static_cast<int>(random() % n); };
      std::vector<TokenId> prefix(70);
      for (TokenId& id : prefix) id = 4 + below(190);
      std::vector<Request> requests;
      for (int i = 0; i < 16; ++i) {
        Request request;
        request.id = i;
        request.seed = i;
        if (below(3) > 0) request.prompt = prefix;
        for (int more = 1 + below(40); more > 0; --more) {
          request.prompt.push_back(4 + below(190));
        }
        request.params.temperature = below(2);
        if (request.params.temperature > 0) request.params.n = 1 + below(2);
        request.params.max_tokens = 1 + below(40);
        request.params.logprobs = 0;
        requests.push_back(std::move(request));
      }
      const auto compile = [&](int block) {
        CompileOptions options = Options(
            checkpoint.model(), temp / std::to_string(block), format, 256);
        options.attn_impl = AttnImpl::kFlashAttn;
        options.kvcache_partition_len = 128;
        options.kvcache_block_size = block;
        Compile(checkpoint, options, {});
        return options.output;
      };
      EngineStats stats;
      EngineOptions plain;
      plain.prefix_caching = false;
      plain.max_num_seqs = 1;
      const auto want = Answers(compile(128), requests, 2, 1, plain, &stats);
      CHECK(stats.preemptions == 0);
      int64_t preemptions = 0, cached = 0, disk = 0;
      for (const int block : {16, 32, 64}) {
        const std::string directory = compile(block);
        for (const int blocks : {256 / block, 640 / block, 2048 / block}) {
          for (const bool from_disk : {false, true}) {
            EngineOptions options;
            options.max_num_batched_tokens = below(2) * (1 + below(64));
            if (from_disk) options.prefix_cache = temp / "cache";
            CHECK(Answers(directory, requests, blocks, 1 + below(3), options,
                          &stats) == want);
            preemptions += stats.preemptions;
            cached += stats.cached_tokens;
            disk += stats.disk_tokens;
          }
        }
      }
      CHECK(preemptions > 0);
      CHECK(cached > 0);
      CHECK(disk > 0);
    }
  }
}

TEST_CASE("a model of random weights answers as a schema wants") {
  const TempDir temp;
  const Checkpoint checkpoint =
      Checkpoint::Open(std::string(RBLN_EXAMPLES) + "/tiny-chat", true);
  Compile(checkpoint,
          Options(checkpoint.model(), temp / "model", WeightFormat::kInt8), {});
  const auto tokenizer = Tokenizer::Load(
      std::string(RBLN_EXAMPLES) + "/tiny-chat", ErrorKind::kModel);
  const std::string schema =
      R"({"$defs": {"part": {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 20},
            "count": {"type": "integer", "minimum": 1, "maximum": 99},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/part"},
                      "maxItems": 2}},
            "required": ["name", "count"]}}, "$ref": "#/$defs/part"})";
  std::vector<std::string> alone;
  for (const int together : {1, 8}) {
    const std::unique_ptr<Executor> executor = LoadModel(temp / "model", {});
    EngineOptions options;
    options.max_num_seqs = together;
    options.eos_token_ids = {*tokenizer->eos()};
    Engine engine(*executor, *tokenizer, options);
    for (int i = 0; i < 12; ++i) {
      Request request;
      request.id = i;
      request.seed = i;
      request.prompt = tokenizer->Encode("part " + std::to_string(i), true);
      request.params.temperature = i % 3;
      request.params.max_tokens = 200;
      request.params.guide = {GuideSpec::Kind::kSchema, schema, "guided_json"};
      engine.Add(request);
    }
    std::vector<Finished> finished;
    while (engine.Step(finished)) {
    }
    std::vector<std::string> texts(finished.size());
    int complete = 0;
    for (const Finished& one : finished) {
      CHECK(one.error == "");
      const Completion& completion = one.completions.at(0);
      texts[one.id] = completion.text;
      if (completion.finish_reason != "stop") continue;
      ++complete;
      const Json answer = Json::parse(completion.text);
      CHECK(answer["name"].is_string());
      CHECK(answer["count"].get<int>() >= 1);
      CHECK(answer["count"].get<int>() <= 99);
    }
    CHECK(complete > 0);
    if (together == 1) alone = texts;
    CHECK(texts == alone);
  }
}

TEST_CASE(
    "the same inputs give the same bytes, and a second compile redoes "
    "only what changed") {
  const TempDir temp;
  const std::string model =
      std::string(RBLN_TEST_DATA) + "/models/llama-sharded";
  const Checkpoint checkpoint = Checkpoint::Open(model, false);
  CompileOptions options =
      Options(checkpoint.model(), temp / "a", WeightFormat::kBFloat16);
  const CompileReport first = Compile(checkpoint, options, {});
  CHECK(first.kept.empty());
  CHECK(Compile(checkpoint, options, {}).up_to_date());

  options.output = temp / "b";
  Compile(checkpoint, options, {});
  for (const auto& entry : std::filesystem::directory_iterator(temp / "a")) {
    const std::string name = entry.path().filename();
    CHECK(ReadTestFile(temp / ("a/" + name)) ==
          ReadTestFile(temp / ("b/" + name)));
  }

  options.decoder_batch_sizes = {8, 6, 4, 2, 1};
  const CompileReport more = Compile(checkpoint, options, {});
  CHECK(more.written == std::vector<std::string>{"decoder_batch_6.rbln"});
  CHECK(!FileExists(temp / "b.partial"));
}

TEST_CASE("a damaged directory is refused with what is wrong") {
  const TempDir temp;
  const std::string directory =
      CompileModel(std::string(RBLN_TEST_DATA) + "/models/llama-mha",
                   temp / "out", WeightFormat::kFloat32);
  const auto refused = [&](const std::string& part) {
    try {
      LoadModel(directory, {});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kModel);
      CHECK_MESSAGE(std::string(error.what()).find(part) != std::string::npos,
                    error.what());
      return;
    }
    FAIL("not refused: ", part);
  };
  const std::string program = directory + "/decoder_batch_4.rbln";
  const std::string good = ReadTestFile(program);
  std::string bad = good;
  bad[bad.size() / 2] ^= 0x10;
  WriteTestFile(program, bad);
  refused("decoder_batch_4.rbln: the content is not what was compiled");
  WriteTestFile(program, good.substr(0, 100));
  refused("decoder_batch_4.rbln: 100 bytes, the manifest says");
  WriteTestFile(program, good);
  const std::string weights = directory + "/weights.safetensors";
  const std::string all = ReadTestFile(weights);
  WriteTestFile(weights, all.substr(0, all.size() - 1));
  refused("weights.safetensors: ");
  WriteTestFile(weights, all);
  LoadModel(directory, {});
  std::filesystem::remove(directory + "/rbln_config.json");
  refused("not a compiled directory");
}

// Every bit pattern would be 255 times the work and meet the same checks.
TEST_CASE("each byte of a directory, changed or cut off, is seen or harmless") {
  const TempDir temp;
  const std::string directory =
      CompileModel(std::string(RBLN_TEST_DATA) + "/models/llama-bias",
                   temp / "out", WeightFormat::kFloat32);
  const Manifest good_manifest = Manifest::Read(directory);
  const auto model_error = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      CHECK_MESSAGE(error.kind() == ErrorKind::kModel, error.what());
      return true;
    }
    return false;
  };
  const auto each_byte = [](const std::string& good, size_t end,
                            const auto& check) {
    for (size_t at = 0; at < end; ++at) {
      for (const int flip : {0x01, 0x10, 0x80, 0xFF}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ flip);
        check(bad, at);
      }
      check(good.substr(0, at), at);
    }
  };

  // What it says may be spaced otherwise, but nothing else.
  const std::string manifest = ReadTestFile(directory + "/rbln_config.json");
  each_byte(manifest, manifest.size(), [&](const std::string& bad, size_t at) {
    const bool refused = model_error([&] {
      const Manifest read = Manifest::FromJson(
          ParseJson(bad, "manifest", ErrorKind::kModel), "manifest");
      CHECK_MESSAGE(read.ToJson() == manifest, "byte ", at);
    });
    const bool said = manifest[at] != ' ' && manifest[at] != '\n';
    if (said && at + 2 < manifest.size()) CHECK_MESSAGE(refused, "byte ", at);
  });

  // Loading finds each by its checksum; without that, reading must not crash.
  const std::string program = ReadTestFile(directory + "/decoder_batch_4.rbln");
  const ManifestFile& entry = good_manifest.files.at("decoder_batch_4.rbln");
  REQUIRE(entry.checksum == HashBytes(program));
  each_byte(program, program.size(), [&](const std::string& bad, size_t at) {
    CHECK_MESSAGE(HashBytes(bad) != entry.checksum, "byte ", at);
    model_error(
        [&] { ParseProgram(std::as_bytes(std::span(bad)), "program"); });
  });

  // Of the weights, the header: each tensor is found where it was or not at
  // all.
  const std::string path = directory + "/weights.safetensors";
  const std::string weights = ReadTestFile(path);
  const ProgramT wanted = ReadProgram(directory + "/decoder_batch_4.rbln");
  const PackedWeights good_weights(path);
  const auto begin_of = [&](const PackedWeights& file, const WeightT& weight) {
    return file.Find(weight.name, weight.bytes).data() - file.file().data();
  };
  const size_t header = weights.find("}}") + 2;
  REQUIRE(header < 20000);
  const std::string other = temp / "weights.safetensors";
  each_byte(weights, header, [&](const std::string& bad, size_t at) {
    WriteTestFile(other, bad);
    model_error([&] {
      const PackedWeights read(other);
      for (const auto& weight : wanted.weights) {
        const auto found = begin_of(read, *weight);
        CHECK_MESSAGE(found == begin_of(good_weights, *weight), "byte ", at);
      }
    });
  });
}

TEST_CASE("every file but the weights' content is checked before it is used") {
  const TempDir temp;
  const std::string directory =
      CompileModel(std::string(RBLN_EXAMPLES) + "/tiny-chat", temp / "out",
                   WeightFormat::kBFloat16);
  for (const auto& [name, entry] : Manifest::Read(directory).files) {
    const std::string path = directory + "/" + name;
    const std::string good = ReadTestFile(path);
    std::string bad = good;
    bad[bad.size() / 2] ^= 1;
    WriteTestFile(path, bad);
    RuntimeOptions options;
    options.verify = name == "weights.safetensors";
    std::string message;
    try {
      LoadModel(directory, options);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kModel);
      message = error.what();
    }
    CHECK_MESSAGE(
        message.find(name + ": the content is not what was compiled") !=
            std::string::npos,
        name, ": ", message);
    WriteTestFile(path, good);
  }
}

}  // namespace
}  // namespace rbln
