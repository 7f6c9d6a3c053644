// A compiled directory, loaded, and one step of its programs.
//
// A program processes up to `rows` token rows at once; a row is one token of
// one sequence at one position. A decoder is a program with few rows, prefill
// one with many; nothing else differs. A row attends to the positions up to and
// including its own that are in its sequence's KV cache, among them those of
// earlier rows of the same step: so one sequence may bring many rows, in
// ascending positions, and several sequences may share a step.
//
// A row's logits are the same bits whichever program ran it, whatever else was
// in the step, and for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "artifact/manifest.h"
#include "base/error.h"
#include "runtime/transport.h"

namespace rbln {

// One token of one sequence.
struct Row {
  int32_t token;
  int32_t position;  // from 0; < manifest.max_seq_len
  int32_t sequence;  // index into the step's block tables
  bool logits;       // whether the logits after this token are wanted
};

// The KV cache blocks of a sequence, in order of position: position p lies in
// blocks[p / kvcache_block_size]. Covers at least the last row's position. What
// lies before the window of every layer may be any block: it is read at most to
// be masked.
using BlockTable = std::span<const int32_t>;

// Runs steps. Not thread safe: one caller at a time. An interface, so that the
// engine can be tested on a model of a model.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual const Manifest& manifest() const = 0;
  // Number of KV cache blocks; block ids are 0 .. num_blocks - 1.
  virtual int num_blocks() const = 0;
  virtual int threads() const { return 1; }

  // Runs `rows` through the program of `program_rows` rows (one of
  // manifest().decoder_batch_sizes, or manifest().prefill_chunk_size).
  // 1 <= rows.size() <= program_rows. Returns the logits of the rows that
  // asked, in row order, (number asked, vocab_size) float32, valid until the
  // next Step. Ids and positions must be in range (checked; throws
  // std::logic_error, since the caller is at fault).
  virtual std::span<const float> Step(int program_rows,
                                      std::span<const Row> rows,
                                      std::span<const BlockTable> tables) = 0;

  // From now on each Step fills `seconds` with the time that each operation of
  // its program took, in their order; null ends that.
  virtual void Profile(std::vector<double>* seconds) {}

  // Copies the first `tokens` positions of a KV cache block, for copy-on-write.
  virtual void CopyBlock(int from, int to, int tokens) = 0;

  // Where this is not rank 0: does what rank 0's executor does, until that is
  // destroyed.
  virtual void Follow() {}

  // The content of a KV cache block, to be kept and put back, and what its bits
  // depend on beside the tokens up to its end: the artifact and the instruction
  // set. Empty where blocks cannot be kept.
  virtual std::span<std::byte> BlockBytes(int) { return {}; }
  virtual std::string kv_fingerprint() const { return ""; }
};

struct RuntimeOptions {
  int threads = 0;  // 0: what base/cpu.h grants
  // KV cache blocks; 0: the manifest's number, or else enough for batch_size
  // full sequences, or as many as fit in memory.
  int num_blocks = 0;
  // Bytes of memory to stay under; 0: of what base/cpu.h calls available the
  // share of one of so many processes.
  uint64_t memory_limit = 0;
  int processes = 1;
  // Check the weights' checksum too before running (reads all of them). Every
  // other file is always checked.
  bool verify = false;
  // Where not null, the other tensor parallel ranks are in other processes, and
  // this one has the transport's. Must outlive the executor. All ranks must be
  // given the same num_blocks.
  Transport* transport = nullptr;
};

// What running a compiled directory takes, and how the number of KV cache
// blocks came about.
struct MemoryPlan {
  // All of it of the ranks in this process.
  uint64_t weights_bytes = 0;  // mapped, shared through the page cache
  uint64_t kv_block_bytes = 0;
  int num_blocks = 0;
  int wanted_blocks = 0;      // for batch_size full sequences
  std::string blocks_reason;  // the arithmetic behind num_blocks
  uint64_t arena_bytes = 0;   // values of one step, and scratch
  uint64_t available_bytes = 0;
  std::string available_reason;

  uint64_t kv_bytes() const { return kv_block_bytes * num_blocks; }
  uint64_t total_bytes() const {
    return weights_bytes + kv_bytes() + arena_bytes;
  }
};
// Checks every file as LoadModel does, but takes no memory. Throws as LoadModel
// does, Error(kResource) among them where not even one full sequence fits.
MemoryPlan PlanMemory(const std::string& directory,
                      const RuntimeOptions& options);

// Loads a compiled directory. Every file is held against the manifest's
// checksum, but for the weights, which are mapped, not read: of them size and
// header are checked, and damage to their content is for `verify` to find.
// Throws Error(kModel) when it cannot be used (missing, corrupt, of another
// version, for an ISA this machine lacks) and Error(kResource) when memory is
// short. `say`, if any, is told the plan before memory is taken.
std::unique_ptr<Executor> LoadModel(
    const std::string& directory, const RuntimeOptions& options,
    const std::function<void(const MemoryPlan&)>& say = {});

}  // namespace rbln
