// The tensor parallel pass. The arithmetic of the shares is in
// artifact/sharding.h, where the runtime finds it too.
#include <stdexcept>

#include "artifact/sharding.h"
#include "passes/passes.h"

namespace rbln {
namespace {

class Sharder {
 public:
  Sharder(Graph& graph, int rank, int ranks)
      : graph_(graph),
        rank_(rank),
        ranks_(ranks),
        heads_(HeadShard(graph.num_heads, rank, ranks)),
        kv_heads_(KvHeadShard(graph.num_kv_heads, rank, ranks)) {}

  void Run() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      GraphOp op = graph_.ops[i];  // what follows is not yet sharded
      switch (op.kind) {
        case GraphOpKind::kEmbed: {
          const ShardRange tokens = TakeVocab(op.weight);
          op.first_token = tokens.begin;
          Sum(op);
          break;
        }
        case GraphOpKind::kMatmul:
          ShardMatmul(op, static_cast<int>(i));
          break;
        case GraphOpKind::kHeadNorm:
        case GraphOpKind::kRope:
        case GraphOpKind::kAttention:
        case GraphOpKind::kSiluMul:
          graph_.values[op.output].columns =
              graph_.values[op.inputs[0]].columns;
          ops_.push_back(op);
          break;
        default:
          ops_.push_back(op);
      }
    }
    graph_.ops = std::move(ops_);
    graph_.num_heads = heads_.size();
    graph_.num_kv_heads = kv_heads_.size();
    graph_.rank = rank_;
    graph_.ranks = ranks_;
  }

 private:
  void ShardMatmul(GraphOp op, int index) {
    const GraphOpKind producer =
        graph_.ops[graph_.Producer(op.inputs[0], index)].kind;
    if (op.output == graph_.logits) {
      const int columns = TakeVocab(op.weight).size();
      const int part = graph_.AddValue(op.name + ".part", columns,
                                       graph_.values[op.output].rows);
      ops_.push_back({.kind = GraphOpKind::kGather,
                      .name = op.name + ".gather",
                      .inputs = {part},
                      .output = op.output});
      op.output = part;
      ops_.insert(ops_.end() - 1, op);
      return;
    }
    if (producer == GraphOpKind::kAttention ||
        producer == GraphOpKind::kSiluMul) {
      // By rows: this rank's inputs. The bias is added once.
      GraphWeight& weight = graph_.weights[op.weight];
      const ShardRange inputs = producer == GraphOpKind::kAttention
                                    ? ShardRange{heads_.begin * graph_.head_dim,
                                                 heads_.end * graph_.head_dim}
                                    : ColumnShard(weight.inputs, rank_, ranks_);
      weight.tensor_inputs = weight.inputs;
      weight.input_begin = inputs.begin;
      weight.inputs = inputs.size();
      if (rank_ != 0) op.bias = -1;
      Sum(op);
      return;
    }
    // By columns: this rank's outputs.
    const int outputs = graph_.values[op.output].columns;
    ShardRange columns;
    switch (ReaderOf(op.output)) {
      case GraphOpKind::kSiluMul:
        columns = ColumnShard(outputs, rank_, ranks_);
        break;
      case GraphOpKind::kAttention:
        columns = {heads_.begin * graph_.head_dim,
                   heads_.end * graph_.head_dim};
        break;
      case GraphOpKind::kKvWrite:
        columns = {kv_heads_.begin * graph_.head_dim,
                   kv_heads_.end * graph_.head_dim};
        break;
      default:
        throw std::logic_error("shard: no rule for " + op.name);
    }
    for (const int weight : {op.weight, op.bias}) {
      if (weight >= 0) TakeOutputs(graph_.weights[weight], columns);
    }
    graph_.values[op.output].columns = columns.size();
    ops_.push_back(op);
  }

  // What reads a value in the end, past the norms and rotations of heads.
  GraphOpKind ReaderOf(int value) const {
    while (true) {
      const GraphOp& user = graph_.ops[graph_.Users(value).at(0)];
      if (user.kind != GraphOpKind::kHeadNorm &&
          user.kind != GraphOpKind::kRope) {
        return user.kind;
      }
      value = user.output;
    }
  }

  static void TakeOutputs(GraphWeight& weight, ShardRange outputs) {
    weight.tensor_begin = {outputs.begin};
    weight.tensor_outputs = {outputs.size()};
  }

  // The embedding may be the output matrix too.
  ShardRange TakeVocab(int weight) {
    GraphWeight& taken = graph_.weights[weight];
    if (!taken.tensor_begin.empty()) {
      return {taken.tensor_begin[0],
              taken.tensor_begin[0] + taken.tensor_outputs[0]};
    }
    const ShardRange tokens =
        VocabShard(taken.tensor_outputs[0], rank_, ranks_);
    TakeOutputs(taken, tokens);
    return tokens;
  }

  // `op` computes a part; the sum of all takes its place.
  void Sum(GraphOp op) {
    const int part =
        graph_.AddValue(op.name + ".part", graph_.values[op.output].columns);
    GraphOp sum{.kind = GraphOpKind::kAllReduce,
                .name = op.name + ".all_reduce",
                .inputs = {part},
                .output = op.output};
    op.output = part;
    ops_.push_back(std::move(op));
    ops_.push_back(std::move(sum));
  }

  Graph& graph_;
  const int rank_;
  const int ranks_;
  const ShardRange heads_;
  const ShardRange kv_heads_;
  std::vector<GraphOp> ops_;
};

}  // namespace

void Shard(Graph& graph, int rank, int ranks) {
  if (ranks > 1) Sharder(graph, rank, ranks).Run();
}

}  // namespace rbln
