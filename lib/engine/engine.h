// Requests in, tokens out.
//
// At every step the engine decides which rows to run: one for each sequence
// that is decoding, and behind them as many prompt tokens of the sequences that
// are not so far yet as the prefill program has room for (a long prompt comes
// in chunks, short ones are packed together). So a long prompt never stalls the
// sequences that run, and they do not stall it. The smallest program that has
// room for the rows runs them: the smallest decoder that fits when nothing is
// left to prefill, as at the tail of a job.
//
// Sequences take KV cache blocks as they grow, and give back those that every
// layer's sliding window has passed (a block holds all layers: one layer that
// attends to everything keeps them all). When none is left, the youngest
// sequence gives its blocks back, waits, and is later computed again. None of
// this shows in the output: a row's logits do not depend on the step it was in,
// and a choice of a token depends only on the logits, the tokens before and the
// request's seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/block_manager.h"
#include "engine/output_text.h"
#include "engine/prefix_store.h"
#include "engine/quantiles.h"
#include "engine/sampler.h"
#include "engine/sampling_params.h"
#include "engine/trace.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"

namespace rbln {

class GuideCache;

struct EngineOptions {
  // The most sequences in work at once, and the most tokens of one, prompt
  // included; 0: what was compiled for. More is an error.
  int max_num_seqs = 0;
  int max_model_len = 0;
  // The most rows of one step; 0: what was compiled for.
  int max_num_batched_tokens = 0;
  bool prefix_caching = true;
  // A directory in which the blocks of prompts are kept between runs, and its
  // most bytes; empty: none. Needs prefix_caching.
  std::string prefix_cache;
  uint64_t prefix_cache_bytes = uint64_t{8} << 30;
  std::string trace;  // file for a trace of the steps; empty: none
  // Tokens that end a sequence. The first is the EOS token proper: others are
  // named in stop_reason.
  std::vector<TokenId> eos_token_ids;
};

// The limits in force.
struct EngineLimits {
  int max_num_seqs;
  int max_model_len;
  int max_num_batched_tokens;
};
// Throws Error(kUsage) when the options ask for more than was compiled.
EngineLimits ResolveLimits(const Manifest& manifest,
                           const EngineOptions& options);

struct Request {
  int64_t id = 0;  // the caller's, returned with the result
  std::vector<TokenId> prompt;
  SamplingParams params;
  uint64_t seed = 0;  // where params.seed says nothing
};

// One of the n answers to a request.
struct Completion {
  std::vector<TokenId> tokens;
  std::string text;
  std::string finish_reason;  // "stop", "length"
  // The stop string or token that ended it; neither for EOS.
  std::variant<std::monostate, TokenId, std::string> stop_reason;
  std::vector<PositionLogprobs> logprobs;  // one a token, where asked for
};

struct Finished {
  int64_t id = 0;
  int prompt_tokens = 0;
  // Prompt tokens that were found in the KV cache, of the first completion.
  int cached_tokens = 0;
  std::vector<Completion> completions;  // n of them
  // For the prompt's tokens from the second on, where asked for.
  std::vector<PositionLogprobs> prompt_logprobs;
  // Why there is no answer; empty: there is. Only guides can come to this.
  std::string error;
};

struct ProgramStats {
  int64_t steps = 0;
  int64_t rows = 0;
  double seconds = 0;
};

struct EngineStats {
  std::map<int, ProgramStats> programs;  // by their rows
  int64_t prefill_tokens = 0;  // computed, those computed again among them
  int64_t decode_tokens = 0;
  // Time of the steps, shared out by rows where a step did both.
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double sample_seconds = 0;
  int64_t prompt_tokens = 0;      // of the requests
  int64_t completion_tokens = 0;  // of their answers
  int64_t cached_tokens = 0;      // of prompts, found instead of computed
  int64_t disk_tokens = 0;        // read from the prefix cache on disk
  int64_t preemptions = 0;
  int64_t peak_blocks = 0;
  Quantiles first_token;  // from a sequence's first step to its first token
  Quantiles per_token;    // between two tokens of a sequence

  // Makes it the figures of both.
  void Add(const EngineStats& other);
};

// Not thread safe.
class Engine {
 public:
  // `executor` and `tokenizer` must outlive the engine. Throws as
  // ResolveLimits does, and Error(kResource) where the prefix cache or the
  // trace cannot be written.
  Engine(Executor& executor, const Tokenizer& tokenizer, EngineOptions options);
  ~Engine();

  // Brings the request to normal form. Throws Error(kUsage) when it can never
  // run: a bad parameter, no prompt, or one that is too long, or a guide that
  // cannot be followed.
  void Check(Request& request) const;
  // Takes a request, having checked it.
  void Add(Request request);
  // Runs one step and appends the requests that it finished to `finished`.
  // False when there was nothing to do.
  bool Step(std::vector<Finished>& finished);

  int num_running() const { return static_cast<int>(running_.size()); }
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  const EngineLimits& limits() const { return limits_; }
  const EngineStats& stats() const { return stats_; }
  const BlockManager& blocks() const { return blocks_; }

 private:
  struct Group;
  struct Sequence;
  struct Scheduled;
  using Clock = std::chrono::steady_clock;

  void Admit();
  // Blocks that a sequence still needs for the tokens it knows.
  int OwedBlocks(const Sequence& sequence) const;
  // Whether there is memory for it beside the `owed` blocks of those running.
  bool CanAdmit(const Sequence& sequence, int owed) const;
  bool WaitsForPrefix(const Sequence& sequence) const;
  int ReusableLimit(const Sequence& sequence) const;
  // The most blocks that a sequence holds at once while it grows to so many
  // tokens.
  int PeakBlocks(int num_tokens) const;
  // Fills blocks behind those that were reused from the disk.
  void LoadPrefix(Sequence& sequence);
  // Keeps those blocks on disk that tokens [begin, end) of a prompt made full.
  void SavePrefix(Sequence& sequence, int begin, int end);
  // The name on disk of a sequence's block.
  const std::string& StoreName(Sequence& sequence, int block);
  // Gives back the blocks that every window has passed.
  void ReleasePassed(Sequence& sequence);
  std::vector<Scheduled> Schedule();
  // Gives `sequence` blocks for `count` more tokens, preempting younger ones.
  // False when it had to be preempted itself.
  bool MakeRoom(Sequence* sequence, int count, std::vector<Scheduled>& plan);
  void Preempt(Sequence* sequence);
  int ProgramFor(int rows) const;
  void Run(const std::vector<Scheduled>& plan, std::vector<Finished>& finished);
  // Takes the next token of a sequence from its logits, which were computed at
  // `now`. True at its end.
  bool Advance(Sequence& sequence, std::span<const float> logits,
               Clock::time_point now);
  // Ends a sequence that cannot go on as its guide wants.
  void Fail(Sequence& sequence, const std::string& problem);
  // Marks a sequence as done; Run then drops those that are.
  void Finish(Sequence& sequence, std::vector<Finished>& finished);

  Executor& executor_;
  const Tokenizer& tokenizer_;
  const EngineOptions options_;
  const EngineLimits limits_;
  std::vector<int> programs_;  // rows, ascending
  const int window_;           // no layer looks back further; 0: one does
  BlockManager blocks_;
  Sampler sampler_;
  // What it works out is nobody's state.
  std::unique_ptr<GuideCache> guides_;
  std::unique_ptr<PrefixStore> store_;
  std::unique_ptr<Trace> trace_;
  int64_t arrivals_ = 0;
  std::list<Group> groups_;
  // Both in order of arrival.
  std::list<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  EngineStats stats_;
};

}  // namespace rbln
