#include "passes/passes.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "artifact/program.h"

namespace rbln {
namespace {

// Takes out the ops at `dead`.
void RemoveOps(Graph& graph, const std::set<int>& dead) {
  std::vector<GraphOp> kept;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (!dead.contains(static_cast<int>(i))) {
      kept.push_back(std::move(graph.ops[i]));
    }
  }
  graph.ops = std::move(kept);
}

// One weight out of several that have the same inputs.
int MergeWeights(Graph& graph, const std::string& name,
                 const std::vector<int>& parts, Packing packing) {
  GraphWeight merged = graph.weights[parts[0]];
  merged.name = name;
  merged.packing = packing;
  for (size_t i = 1; i < parts.size(); ++i) {
    const GraphWeight& part = graph.weights[parts[i]];
    merged.tensors.insert(merged.tensors.end(), part.tensors.begin(),
                          part.tensors.end());
    merged.tensor_begin.insert(merged.tensor_begin.end(),
                               part.tensor_begin.begin(),
                               part.tensor_begin.end());
    merged.tensor_outputs.insert(merged.tensor_outputs.end(),
                                 part.tensor_outputs.begin(),
                                 part.tensor_outputs.end());
  }
  graph.weights.push_back(std::move(merged));
  return static_cast<int>(graph.weights.size()) - 1;
}

// A matmul that does the work of several on the same input.
GraphOp MergeMatmuls(Graph& graph, const std::string& name,
                     const std::vector<int>& matmuls, Packing packing) {
  std::vector<int> weights, biases;
  for (const int index : matmuls) {
    weights.push_back(graph.ops[index].weight);
    biases.push_back(graph.ops[index].bias);
  }
  GraphOp merged{.kind = GraphOpKind::kMatmul,
                 .name = name,
                 .inputs = graph.ops[matmuls[0]].inputs};
  merged.weight = MergeWeights(graph, name, weights, packing);
  if (biases[0] >= 0) {
    merged.bias = MergeWeights(graph, name + ".bias", biases, packing);
  }
  return merged;
}

// The layer's part of an operation's name: "layers.0.".
std::string LayerPrefix(const std::string& name) {
  return name.substr(0, name.rfind('.') + 1);
}

}  // namespace

void FuseQkv(Graph& graph) {
  std::set<int> dead;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].kind != GraphOpKind::kAttention) continue;
    const int attention = static_cast<int>(i);
    // Import puts the write of a layer right before its attention.
    const int write = attention - 1;
    // From a rotated value back to its matmul, over a norm where there is one.
    const auto trace = [&](int value, int* rope, int* norm) {
      *rope = graph.Producer(value, attention);
      int producer = graph.Producer(graph.ops[*rope].inputs[0], *rope);
      *norm = -1;
      if (graph.ops[producer].kind == GraphOpKind::kHeadNorm) {
        *norm = producer;
        producer = graph.Producer(graph.ops[producer].inputs[0], producer);
      }
      return producer;
    };
    int q_rope, q_norm, k_rope, k_norm;
    const int q = trace(graph.ops[attention].inputs[0], &q_rope, &q_norm);
    const int k = trace(graph.ops[write].inputs[0], &k_rope, &k_norm);
    const int v = graph.Producer(graph.ops[write].inputs[1], write);

    const std::string prefix = LayerPrefix(graph.ops[attention].name);
    GraphOp matmul =
        MergeMatmuls(graph, prefix + "qkv", {q, k, v}, Packing::kStack);
    matmul.output =
        graph.AddValue(prefix + "qkv", graph.weights[matmul.weight].Outputs());
    GraphOp rope{.kind = GraphOpKind::kRopeKv,
                 .name = prefix + "rope_kv",
                 .inputs = {matmul.output, graph.ops[q_rope].inputs[1]},
                 .output = matmul.output,
                 .layer = graph.ops[attention].layer};
    if (q_norm >= 0) {
      rope.weight = graph.ops[q_norm].weight;
      rope.bias = graph.ops[k_norm].weight;
      rope.epsilon = graph.ops[q_norm].epsilon;
    }
    graph.ops[attention].inputs = {matmul.output};
    for (const int index : {k, v, q_rope, q_norm, k_rope, k_norm}) {
      if (index >= 0) dead.insert(index);
    }
    graph.ops[q] = std::move(matmul);
    graph.ops[write] = std::move(rope);
  }
  RemoveOps(graph, dead);
}

void FuseGateUp(Graph& graph) {
  std::set<int> dead;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    GraphOp& silu = graph.ops[i];
    if (silu.kind != GraphOpKind::kSiluMul) continue;
    const int index = static_cast<int>(i);
    const int gate = graph.Producer(silu.inputs[0], index);
    const int up = graph.Producer(silu.inputs[1], index);
    GraphOp matmul = MergeMatmuls(graph, LayerPrefix(silu.name) + "gate_up",
                                  {gate, up}, Packing::kAlternate);
    matmul.epilogue = Epilogue::SiluGate;
    matmul.output = silu.output;
    dead.insert({gate, up});
    graph.ops[i] = std::move(matmul);
  }
  RemoveOps(graph, dead);
}

void FuseResidual(Graph& graph) {
  std::set<int> dead;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].kind != GraphOpKind::kAdd) continue;
    const int index = static_cast<int>(i);
    const int residual = graph.ops[i].inputs[0];
    const int sum = graph.ops[i].output;
    const int producer = graph.Producer(graph.ops[i].inputs[1], index);
    // The residual's storage can be taken over only if nothing reads it later.
    const std::vector<int> users = graph.Users(residual);
    if (producer < 0 ||
        (graph.ops[producer].kind != GraphOpKind::kMatmul &&
         graph.ops[producer].kind != GraphOpKind::kAllReduce) ||
        graph.ops[producer].epilogue != Epilogue::None ||
        users.back() != index) {
      continue;
    }
    graph.ops[producer].epilogue = Epilogue::Add;
    graph.ops[producer].output = residual;
    graph.ops[i].inputs.clear();
    dead.insert(index);
    for (GraphOp& op : graph.ops) {
      std::replace(op.inputs.begin(), op.inputs.end(), sum, residual);
    }
  }
  RemoveOps(graph, dead);
}

void FuseSelect(Graph& graph) {
  std::set<int> dead;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].kind != GraphOpKind::kSelect) continue;
    const int selected = graph.ops[i].output;
    for (const int user : graph.Users(selected)) {
      graph.ops[user].inputs = graph.ops[i].inputs;
    }
    dead.insert(static_cast<int>(i));
  }
  RemoveOps(graph, dead);
}

void ChooseFormats(Graph& graph, Format weights) {
  const Format input = MatmulInput(weights);
  for (const GraphOp& op : graph.ops) {
    // Int8 for int4, as rows are; matmuls, which come later, have the last
    // word.
    if (op.kind == GraphOpKind::kEmbed) {
      graph.weights[op.weight].format = input;
    }
  }
  std::vector<GraphOp> ops;
  std::map<int, int> quantized;  // by what was quantized
  for (GraphOp& op : graph.ops) {
    if (op.kind == GraphOpKind::kMatmul) {
      graph.weights[op.weight].format = weights;
      int& from = op.inputs[0];
      const auto done = quantized.find(from);
      if (done != quantized.end()) {
        from = done->second;
      } else if (input != Format::Int8 ||
                 graph.ops[graph.Producer(
                               from, static_cast<int>(&op - graph.ops.data()))]
                         .kind == GraphOpKind::kRmsNorm) {
        graph.values[from].format = input;
      } else {
        const GraphValue value = graph.values[from];
        const int to =
            graph.AddValue(value.name + ".int8", value.columns, value.rows);
        graph.values[to].format = input;
        ops.push_back({.kind = GraphOpKind::kQuantize,
                       .name = value.name + ".quantize",
                       .inputs = {from},
                       .output = to});
        quantized[from] = to;
        from = to;
      }
    }
    // ops so far may still be asked for by Producer: copied, not moved.
    ops.push_back(op);
  }
  graph.ops = std::move(ops);
}

std::vector<PassReport> RunPasses(
    Graph& graph, Format weights, int rank, int ranks,
    const std::function<void(const std::string&, const Graph&)>& dump) {
  // The order, with the reason for each place.
  const std::pair<const char*, std::function<void(Graph&)>> passes[] = {
      // First: what is whole and what is in part shows best in the plain graph.
      {"shard", [&](Graph& g) { Shard(g, rank, ranks); }},
      // The fusions look for the plain operations of import; none touches what
      // another looks for.
      {"fuse_qkv", FuseQkv},
      {"fuse_gate_up", FuseGateUp},
      // After fuse_gate_up: only matmuls that still end plainly may add.
      {"fuse_residual", FuseResidual},
      {"fuse_select", FuseSelect},
      // Last: what a value is held in depends on who reads it in the end.
      {"choose_formats", [&](Graph& g) { ChooseFormats(g, weights); }},
  };
  VerifyGraph(graph);
  if (dump) dump("import", graph);
  std::vector<PassReport> reports;
  for (const auto& [name, pass] : passes) {
    const auto start = std::chrono::steady_clock::now();
    pass(graph);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    VerifyGraph(graph);
    if (dump) dump(name, graph);
    reports.push_back({name, elapsed.count(), graph.ops.size()});
  }
  return reports;
}

}  // namespace rbln
