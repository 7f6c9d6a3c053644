#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "artifact/program.h"

namespace rbln {

const char* GraphOpName(GraphOpKind kind) {
  switch (kind) {
    case GraphOpKind::kEmbed:
      return "embed";
    case GraphOpKind::kRotary:
      return "rotary";
    case GraphOpKind::kRmsNorm:
      return "rms_norm";
    case GraphOpKind::kMatmul:
      return "matmul";
    case GraphOpKind::kHeadNorm:
      return "head_norm";
    case GraphOpKind::kRope:
      return "rope";
    case GraphOpKind::kKvWrite:
      return "kv_write";
    case GraphOpKind::kAttention:
      return "attention";
    case GraphOpKind::kSiluMul:
      return "silu_mul";
    case GraphOpKind::kAdd:
      return "add";
    case GraphOpKind::kSelect:
      return "select";
    case GraphOpKind::kRopeKv:
      return "rope_kv";
    case GraphOpKind::kQuantize:
      return "quantize";
    case GraphOpKind::kAllReduce:
      return "all_reduce";
    case GraphOpKind::kGather:
      return "gather";
  }
  return "?";
}

int GraphWeight::Outputs() const {
  int outputs = 0;
  for (const int part : tensor_outputs) {
    outputs += packing == Packing::kAlternate
                   ? static_cast<int>(AlignUp(part, kPanel))
                   : part;
  }
  return outputs;
}

int Graph::AddValue(std::string name, int columns, RowKind rows) {
  values.push_back({std::move(name), rows, columns, Format::Float32});
  return static_cast<int>(values.size()) - 1;
}

int Graph::AddWeight(std::string name, std::vector<std::string> tensors,
                     std::vector<int> tensor_outputs, int inputs) {
  weights.push_back({.name = std::move(name),
                     .tensors = std::move(tensors),
                     .tensor_outputs = std::move(tensor_outputs),
                     .inputs = inputs});
  return static_cast<int>(weights.size()) - 1;
}

int Graph::Producer(int value, int before) const {
  for (int i = before - 1; i >= 0; --i) {
    if (ops[i].output == value) return i;
  }
  return -1;
}

std::vector<int> Graph::Users(int value) const {
  std::vector<int> users;
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::vector<int>& inputs = ops[i].inputs;
    if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) {
      users.push_back(static_cast<int>(i));
    }
  }
  return users;
}

void VerifyGraph(const Graph& graph) {
  std::vector<bool> written(graph.values.size(), false);
  for (const GraphOp& op : graph.ops) {
    const auto require = [&op](bool condition, const char* what) {
      if (!condition) {
        throw std::logic_error(fmt::format(
            "graph: {} '{}': {}", GraphOpName(op.kind), op.name, what));
      }
    };
    const auto value = [&](int index) -> const GraphValue& {
      require(index >= 0 && index < static_cast<int>(graph.values.size()),
              "no such value");
      return graph.values[index];
    };
    for (const int input : op.inputs) {
      value(input);
      require(written[input], "reads a value before it is written");
    }
    for (const int weight : {op.weight, op.bias}) {
      require(weight < static_cast<int>(graph.weights.size()),
              "no such weight");
    }
    if (op.kind == GraphOpKind::kMatmul) {
      const GraphWeight& weight = graph.weights.at(op.weight);
      const int outputs = op.epilogue == Epilogue::SiluGate
                              ? weight.tensor_outputs.at(0)
                              : weight.Outputs();
      require(weight.inputs == value(op.inputs.at(0)).columns,
              "the input has another width than the weight");
      require(outputs == value(op.output).columns,
              "the output has another width than the weight");
      require(
          op.bias < 0 || graph.weights[op.bias].Outputs() == weight.Outputs(),
          "the bias has another width than the weight");
    }
    if (op.kind == GraphOpKind::kAllReduce) {
      require(value(op.inputs.at(0)).columns == value(op.output).columns,
              "the sum differs in width from its parts");
    }
    if (op.kind == GraphOpKind::kAdd || op.kind == GraphOpKind::kSiluMul) {
      require(value(op.inputs.at(0)).columns == value(op.inputs.at(1)).columns,
              "the inputs differ in width");
    }
    if (op.kind != GraphOpKind::kKvWrite) {
      value(op.output);
      written[op.output] = true;
    }
  }
  if (graph.logits < 0 || !written.at(graph.logits)) {
    throw std::logic_error("graph: no logits");
  }
}

std::string DumpGraph(const Graph& graph) {
  std::string text;
  for (const GraphOp& op : graph.ops) {
    std::vector<std::string> inputs;
    for (const int input : op.inputs) {
      inputs.push_back("%" + graph.values[input].name);
    }
    for (const int weight : {op.weight, op.bias}) {
      if (weight < 0) continue;
      const GraphWeight& w = graph.weights[weight];
      inputs.push_back(fmt::format(
          "@{}:{}{}", w.name, FormatName(w.format),
          w.inputs == 0 ? fmt::format("[{}]", w.Outputs())
                        : fmt::format("[{}x{}]", w.Outputs(), w.inputs)));
    }
    if (op.output >= 0) {
      const GraphValue& out = graph.values[op.output];
      text += fmt::format("%{}:{}[{}] = ", out.name, FormatName(out.format),
                          out.columns);
    }
    text +=
        fmt::format("{}({})", GraphOpName(op.kind), fmt::join(inputs, ", "));
    if (op.layer >= 0) text += fmt::format(" layer={}", op.layer);
    if (op.window > 0) text += fmt::format(" window={}", op.window);
    if (op.epilogue != Epilogue::None) {
      text += fmt::format(" epilogue={}", EnumNameEpilogue(op.epilogue));
    }
    text += "\n";
  }
  return text;
}

}  // namespace rbln
