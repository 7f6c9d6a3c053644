// From a graph to programs and packed weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "artifact/manifest.h"
#include "artifact/program.h"
#include "artifact/weights.h"
#include "checkpoint/checkpoint.h"
#include "compiler/tune.h"
#include "graph/graph.h"

namespace rbln {

struct LowerOptions {
  int rows = 1;         // most token rows of one step
  int logits_rows = 1;  // most rows of one step whose logits are wanted
  std::string isa;
  Format kv_format = Format::Float32;
  int kvcache_block_size = 0;
  int partition_len = 0;
  Tuner* tuner = nullptr;  // null: tiles by the recorded default
};

// The program of `rows` rows: plans the arena and chooses kernels. `graph` has
// been through the passes.
ProgramT LowerGraph(const Graph& graph, const ModelDescription& model,
                    const LowerOptions& options);

// Offsets for values that live from their first writer to their last user, so
// that no two live at once overlap. Exposed for tests.
struct Interval {
  uint64_t bytes;
  int begin;  // index of the first op that touches it
  int end;    // of the last
};
// Fills `offsets`; returns the arena's size. Largest first, each at the lowest
// offset that is free for its whole life.
uint64_t PlanArena(const std::vector<Interval>& intervals,
                   std::vector<uint64_t>* offsets);

// Writes the packed weights that `graph` uses to `path`, reading `source` in
// pieces from `threads` threads. `progress` is told, from any thread, how many
// bytes of the file were written since it was told last. Returns what the
// manifest is to say of the file.
ManifestFile PackWeights(const Graph& graph, const WeightSource& source,
                         int threads, const std::string& path,
                         const std::function<void(uint64_t)>& progress);
// The size the file will have.
uint64_t PackedBytes(const Graph& graph);
// Bytes of one weight once packed.
uint64_t WeightBytes(const GraphWeight& weight);

}  // namespace rbln
