#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "guide/guide_cache.h"

namespace rbln {
namespace {

// How many of the waiting sequences are looked at for one that can start now.
constexpr int kAdmissionWindow = 64;
// A sequence waits for another to compute a prefix that both have, if at least
// so many tokens are saved.
constexpr int kWorthWaiting = 32;

int CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<int>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

int Limit(const char* flag, int asked, int compiled, const char* parameter) {
  if (asked < 0) throw UsageError("{} must be at least 1, got {}", flag, asked);
  if (asked > compiled) {
    throw UsageError("{} {} is more than the model was compiled for: {} {}",
                     flag, asked, parameter, compiled);
  }
  return asked == 0 ? compiled : asked;
}

// The widest window of the layers; 0 where one attends to everything.
int WidestWindow(const Manifest& manifest) {
  int widest = 0;
  for (const int window : manifest.sliding_window) {
    if (window == 0) return 0;
    widest = std::max(widest, window);
  }
  return widest;
}

}  // namespace

EngineLimits ResolveLimits(const Manifest& manifest,
                           const EngineOptions& options) {
  const int max_rows =
      std::max(manifest.batch_size, manifest.prefill_chunk_size);
  return {Limit("--max-num-seqs", options.max_num_seqs, manifest.batch_size,
                "batch_size"),
          Limit("--max-model-len", options.max_model_len, manifest.max_seq_len,
                "max_seq_len"),
          Limit("--max-num-batched-tokens", options.max_num_batched_tokens,
                max_rows, "prefill_chunk_size")};
}

// What the sequences of a request share.
struct Engine::Group {
  Request request;
  std::vector<std::vector<TokenId>> bad_words;
  std::vector<TokenId> stop_ids;  // all that end it, for min_tokens
  Guide* guide = nullptr;         // acquired; null: none
  std::vector<TokenId> end_ids;   // those that end a guided text
  Finished result;
  int unfinished = 0;
  std::list<Group>::iterator place;  // in groups_
};

struct Engine::Sequence {
  Sequence(Group* group_in, int index_in, const Tokenizer& tokenizer)
      : group(group_in),
        index(index_in),
        tokens(group->request.prompt),
        text(tokenizer, group->request.params, group->request.prompt) {}

  const SamplingParams& params() const { return group->request.params; }
  int prompt_size() const {
    return static_cast<int>(group->request.prompt.size());
  }
  int size() const { return static_cast<int>(tokens.size()); }
  std::span<const TokenId> output() const {
    return std::span(tokens).subspan(group->request.prompt.size());
  }
  // Known tokens whose keys and values are not in the cache.
  int pending() const { return size() - computed; }
  bool decoding() const { return size() > prompt_size() && pending() == 1; }
  // Its prompt's log probabilities are collected by the first sequence.
  bool wants_prompt_logprobs() const {
    return index == 0 && params().prompt_logprobs.has_value();
  }

  Group* group;
  int index;
  int64_t arrival = 0;
  std::vector<TokenId> tokens;  // prompt and output
  int computed = 0;
  bool started = false;
  bool done = false;  // its group may be gone
  SequenceBlocks blocks;
  std::vector<std::string> store_names;  // of its first blocks
  OutputText text;
  std::unique_ptr<Guide::Cursor> guide;  // from the first token on
  Completion completion;  // its tokens and text are filled in at the end
  Clock::time_point last_event;
};

// The next `count` pending tokens of a sequence.
struct Engine::Scheduled {
  Sequence* sequence;
  int count;
};

Engine::Engine(Executor& executor, const Tokenizer& tokenizer,
               EngineOptions options)
    : executor_(executor),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      limits_(ResolveLimits(executor.manifest(), options_)),
      window_(WidestWindow(executor.manifest())),
      blocks_(executor.num_blocks(), executor.manifest().kvcache_block_size,
              options_.prefix_caching,
              [&executor](int from, int to, int tokens) {
                executor.CopyBlock(from, to, tokens);
              }),
      sampler_(executor.manifest().vocab_size),
      guides_(std::make_unique<GuideCache>(tokenizer,
                                           executor.manifest().vocab_size)) {
  const Manifest& manifest = executor.manifest();
  programs_ = manifest.decoder_batch_sizes;
  programs_.push_back(manifest.prefill_chunk_size);
  std::sort(programs_.begin(), programs_.end());
  programs_.erase(std::unique(programs_.begin(), programs_.end()),
                  programs_.end());
  if (options_.prefix_caching && !options_.prefix_cache.empty()) {
    if (executor.kv_fingerprint().empty()) {
      throw UsageError(
          "--prefix-cache: the KV cache of {} tensor parallel ranks cannot be "
          "kept; leave it out",
          manifest.tensor_parallel_size);
    }
    store_ = std::make_unique<PrefixStore>(options_.prefix_cache,
                                           options_.prefix_cache_bytes,
                                           executor.kv_fingerprint());
  }
  if (!options_.trace.empty()) {
    trace_ =
        std::make_unique<Trace>(options_.trace, manifest.decoder_batch_sizes,
                                manifest.prefill_chunk_size);
  }
}

Engine::~Engine() = default;

void EngineStats::Add(const EngineStats& other) {
  for (const auto& [rows, program] : other.programs) {
    ProgramStats& mine = programs[rows];
    mine.steps += program.steps;
    mine.rows += program.rows;
    mine.seconds += program.seconds;
  }
  prefill_tokens += other.prefill_tokens;
  decode_tokens += other.decode_tokens;
  prefill_seconds += other.prefill_seconds;
  decode_seconds += other.decode_seconds;
  sample_seconds += other.sample_seconds;
  prompt_tokens += other.prompt_tokens;
  completion_tokens += other.completion_tokens;
  cached_tokens += other.cached_tokens;
  disk_tokens += other.disk_tokens;
  preemptions += other.preemptions;
  peak_blocks += other.peak_blocks;
  first_token.Add(other.first_token);
  per_token.Add(other.per_token);
}

void Engine::Check(Request& request) const {
  const int vocab_size = executor_.manifest().vocab_size;
  Normalize(request.params, vocab_size);
  const int size = static_cast<int>(request.prompt.size());
  if (size == 0) throw UsageError("the prompt is empty: it has no token");
  if (size >= limits_.max_model_len) {
    throw UsageError(
        "the prompt is too long: {} tokens, and max_model_len {} leaves room "
        "for {} and an answer",
        size, limits_.max_model_len, limits_.max_model_len - 1);
  }
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= vocab_size) {
      throw UsageError("the prompt has token id {}; they go from 0 to {}", id,
                       vocab_size - 1);
    }
  }
  const int most = limits_.max_model_len - size;
  const int max_tokens =
      std::min(request.params.max_tokens.value_or(most), most);
  request.params.max_tokens = max_tokens;
  // The last token generated is never computed.
  const int needed = PeakBlocks(size + max_tokens - 1);
  if (needed > blocks_.num_blocks()) {
    throw UsageError(
        "prompt and max_tokens can never fit: {} tokens take {} KV cache "
        "blocks of {}, and there are {}",
        size + max_tokens, needed, executor_.manifest().kvcache_block_size,
        blocks_.num_blocks());
  }

  BadWordTokens(request.params.bad_words, tokenizer_);
  // Kept for a while, for when the request is added.
  if (request.params.guide) {
    guides_->Release(guides_->Acquire(*request.params.guide));
  }
}

void Engine::Add(Request request) {
  Check(request);
  const int vocab_size = executor_.manifest().vocab_size;
  const int size = static_cast<int>(request.prompt.size());
  Group group;
  group.bad_words = BadWordTokens(request.params.bad_words, tokenizer_);
  group.stop_ids = request.params.stop_token_ids;
  group.stop_ids.insert(group.stop_ids.end(), options_.eos_token_ids.begin(),
                        options_.eos_token_ids.end());
  std::erase_if(group.stop_ids,
                [&](TokenId id) { return id < 0 || id >= vocab_size; });
  if (request.params.guide) {
    group.guide = guides_->Acquire(*request.params.guide);
    group.end_ids = group.stop_ids;
    if (request.params.ignore_eos) {
      const std::vector<TokenId>& ids = request.params.stop_token_ids;
      std::erase_if(group.end_ids, [&](TokenId id) {
        return std::find(ids.begin(), ids.end(), id) == ids.end();
      });
    }
  }
  group.result.id = request.id;
  group.result.prompt_tokens = size;
  group.result.completions.resize(request.params.n);
  group.unfinished = request.params.n;
  group.request = std::move(request);
  stats_.prompt_tokens += size;
  const auto place = groups_.insert(groups_.end(), std::move(group));
  place->place = place;
  for (int i = 0; i < place->request.params.n; ++i) {
    waiting_.push_back(std::make_unique<Sequence>(&*place, i, tokenizer_));
    waiting_.back()->arrival = arrivals_++;
  }
}

bool Engine::Step(std::vector<Finished>& finished) {
  Admit();
  const std::vector<Scheduled> plan = Schedule();
  if (plan.empty()) return false;
  Run(plan, finished);
  return true;
}

// The last known token is computed in any case: its logits are what comes next.
// Prompt tokens whose log probabilities are still to be collected are, too.
int Engine::ReusableLimit(const Sequence& sequence) const {
  const int collected =
      static_cast<int>(sequence.group->result.prompt_logprobs.size());
  const bool collecting = sequence.wants_prompt_logprobs() &&
                          collected + 1 < sequence.prompt_size();
  return collecting ? collected : sequence.size() - 1;
}

int Engine::PeakBlocks(int num_tokens) const {
  const int all = blocks_.BlocksFor(num_tokens);
  if (window_ == 0) return all;
  // A window and the rows of a step; it need not begin where a block does.
  return std::min(
      all, blocks_.BlocksFor(window_ - 1 + limits_.max_num_batched_tokens) + 1);
}

int Engine::OwedBlocks(const Sequence& sequence) const {
  const int held = static_cast<int>(sequence.blocks.blocks.size()) -
                   sequence.blocks.released;
  return std::max(0, PeakBlocks(sequence.size()) - held);
}

bool Engine::CanAdmit(const Sequence& sequence, int owed) const {
  const int needed = PeakBlocks(sequence.size());
  const int free = blocks_.num_free() - owed;
  // Only where memory is short does it matter what others hold already.
  return needed <= free ||
         std::max(
             0, needed - blocks_.Match(sequence.tokens, ReusableLimit(sequence))
                             .held_blocks) <= free;
}

bool Engine::WaitsForPrefix(const Sequence& sequence) const {
  if (!options_.prefix_caching) return false;
  const int limit = ReusableLimit(sequence);
  if (limit < kWorthWaiting) return false;
  int best = 0;
  for (const auto& other : running_) {
    if (other->decoding()) continue;
    best = std::max(
        best, std::min(limit, CommonPrefix(other->tokens, sequence.tokens)));
  }
  return best >= kWorthWaiting &&
         best - blocks_.Match(sequence.tokens, limit).tokens >= kWorthWaiting;
}

const std::string& Engine::StoreName(Sequence& sequence, int block) {
  const int size = executor_.manifest().kvcache_block_size;
  std::vector<std::string>& names = sequence.store_names;
  while (static_cast<int>(names.size()) <= block) {
    const std::span<const TokenId> tokens = sequence.tokens;
    names.push_back(store_->Name(names.empty() ? "" : names.back(),
                                 tokens.subspan(names.size() * size, size)));
  }
  return names[block];
}

void Engine::LoadPrefix(Sequence& sequence) {
  if (store_ == nullptr) return;
  const int size = executor_.manifest().kvcache_block_size;
  const int limit = std::min(ReusableLimit(sequence), sequence.prompt_size());
  while (true) {
    const int block = sequence.computed / size;
    const int end = (block + 1) * size;
    // A block of which a part was reused is a copy, or nobody else's.
    if (end > limit || !blocks_.Grow(end, sequence.blocks) ||
        !store_->Load(StoreName(sequence, block),
                      executor_.BlockBytes(sequence.blocks.blocks[block]))) {
      return;
    }
    blocks_.Commit(sequence.tokens, sequence.computed, end, sequence.blocks);
    stats_.disk_tokens += end - sequence.computed;
    sequence.computed = end;
    ReleasePassed(sequence);
  }
}

void Engine::SavePrefix(Sequence& sequence, int begin, int end) {
  if (store_ == nullptr) return;
  const int size = executor_.manifest().kvcache_block_size;
  const int last = std::min(end, sequence.prompt_size()) / size;
  for (int block = begin / size; block < last; ++block) {
    store_->Save(StoreName(sequence, block),
                 executor_.BlockBytes(sequence.blocks.blocks[block]));
  }
}

void Engine::ReleasePassed(Sequence& sequence) {
  if (window_ == 0) return;
  blocks_.ReleaseBefore(std::max(0, sequence.computed + 1 - window_),
                        sequence.blocks);
}

void Engine::Admit() {
  if (waiting_.empty() || num_running() >= limits_.max_num_seqs) return;
  int owed = 0;  // to those that run
  for (const auto& sequence : running_) owed += OwedBlocks(*sequence);
  int looked_at = 0;
  for (auto at = waiting_.begin();
       at != waiting_.end() && num_running() < limits_.max_num_seqs &&
       looked_at < kAdmissionWindow;
       ++looked_at) {
    Sequence& sequence = **at;
    if (WaitsForPrefix(sequence)) {
      ++at;
      continue;
    }
    // Nobody overtakes a sequence for which there is no memory yet.
    if (!running_.empty() && !CanAdmit(sequence, owed)) break;
    sequence.computed = blocks_.Reuse(sequence.tokens, ReusableLimit(sequence),
                                      sequence.blocks);
    ReleasePassed(sequence);
    LoadPrefix(sequence);
    if (!sequence.started) {
      sequence.started = true;
      sequence.last_event = Clock::now();
      stats_.cached_tokens += sequence.computed;
      if (sequence.index == 0) {
        sequence.group->result.cached_tokens = sequence.computed;
      }
    }
    owed += OwedBlocks(sequence);
    const auto place =
        std::upper_bound(running_.begin(), running_.end(), sequence.arrival,
                         [](int64_t arrival, const auto& other) {
                           return arrival < other->arrival;
                         });
    running_.insert(place, std::move(*at));
    at = waiting_.erase(at);
  }
}

std::vector<Engine::Scheduled> Engine::Schedule() {
  std::vector<Scheduled> plan;
  int rows = 0;
  for (const bool decoding : {true, false}) {
    // Where one is preempted, it is the last: places before it stay.
    for (size_t i = 0; i < running_.size(); ++i) {
      Sequence* const sequence = running_[i].get();
      if (sequence->decoding() != decoding) continue;
      const int count =
          std::min(sequence->pending(), limits_.max_num_batched_tokens - rows);
      if (count <= 0) continue;
      if (!MakeRoom(sequence, count, plan)) continue;
      plan.push_back({sequence, count});
      rows = 0;
      for (const Scheduled& scheduled : plan) rows += scheduled.count;
    }
  }
  return plan;
}

bool Engine::MakeRoom(Sequence* sequence, int count,
                      std::vector<Scheduled>& plan) {
  while (!blocks_.Grow(sequence->computed + count, sequence->blocks)) {
    Sequence* youngest = running_.back().get();
    std::erase_if(plan, [&](const Scheduled& scheduled) {
      return scheduled.sequence == youngest;
    });
    Preempt(youngest);
    if (youngest == sequence) return false;
  }
  return true;
}

void Engine::Preempt(Sequence* sequence) {
  ++stats_.preemptions;
  blocks_.Release(sequence->blocks);
  sequence->computed = 0;
  // Preempted ones are older than all that never ran, or than most: the queue
  // stays in order of arrival.
  const auto place = std::find_if(
      waiting_.begin(), waiting_.end(),
      [&](const auto& other) { return other->arrival > sequence->arrival; });
  const auto at =
      std::find_if(running_.begin(), running_.end(),
                   [&](const auto& other) { return other.get() == sequence; });
  waiting_.insert(place, std::move(*at));
  running_.erase(at);
}

int Engine::ProgramFor(int rows) const {
  return *std::lower_bound(programs_.begin(), programs_.end(), rows);
}

void Engine::Run(const std::vector<Scheduled>& plan,
                 std::vector<Finished>& finished) {
  std::vector<Row> rows;
  std::vector<BlockTable> tables;
  int decode_rows = 0;
  for (const auto& [sequence, count] : plan) {
    if (sequence->decoding()) ++decode_rows;
    for (int i = 0; i < count; ++i) {
      const int position = sequence->computed + i;
      const bool last = position + 1 == sequence->size();
      const bool scored =
          sequence->wants_prompt_logprobs() &&
          position + 1 < sequence->prompt_size() &&
          position >=
              static_cast<int>(sequence->group->result.prompt_logprobs.size());
      rows.push_back({sequence->tokens[position], position,
                      static_cast<int32_t>(tables.size()), last || scored});
    }
    tables.push_back(sequence->blocks.blocks);
  }

  const int num_rows = static_cast<int>(rows.size());
  const int program = ProgramFor(num_rows);
  const Clock::time_point start = Clock::now();
  const std::span<const float> logits = executor_.Step(program, rows, tables);
  const Clock::time_point computed = Clock::now();
  const double seconds =
      std::chrono::duration<double>(computed - start).count();
  ProgramStats& stats = stats_.programs[program];
  ++stats.steps;
  stats.rows += num_rows;
  stats.seconds += seconds;
  stats_.decode_tokens += decode_rows;
  stats_.prefill_tokens += num_rows - decode_rows;
  stats_.decode_seconds += seconds * decode_rows / num_rows;
  stats_.prefill_seconds += seconds * (num_rows - decode_rows) / num_rows;
  stats_.peak_blocks = std::max<int64_t>(
      stats_.peak_blocks, blocks_.num_blocks() - blocks_.num_free());

  const size_t vocab_size = executor_.manifest().vocab_size;
  size_t at = 0;
  size_t row = 0;
  for (const auto& [sequence, count] : plan) {
    const int begin = sequence->computed;
    blocks_.Commit(sequence->tokens, begin, begin + count, sequence->blocks);
    SavePrefix(*sequence, begin, begin + count);
    sequence->computed += count;
    ReleasePassed(*sequence);
    bool done = false;
    for (int i = 0; i < count; ++i, ++row) {
      if (!rows[row].logits) continue;
      const auto values = logits.subspan(vocab_size * at++, vocab_size);
      const int next = begin + i + 1;
      if (next < sequence->size()) {
        sequence->group->result.prompt_logprobs.push_back(
            Logprobs(values, sequence->tokens[next],
                     *sequence->params().prompt_logprobs));
      } else {
        done = Advance(*sequence, values, computed);
      }
    }
    if (done) Finish(*sequence, finished);
  }
  std::erase_if(running_, [](const auto& sequence) { return sequence->done; });
  stats_.sample_seconds +=
      std::chrono::duration<double>(Clock::now() - computed).count();
  if (trace_ != nullptr) {
    trace_->Step({program, start, computed, decode_rows, num_rows - decode_rows,
                  num_running(), num_waiting(), blocks_.num_free(),
                  stats_.preemptions});
  }
}

bool Engine::Advance(Sequence& sequence, std::span<const float> logits,
                     Clock::time_point now) {
  const Request& request = sequence.group->request;
  const SamplingParams& params = request.params;
  Completion& completion = sequence.completion;
  SamplingState state;
  state.params = &params;
  state.seed = params.seed ? static_cast<uint64_t>(*params.seed) : request.seed;
  state.sequence = sequence.index;
  state.prompt = request.prompt;
  state.output = sequence.output();
  state.stop_ids = sequence.group->stop_ids;
  state.bad_words = sequence.group->bad_words;
  if (Guide* const guide = sequence.group->guide; guide != nullptr) {
    if (sequence.guide == nullptr) {
      sequence.guide =
          std::make_unique<Guide::Cursor>(*guide, sequence.text.at_start());
    }
    try {
      state.allowed = &sequence.guide->Allowed();
    } catch (const Error& error) {
      Fail(sequence, error.what());
      return true;
    }
    state.may_end = sequence.guide->MayEnd();
    state.end_ids = sequence.group->end_ids;
  }
  const TokenId token = sampler_.Sample(logits, state);
  if (token == kNoToken) {
    if (state.may_end) {
      // Nothing may follow, and no token says so.
      completion.finish_reason = "stop";
      sequence.text.Finish();
    } else {
      Fail(sequence,
           "no token of the vocabulary that the other parameters allow goes on "
           "as it must");
    }
    return true;
  }
  if (params.logprobs) {
    completion.logprobs.push_back(Logprobs(logits, token, *params.logprobs));
  }
  sequence.tokens.push_back(token);
  const int generated = static_cast<int>(sequence.output().size());

  const double waited =
      std::chrono::duration<double>(now - sequence.last_event).count();
  (generated == 1 ? stats_.first_token : stats_.per_token).Add(waited);
  sequence.last_event = now;

  const std::vector<TokenId>& eos = options_.eos_token_ids;
  bool stopped = false;
  if (generated >= params.min_tokens || sequence.guide != nullptr) {
    const bool is_eos = std::find(eos.begin(), eos.end(), token) != eos.end();
    const auto& ids = params.stop_token_ids;
    if (is_eos && !params.ignore_eos) {
      stopped = true;
      if (token != eos.front()) completion.stop_reason = token;
    } else if (std::find(ids.begin(), ids.end(), token) != ids.end()) {
      stopped = true;
      completion.stop_reason = token;
    }
  }
  if (sequence.guide != nullptr && !stopped) {
    try {
      sequence.guide->Push(token);
    } catch (const Error& error) {
      Fail(sequence, error.what());
      return true;
    }
  }
  // The token that stops a sequence is not part of its text, unless asked for.
  if (!stopped || params.include_stop_str_in_output) {
    if (std::optional<std::string> stop = sequence.text.Push(token)) {
      completion.stop_reason = std::move(*stop);
      completion.finish_reason = "stop";
      return true;
    }
  }
  const bool full = generated >= *params.max_tokens;
  if (!stopped && !full) return false;
  completion.finish_reason = stopped ? "stop" : "length";
  sequence.text.Finish();
  return true;
}

void Engine::Fail(Sequence& sequence, const std::string& problem) {
  Group& group = *sequence.group;
  sequence.completion.finish_reason = "error";
  sequence.text.Finish();
  if (!group.result.error.empty()) return;
  // The end of what there is so far: of characters, not within one.
  constexpr size_t kShown = 60;
  const std::string& text = sequence.text.text();
  size_t begin = text.size() - std::min(text.size(), kShown);
  while (begin < text.size() && (text[begin] & 0xC0) == 0x80) ++begin;
  group.result.error = fmt::format(
      "{}: {} (after {} tokens, behind '{}')", group.request.params.guide->name,
      problem, sequence.output().size(), text.substr(begin));
}

void Engine::Finish(Sequence& sequence, std::vector<Finished>& finished) {
  blocks_.Release(sequence.blocks);
  Group& group = *sequence.group;
  const std::span<const TokenId> output = sequence.output();
  stats_.completion_tokens += static_cast<int64_t>(output.size());
  sequence.completion.tokens.assign(output.begin(), output.end());
  sequence.completion.text = sequence.text.Take();
  group.result.completions[sequence.index] = std::move(sequence.completion);
  sequence.done = true;
  if (--group.unfinished == 0) {
    if (group.guide != nullptr) guides_->Release(group.guide);
    finished.push_back(std::move(group.result));
    groups_.erase(group.place);
  }
}

}  // namespace rbln
