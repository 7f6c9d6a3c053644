// One program of one rank, bound: operations with pointers instead of indices.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "artifact/program.h"
#include "artifact/weights.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "runtime/runtime.h"
#include "runtime/transport.h"

namespace rbln {

// Where the threads that run a step meet.
struct Meeting {
  Barrier* rank;  // those of this rank
  Barrier* all;   // those of all ranks in this process
};

// Whether ranks in several processes that sum so many bytes sum a share each
// and tell each other the sums: two messages instead of one, but fewer bytes.
bool SumsInShares(int ranks, uint64_t bytes);

// What a step works on; owned by the executor, shared by its programs.
struct StepMemory {
  std::byte* arena = nullptr;
  std::byte* kv_cache = nullptr;
  // One piece a thread, for kernels.
  std::vector<float*> scratch;
};

// A program whose operations point into the weights and the arena. A step is
// Begin on one thread and then Run on all threads of the rank; the ranks' steps
// run beside each other, in lockstep where they exchange what they computed.
class BoundProgram {
 public:
  // `weights` and `memory` must outlive this object. Throws Error(kModel) where
  // the weights do not have what the program wants.
  BoundProgram(const ProgramT& program, const PackedWeights& weights,
               const KernelTable& kernels, const StepMemory& memory);

  // Before the first step: the same program of every rank, in their order, all
  // in this process.
  void Connect(std::span<const std::unique_ptr<BoundProgram>> ranks);
  // Or: the other ranks are reached by `transport`, and what comes from rank r
  // goes to inbox[r], of ExchangeBytes each; the own one is used too. Both must
  // outlive this object.
  void Connect(Transport& transport, std::span<std::byte* const> inbox);

  int rows() const { return rows_; }
  // Floats of scratch that each thread needs.
  static int64_t ScratchFloats(const ProgramT& program);
  // The most bytes that a rank sends another at once.
  static uint64_t ExchangeBytes(const ProgramT& program);

  // Starts a step on `threads` threads. `rows` and `tables` as in
  // Executor::Step, checked by it; they must last until the step ends.
  void Begin(std::span<const Row> rows, std::span<const BlockTable> tables,
             int threads);
  // Runs the step on thread `thread`. Where `seconds` is not null, thread 0
  // fills it with the time of each operation.
  void Run(int thread, const Meeting& meeting, std::vector<double>* seconds);
  // After it: the logits, (wanted, stride) floats; of rank 0.
  struct Logits {
    float* data;
    int count;
    int64_t stride;
  };
  Logits logits() const;

 private:
  struct Value {
    std::byte* data;
    uint64_t row_bytes;
    int columns;
    RowKind row_kind;
    Format format;
  };
  struct Op {
    OpKind kind;
    Value in, in2, out;
    const std::byte* weight = nullptr;
    const std::byte* bias = nullptr;
    Format weight_format = Format::Float32;
    uint64_t panel_bytes = 0;
    int64_t panels = 0;
    int inputs = 0;
    Epilogue epilogue = Epilogue::None;
    MatmulTile tile{};
    // Of a matmul, as ShareOut says: what each thread computes. The panels from
    // shared_panels on go in pieces, of `piece` panels, to who comes first.
    struct Share {
      Range panels;
      WeightBlock first;
    };
    std::vector<Share> shares;
    int64_t shared_panels = 0;
    int64_t piece = 0;
    const Op* next = nullptr;  // matmul, the last one's being the first
    int layer = 0;
    int window = 0;
    float epsilon = 0;
    float scale = 1;
    int first_token = 0;
    int tokens = 0;  // that an embedding has
    // Of an exchange: every rank's part, the own among them.
    std::vector<Value> parts;
  };
  // Rows of one sequence that attend together.
  struct RowRun {
    int begin;
    int count;
  };

  // Whether all ranks must meet before and after it.
  static bool Exchanges(const Op& op) {
    return op.kind == OpKind::AllReduce || op.kind == OpKind::Gather;
  }
  void RunOp(const Op& op, int thread, Barrier& barrier,
             std::atomic<int64_t>* next);
  static WeightBlock FirstBlockOf(const Op& op, const Range& panels);
  // Divides the matmuls between so many threads.
  void ShareOut(int threads);
  void RunMatmul(const Op& op, int thread, std::atomic<int64_t>* taken);
  void RunAttention(const Op& op, int thread, Barrier& barrier,
                    std::atomic<int64_t>* next);
  void RunAllReduce(const Op& op, int thread);
  // The same, of what other processes have.
  void RunRemoteAllReduce(const Op& op, int thread, Barrier& barrier);
  void RunGather(const Op& op, int thread);
  AttentionArgs AttentionOf(const Op& op, int thread, int64_t item) const;
  // Decides, before a step, whether partitions are items of their own.
  void PlanAttention();
  int RowCount(RowKind kind) const {
    return static_cast<int>(kind == RowKind::Tokens ? step_rows_.size()
                                                    : logits_rows_.size());
  }

  const KernelTable& kernels_;
  const StepMemory& memory_;
  int rank_;
  int ranks_;
  int rows_;
  int vocab_size_;
  int num_heads_;
  int partition_len_;
  KvLayout kv_;
  std::vector<Op> ops_;
  const Op* first_matmul_ = nullptr;
  Value logits_;
  Transport* transport_ = nullptr;
  std::byte* sum_memory_ = nullptr;  // of as many bytes as an inbox

  // The step in progress. Counters of items handed out, one an operation.
  int threads_ = 0;
  std::span<const Row> step_rows_;
  std::span<const BlockTable> step_tables_;
  std::vector<int> logits_rows_;
  std::vector<int32_t> positions_;
  std::vector<RowRun> runs_;
  // A run and a KV head are an item of attention, or each of its partitions is:
  // so many are handed out at a time.
  int64_t items_together_ = 1;
  // Partitions that a run and KV head have at most, and room for what each
  // leaves; 0 where they stay together.
  int parts_ = 0;
  int64_t part_floats_ = 0;
  std::vector<float> part_memory_;
  std::unique_ptr<std::atomic<int64_t>[]> next_;
};

}  // namespace rbln
