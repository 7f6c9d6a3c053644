// A model of a model. What it keeps at a place of the KV cache depends on every
// token up to there, and its logits on every place up to their row: whoever
// reads a stale, foreign or missing block gets other tokens.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/runtime.h"

namespace rbln {

// Rounds of a soak test: RBLN_SOAK_ROUNDS, or few.
inline int SoakRounds(int few) {
  const char* rounds = std::getenv("RBLN_SOAK_ROUNDS");
  return rounds == nullptr ? few : std::max(1, std::atoi(rounds));
}

inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15 + b + 0x632BE59BD9B4E019;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

class FakeExecutor : public Executor {
 public:
  struct StepRecord {
    int program_rows;
    int rows;
  };

  explicit FakeExecutor(Manifest manifest, int num_blocks)
      : manifest_(std::move(manifest)),
        num_blocks_(num_blocks),
        cells_(static_cast<size_t>(num_blocks) * manifest_.kvcache_block_size) {
  }

  static Manifest MakeManifest(std::vector<int> decoders, int block_size,
                               int max_seq_len, int chunk, int vocab_size) {
    Manifest manifest;
    manifest.vocab_size = vocab_size;
    manifest.decoder_batch_sizes = std::move(decoders);
    manifest.batch_size = manifest.decoder_batch_sizes.front();
    manifest.kvcache_block_size = block_size;
    manifest.max_seq_len = max_seq_len;
    manifest.prefill_chunk_size = chunk;
    return manifest;
  }

  const Manifest& manifest() const override { return manifest_; }
  int num_blocks() const override { return num_blocks_; }

  std::span<const float> Step(int program_rows, std::span<const Row> rows,
                              std::span<const BlockTable> tables) override {
    if (rows.empty() || static_cast<int>(rows.size()) > program_rows) {
      throw std::logic_error("rows do not fit the program");
    }
    steps.push_back({program_rows, static_cast<int>(rows.size())});
    logits_.clear();
    std::set<size_t> written;
    for (const Row& row : rows) {
      const BlockTable table = tables[row.sequence];
      const auto cell = [&](int position) -> size_t {
        const int block = table[position / manifest_.kvcache_block_size];
        if (block < 0 || block >= num_blocks_) {
          throw std::logic_error("no such block");
        }
        return static_cast<size_t>(block) * manifest_.kvcache_block_size +
               position % manifest_.kvcache_block_size;
      };
      const uint64_t before =
          row.position == 0 ? 1 : cells_[cell(row.position - 1)];
      const size_t at = cell(row.position);
      if (!written.insert(at).second) {
        throw std::logic_error("two rows write one place");
      }
      cells_[at] = Mix(Mix(before, row.token), row.position);
      if (row.logits) {
        uint64_t state = 0;
        const std::vector<int>& windows = manifest_.sliding_window;
        const bool all =
            std::find(windows.begin(), windows.end(), 0) != windows.end();
        const int window =
            windows.empty() || all
                ? 0
                : *std::max_element(windows.begin(), windows.end());
        const int first =
            window == 0 ? 0 : std::max(0, row.position + 1 - window);
        for (int i = first; i <= row.position; ++i) {
          state = Mix(state, cells_[cell(i)]);
        }
        AppendLogits(state);
      }
    }
    return logits_;
  }

  void CopyBlock(int from, int to, int tokens) override {
    ++copies;
    const auto size = manifest_.kvcache_block_size;
    std::copy_n(cells_.begin() + static_cast<ptrdiff_t>(from) * size, tokens,
                cells_.begin() + static_cast<ptrdiff_t>(to) * size);
  }

  std::span<std::byte> BlockBytes(int block) override {
    const size_t size = manifest_.kvcache_block_size;
    return std::as_writable_bytes(
        std::span(cells_).subspan(block * size, size));
  }
  std::string kv_fingerprint() const override { return "fake"; }

  std::vector<StepRecord> steps;
  int copies = 0;
  // The token of this id is the most likely one in one of so many rows.
  TokenId eos = -1;
  int eos_every = 24;

 private:
  void AppendLogits(uint64_t state) {
    const size_t start = logits_.size();
    logits_.resize(start + manifest_.vocab_size);
    uint64_t x = state;
    for (size_t i = start; i < logits_.size(); ++i) {
      x = x * 6364136223846793005 + 1442695040888963407;
      logits_[i] = static_cast<float>(x >> 40) * 0x1p-21f;
    }
    if (eos >= 0) {
      logits_[start + eos] = state % eos_every == 0 ? 10.0f : -10.0f;
    }
  }

  Manifest manifest_;
  int num_blocks_;
  std::vector<uint64_t> cells_;
  std::vector<float> logits_;
};

}  // namespace rbln
