// The graph: what a model computes, before and after the passes.
//
// A graph is a list of operations in the order in which they run, on values
// that are matrices of (rows, columns). How many rows a step has is not in it:
// the same graph becomes prefill and every decoder. Import builds it from plain
// operations; the passes (passes/passes.h) turn those into the operations that
// programs have.
#pragma once

#include <string>
#include <vector>

#include "artifact/program_generated.h"
#include "checkpoint/checkpoint.h"

namespace rbln {

enum class GraphOpKind {
  kEmbed,      // weight by token id
  kRotary,     // cosines and sines of the rows' positions
  kRmsNorm,    // (x), weight
  kMatmul,     // (x), weight, bias or none
  kHeadNorm,   // (x), weight: RMS norm of each head
  kRope,       // (x, rotary)
  kKvWrite,    // (k, v), of a layer; no output
  kAttention,  // (q), of a layer
  kSiluMul,    // (gate, up)
  kAdd,        // (a, b)
  kSelect,     // (x): the rows whose logits are wanted
  // Made by passes:
  kRopeKv,     // (qkv, rotary), norms of q and k or none
  kQuantize,   // (x)
  kAllReduce,  // (part): the sum over the ranks' parts, in rank order
  kGather,     // (part): the ranks' columns side by side, on rank 0
};
const char* GraphOpName(GraphOpKind kind);

// How the tensors of one packed weight lie in it.
enum class Packing {
  kStack,      // the outputs of one after those of the other
  kAlternate,  // two tensors, panel by panel in turn
};

// A weight as it will be packed: one or more tensors of the checkpoint, or a
// vector of constants.
struct GraphWeight {
  std::string name;
  std::vector<std::string> tensors;
  std::vector<int> tensor_outputs;  // of each tensor
  Packing packing = Packing::kStack;
  int inputs = 0;  // 0 for a vector
  Format format = Format::Float32;
  std::vector<float> constants = {};  // where there are no tensors
  // Of a rank's share: the first output taken of each tensor (empty: 0), the
  // first input, and how many inputs the tensors have (0: `inputs`).
  std::vector<int> tensor_begin = {};
  int input_begin = 0;
  int tensor_inputs = 0;

  // Output columns once packed; alternating tensors are padded to panels.
  int Outputs() const;
};

struct GraphValue {
  std::string name;
  RowKind rows = RowKind::Tokens;
  int columns = 0;
  Format format = Format::Float32;
};

struct GraphOp {
  GraphOpKind kind;
  std::string name;
  std::vector<int> inputs = {};  // values
  int output = -1;  // value; may be an input, which is then overwritten
  int weight = -1;
  int bias = -1;  // for kRopeKv: weight and bias are the norms of q and of k
  int layer = -1;
  int window = 0;
  float epsilon = 0;
  float scale = 1;      // of what kRotary computes
  int first_token = 0;  // kEmbed: the token of the weight's first row
  Epilogue epilogue = Epilogue::None;
};

struct Graph {
  std::vector<GraphWeight> weights;
  std::vector<GraphValue> values;
  std::vector<GraphOp> ops;
  int logits = -1;
  // Of this rank.
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int rank = 0;  // of `ranks`
  int ranks = 1;

  int AddValue(std::string name, int columns, RowKind rows = RowKind::Tokens);
  int AddWeight(std::string name, std::vector<std::string> tensors,
                std::vector<int> tensor_outputs, int inputs);
  // The op that writes `value` last before `before`; -1 where there is none.
  int Producer(int value, int before) const;
  // Indices of the ops that read `value`.
  std::vector<int> Users(int value) const;
};

// The graph of a model for sequences of up to `max_seq_len` tokens, in plain
// operations.
Graph ImportModel(const ModelDescription& model, int max_seq_len);

// Checks that shapes agree, that values are written before they are read, and
// that indices exist. Throws std::logic_error: a broken graph is our own bug.
void VerifyGraph(const Graph& graph);

// One line an operation: for people and for tests.
std::string DumpGraph(const Graph& graph);

}  // namespace rbln
