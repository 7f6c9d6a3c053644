// One program, bound: operations with pointers instead of indices.
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

namespace rbln {

// What a step works on; owned by the executor, shared by its programs.
struct StepMemory {
  std::byte* arena = nullptr;
  std::byte* kv_cache = nullptr;
  // One piece a thread, for kernels.
  std::vector<float*> scratch;
};

// A program whose operations point into the weights and the arena. Immutable;
// Run is called by one thread at a time.
class BoundProgram {
 public:
  // `weights` and `memory` must outlive this object. Throws Error(kModel) where
  // the weights do not have what the program wants.
  BoundProgram(const ProgramT& program, const PackedWeights& weights,
               const KernelTable& kernels, const StepMemory& memory);

  int rows() const { return rows_; }
  // Floats of scratch that each thread needs.
  static int64_t ScratchFloats(const ProgramT& program);

  // Runs one step on all threads of `team`. `rows` and `tables` as in
  // Executor::Step, checked by it. Returns the logits, (wanted, stride) floats.
  // Where `seconds` is not null it is filled with the time of each operation.
  struct Logits {
    float* data;
    int count;
    int64_t stride;
  };
  Logits Run(std::span<const Row> rows, std::span<const BlockTable> tables,
             ThreadTeam& team, std::vector<double>* seconds);

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
    int layer = 0;
    int window = 0;
    float epsilon = 0;
    float scale = 1;
  };
  // Rows of one sequence that attend together.
  struct RowRun {
    int begin;
    int count;
  };

  void RunOp(const Op& op, int thread, ThreadTeam& team,
             std::atomic<int64_t>* next);
  void RunMatmul(const Op& op, int thread, int threads);
  void RunAttention(const Op& op, int thread, ThreadTeam& team,
                    std::atomic<int64_t>* next);
  AttentionArgs AttentionOf(const Op& op, int thread, int64_t item) const;
  // Decides, before a step, whether partitions are items of their own.
  void PlanAttention(int threads);
  int RowCount(RowKind kind) const {
    return static_cast<int>(kind == RowKind::Tokens ? step_rows_.size()
                                                    : logits_rows_.size());
  }

  const KernelTable& kernels_;
  const StepMemory& memory_;
  int rows_;
  int num_heads_;
  int partition_len_;
  KvLayout kv_;
  std::vector<Op> ops_;
  Value logits_;

  // The step in progress. Counters of items handed out, one an operation.
  std::span<const Row> step_rows_;
  std::span<const BlockTable> step_tables_;
  std::vector<int> logits_rows_;
  std::vector<int32_t> positions_;
  std::vector<RowRun> runs_;
  // Partitions that one run and KV head has at most, and room for what each
  // leaves; 0 where a run's partitions are one item.
  int parts_ = 0;
  int64_t part_floats_ = 0;
  std::vector<float> part_memory_;
  std::unique_ptr<std::atomic<int64_t>[]> next_;
};

}  // namespace rbln
