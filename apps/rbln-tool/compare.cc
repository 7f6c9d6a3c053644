// rbln-tool compare: how far one compiled directory is from another, on a text.
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "base/json.h"
#include "rbln-tool/commands.h"
#include "rbln-tool/values.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"

namespace rbln {
namespace {

struct CompareFlags {
  std::string reference;
  std::string candidate;
  std::string text;
  int threads = 0;
  int context = 0;
  int64_t max_tokens = 0;
  bool json = false;
};

// A model, and the KV cache of one sequence of `context` tokens in it.
class Model {
 public:
  Model(const std::string& directory, int context, int threads)
      : directory_(directory) {
    const Manifest manifest = Manifest::Read(directory);
    if (context > manifest.max_seq_len) {
      throw UsageError("--context: {} is more than {} was compiled for, {}",
                       context, directory, manifest.max_seq_len);
    }
    RuntimeOptions options;
    options.threads = threads;
    options.num_blocks = (context + manifest.kvcache_block_size - 1) /
                         manifest.kvcache_block_size;
    executor_ = LoadModel(directory, options);
    blocks_.resize(options.num_blocks);
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  const Manifest& manifest() const { return executor_->manifest(); }
  const std::string& directory() const { return directory_; }

  // The logits after each of `ids`, which stand from `position` on.
  std::span<const float> Logits(std::span<const TokenId> ids, int position) {
    rows_.clear();
    for (const TokenId id : ids) rows_.push_back({id, position++, 0, true});
    const BlockTable table = blocks_;
    return executor_->Step(manifest().prefill_chunk_size, rows_,
                           std::span(&table, 1));
  }

 private:
  std::string directory_;
  std::unique_ptr<Executor> executor_;
  std::vector<int32_t> blocks_;
  std::vector<Row> rows_;
};

// log of the sum of e^logit, and the index of the largest.
struct Partition {
  double log_sum;
  int top;
};
Partition Reduce(std::span<const float> logits) {
  const auto top = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - *top);
  return {*top + std::log(sum), static_cast<int>(top - logits.begin())};
}

struct Totals {
  int64_t tokens = 0;
  int64_t same_top = 0;
  double loss[2] = {0, 0};  // of the reference, of the candidate
  std::vector<float> divergence;
};

// One row: what both say comes after it, and what did.
void Account(std::span<const float> reference, std::span<const float> candidate,
             TokenId next, Totals* totals) {
  const Partition a = Reduce(reference);
  const Partition b = Reduce(candidate);
  double divergence = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_a = reference[i] - a.log_sum;
    divergence += std::exp(log_a) * (log_a - (candidate[i] - b.log_sum));
  }
  ++totals->tokens;
  totals->same_top += a.top == b.top;
  totals->loss[0] += a.log_sum - reference[next];
  totals->loss[1] += b.log_sum - candidate[next];
  // Rounding can leave a hair below zero.
  totals->divergence.push_back(static_cast<float>(std::max(0.0, divergence)));
}

double Quantile(std::vector<float>& values, double part) {
  const size_t at =
      std::min(values.size() - 1, static_cast<size_t>(part * values.size()));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[at];
}

void CheckSameVocabulary(const Model& a, const Model& b) {
  const auto tokenizer = [](const Model& model) {
    const auto file = model.manifest().files.find("tokenizer.json");
    return file == model.manifest().files.end() ? "" : file->second.checksum;
  };
  if (a.manifest().vocab_size != b.manifest().vocab_size ||
      tokenizer(a) != tokenizer(b)) {
    throw UsageError(
        "{} and {} do not have the same vocabulary ({} and {} tokens, or "
        "another tokenizer.json): only probabilities of the same tokens can be "
        "compared",
        a.directory(), b.directory(), a.manifest().vocab_size,
        b.manifest().vocab_size);
  }
}

void RunCompare(const CompareFlags& flags, const CommonFlags& common) {
  const Manifest manifest = Manifest::Read(flags.reference);
  const int context =
      flags.context > 0
          ? flags.context
          : std::min({512, manifest.max_seq_len,
                      Manifest::Read(flags.candidate).max_seq_len});
  Model a(flags.reference, context, flags.threads);
  Model b(flags.candidate, context, flags.threads);
  CheckSameVocabulary(a, b);

  const std::unique_ptr<const Tokenizer> tokenizer =
      Tokenizer::Load(flags.reference, ErrorKind::kModel);
  std::vector<TokenId> ids = tokenizer->Encode(
      ReadFile(flags.text, ErrorKind::kUsage), /*add_special_tokens=*/false);
  if (flags.max_tokens > 0 &&
      static_cast<int64_t>(ids.size()) > flags.max_tokens) {
    ids.resize(flags.max_tokens);
  }
  if (ids.size() < 2) {
    throw UsageError("{}: {} tokens; at least two are needed to predict one",
                     flags.text, ids.size());
  }

  Totals totals;
  const size_t vocabulary = a.manifest().vocab_size;
  const size_t chunk = std::min(a.manifest().prefill_chunk_size,
                                b.manifest().prefill_chunk_size);
  const bool progress = !common.quiet && isatty(STDERR_FILENO) != 0;
  auto shown = std::chrono::steady_clock::now();
  // Windows of `context` tokens, each from an empty cache; the first token of a
  // window is not predicted.
  for (size_t window = 0; window + 1 < ids.size(); window += context) {
    const size_t end = std::min(ids.size(), window + context);
    for (size_t at = window; at + 1 < end; at += chunk) {
      const auto part = std::span(ids).subspan(at, std::min(chunk, end - at));
      const int position = static_cast<int>(at - window);
      const std::span<const float> left = a.Logits(part, position);
      const std::span<const float> right = b.Logits(part, position);
      for (size_t i = 0; i < part.size() && at + i + 1 < end; ++i) {
        Account(left.subspan(i * vocabulary, vocabulary),
                right.subspan(i * vocabulary, vocabulary), ids[at + i + 1],
                &totals);
      }
      const auto now = std::chrono::steady_clock::now();
      if (progress && now - shown > std::chrono::milliseconds(200)) {
        shown = now;
        ShowStatus(fmt::format("{:3.0f}%  {} tokens", 100.0 * at / ids.size(),
                               totals.tokens));
      }
    }
  }
  ClearStatus();

  const double count = static_cast<double>(totals.tokens);
  const double perplexity[2] = {std::exp(totals.loss[0] / count),
                                std::exp(totals.loss[1] / count)};
  const double mean =
      std::accumulate(totals.divergence.begin(), totals.divergence.end(), 0.0) /
      count;
  const double agreement = static_cast<double>(totals.same_top) / count;
  const double median = Quantile(totals.divergence, 0.5);
  const double p99 = Quantile(totals.divergence, 0.99);
  const double largest = Quantile(totals.divergence, 1.0);
  if (flags.json) {
    const OrderedJson facts = {
        {"reference", flags.reference},
        {"candidate", flags.candidate},
        {"tokens", totals.tokens},
        {"context", context},
        {"perplexity",
         {{"reference", perplexity[0]}, {"candidate", perplexity[1]}}},
        {"kl_divergence",
         {{"mean", mean}, {"p50", median}, {"p99", p99}, {"max", largest}}},
        {"top1_agreement", agreement}};
    fmt::print("{}\n", facts.dump());
    return;
  }
  const auto name = [](const Model& model) {
    return fmt::format("{} ({} weights, {} KV cache)", model.directory(),
                       model.manifest().weights, model.manifest().kv_caches);
  };
  fmt::print(
      "reference   {}\n"
      "candidate   {}\n"
      "text        {}: {} tokens predicted, in windows of {}\n"
      "perplexity  {:.4f} and {:.4f} ({:+.3f}%)\n"
      "divergence  mean {:.6f}, p50 {:.6f}, p99 {:.6f}, max {:.6f} nats a "
      "token\n"
      "same top 1  {:.2f}%\n",
      name(a), name(b), flags.text, totals.tokens, context, perplexity[0],
      perplexity[1], 100 * (perplexity[1] / perplexity[0] - 1), mean, median,
      p99, largest, 100 * agreement);
}

}  // namespace

void AddCompareCommand(CLI::App& app, const CommonFlags& common,
                       int& exit_code) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "Hold one compiled directory against another on a text: perplexity of "
      "both, divergence of what they predict.");
  command
      ->add_option("REFERENCE", flags->reference,
                   "Compiled directory to hold against")
      ->required();
  command
      ->add_option("CANDIDATE", flags->candidate,
                   "Compiled directory of the same model, such as a quantized "
                   "one")
      ->required();
  command->add_option("TEXT", flags->text, "Text file to predict")->required();
  command
      ->add_option("--context", flags->context,
                   "Tokens of one window; default 512, or what was compiled")
      ->check(WholeNumber(2, 1 << 30))
      ->type_name("N");
  command
      ->add_option("--max-tokens", flags->max_tokens,
                   "Tokens of the text to read; default all")
      ->check(WholeNumber(1))
      ->type_name("N");
  command
      ->add_option("--threads", flags->threads,
                   "Default: what affinity and cgroup grant")
      ->check(WholeNumber(1))
      ->type_name("N");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags, &common, &exit_code] {
    RunCompare(*flags, common);
    exit_code = 0;
  });
}

}  // namespace rbln
