#include "compiler/lower.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "artifact/manifest.h"
#include "kernels/kernels.h"

namespace rbln {
namespace {

OpKind LoweredKind(const GraphOp& op) {
  switch (op.kind) {
    case GraphOpKind::kEmbed:
      return OpKind::Embed;
    case GraphOpKind::kRotary:
      return OpKind::Rotary;
    case GraphOpKind::kRmsNorm:
      return OpKind::RmsNorm;
    case GraphOpKind::kMatmul:
      return OpKind::Matmul;
    case GraphOpKind::kRopeKv:
      return OpKind::RopeKv;
    case GraphOpKind::kAttention:
      return OpKind::Attention;
    case GraphOpKind::kQuantize:
      return OpKind::Quantize;
    case GraphOpKind::kAllReduce:
      return OpKind::AllReduce;
    case GraphOpKind::kGather:
      return OpKind::Gather;
    default:
      throw std::logic_error(std::string("no program operation for ") +
                             GraphOpName(op.kind));
  }
}

int GroupSize(Format format) {
  return format == Format::Int8 || format == Format::Int4 ? kGroupSize : 0;
}

}  // namespace

uint64_t WeightBytes(const GraphWeight& weight) {
  if (weight.inputs == 0) {
    return AlignUp(uint64_t{sizeof(float)} * weight.Outputs(), kAlignment);
  }
  return Panels(weight.Outputs()) * PanelBytes(weight.format, weight.inputs);
}

uint64_t PlanArena(const std::vector<Interval>& intervals,
                   std::vector<uint64_t>* offsets) {
  offsets->assign(intervals.size(), 0);
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return intervals[a].bytes > intervals[b].bytes;
  });
  uint64_t arena = 0;
  std::vector<int> placed;  // by offset
  for (const int index : order) {
    const Interval& value = intervals[index];
    uint64_t offset = 0;
    for (const int other : placed) {
      const Interval& taken = intervals[other];
      if (taken.end < value.begin || value.end < taken.begin) continue;
      if ((*offsets)[other] >= offset + value.bytes) break;  // fits before it
      offset = std::max(offset, (*offsets)[other] + taken.bytes);
    }
    (*offsets)[index] = offset;
    arena = std::max(arena, offset + value.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](int a, int b) {
                                     return (*offsets)[a] < (*offsets)[b];
                                   }),
                  index);
  }
  return arena;
}

ProgramT LowerGraph(const Graph& graph, const ModelDescription& model,
                    const LowerOptions& options) {
  ProgramT program;
  program.format_version = kFormatVersion;
  program.isa = options.isa;
  program.rows = options.rows;
  program.rank = graph.rank;
  program.ranks = graph.ranks;
  program.num_heads = graph.num_heads;
  program.num_kv_heads = graph.num_kv_heads;
  program.head_dim = graph.head_dim;
  program.num_layers = model.num_layers;
  program.vocab_size = model.vocab_size;
  program.kv_format = options.kv_format;
  program.kvcache_block_size = options.kvcache_block_size;
  program.kvcache_partition_len = options.partition_len;

  // Only what the operations still use is kept, in order of first use.
  std::map<int, int> values, weights;
  std::vector<Interval> intervals;
  const auto lower_value = [&](int index, int op) {
    const auto [found, added] =
        values.emplace(index, static_cast<int>(program.values.size()));
    if (added) {
      const GraphValue& from = graph.values[index];
      auto value = std::make_unique<ValueT>();
      value->name = from.name;
      value->row_kind = from.rows;
      value->rows =
          from.rows == RowKind::Tokens ? options.rows : options.logits_rows;
      value->columns = from.columns;
      value->format = from.format;
      value->row_bytes = RowBytes(from.format, from.columns);
      intervals.push_back({value->row_bytes * value->rows, op, op});
      program.values.push_back(std::move(value));
    }
    intervals[found->second].end = op;
    return found->second;
  };
  const auto lower_weight = [&](int index) {
    if (index < 0) return -1;
    const auto [found, added] =
        weights.emplace(index, static_cast<int>(program.weights.size()));
    if (added) {
      const GraphWeight& from = graph.weights[index];
      auto weight = std::make_unique<WeightT>();
      weight->name = from.name;
      weight->format = from.format;
      weight->outputs = from.Outputs();
      weight->inputs = from.inputs;
      weight->group_size = GroupSize(from.format);
      weight->bytes = WeightBytes(from);
      program.weights.push_back(std::move(weight));
    }
    return found->second;
  };

  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const GraphOp& from = graph.ops[i];
    auto op = std::make_unique<OpT>();
    op->kind = LoweredKind(from);
    op->name = from.name;
    for (const int input : from.inputs) {
      op->inputs.push_back(lower_value(input, static_cast<int>(i)));
    }
    op->output = lower_value(from.output, static_cast<int>(i));
    op->weight = lower_weight(from.weight);
    op->bias = lower_weight(from.bias);
    op->epilogue = from.epilogue;
    op->layer = from.layer;
    op->window = from.window;
    op->epsilon = from.epsilon;
    op->scale = from.scale;
    op->first_token = from.first_token;
    if (from.kind == GraphOpKind::kMatmul) {
      const GraphWeight& weight = graph.weights[from.weight];
      const int rows = program.values[op->output]->rows;
      MatmulTile tile =
          DefaultTile(options.isa, weight.format, rows, weight.inputs);
      if (options.tuner != nullptr) {
        const std::vector<MeasuredTile>& measured =
            options.tuner->Choose(weight.format, rows, weight.inputs,
                                  from.epilogue == Epilogue::SiluGate);
        tile = measured[0].tile;
        for (const MeasuredTile& m : measured) {
          auto candidate = std::make_unique<CandidateT>();
          candidate->kernel = fmt::format("{}x{}, {} inputs", m.tile.rows,
                                          m.tile.panels, m.tile.inputs);
          candidate->microseconds = static_cast<float>(m.microseconds);
          op->measured.push_back(std::move(candidate));
        }
      }
      op->kernel = fmt::format("matmul_{}", FormatName(weight.format));
      op->tile_rows = tile.rows;
      op->tile_panels = tile.panels;
      op->tile_inputs = tile.inputs;
    } else {
      op->kernel = GraphOpName(from.kind);
    }
    program.ops.push_back(std::move(op));
  }
  program.logits = values.at(graph.logits);
  // Read by the caller after the last operation.
  intervals[program.logits].end = static_cast<int>(graph.ops.size());

  std::vector<uint64_t> offsets;
  program.arena_bytes = PlanArena(intervals, &offsets);
  for (size_t i = 0; i < offsets.size(); ++i) {
    program.values[i]->offset = offsets[i];
  }
  return program;
}

}  // namespace rbln
