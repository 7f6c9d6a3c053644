// The passes: free functions graph -> graph, and the one list of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rbln {

// The graph of one of `ranks` tensor parallel ranks: attention by KV heads
// (each on several ranks where there are fewer heads than ranks), the MLP by
// columns and then by rows, embedding and output matrix by vocabulary. What
// ranks compute in part is summed, or gathered, where it is needed whole.
// WhyNotSharded (artifact/sharding.h) must have nothing against it.
// Reference: Shoeybi et al., "Megatron-LM" (https://arxiv.org/abs/1909.08053).
void Shard(Graph& graph, int rank, int ranks);

// q, k and v of a layer become one matmul, and the norms and rotations of q and
// k and the write to the KV cache one operation on its result.
void FuseQkv(Graph& graph);
// gate, up and silu(gate) * up become one matmul over alternating panels.
void FuseGateUp(Graph& graph);
// A matmul, or a sum over ranks, whose result is added to the residual adds it
// itself, in place.
void FuseResidual(Graph& graph);
// The final norm reads only the rows whose logits are wanted.
void FuseSelect(Graph& graph);
// Matrices are held in `weights`, and what matmuls read in what they take for
// it: norms write that themselves, other values are quantized by an operation
// of their own. An embedding that is not also the output matrix is never
// streamed, and held in int8 at least.
void ChooseFormats(Graph& graph, Format weights);

struct PassReport {
  std::string name;
  double milliseconds;
  size_t ops;  // after it
};

// Runs all passes in their order, verifying the graph after each. `dump`, where
// given, sees the graph after import and after each pass.
std::vector<PassReport> RunPasses(
    Graph& graph, Format weights, int rank = 0, int ranks = 1,
    const std::function<void(const std::string& pass, const Graph&)>& dump =
        nullptr);

}  // namespace rbln
