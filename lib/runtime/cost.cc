#include "runtime/cost.h"

#include <algorithm>

#include "kernels/kernels.h"
#include "runtime/program.h"

namespace rbln {
namespace {

// A sum over ranks, or what a rank other than 0 sends of its logits.
Work ExchangeWork(const ProgramT& program, const OpT& op, double rows) {
  const double bytes = rows * program.values[op.inputs[0]]->row_bytes;
  const double others = program.ranks - 1;
  Work work;
  if (bytes == 0) return work;
  if (op.kind == OpKind::Gather) {
    work.messages = 1;
    work.message_bytes = bytes;
  } else if (SumsInShares(program.ranks, static_cast<uint64_t>(bytes))) {
    work.messages = 2;
    work.message_bytes = 2 * bytes * others / program.ranks;
  } else {
    work.messages = 1;
    work.message_bytes = bytes * others;
  }
  return work;
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  bytes += other.bytes;
  ops += other.ops;
  float_ops += other.float_ops;
  messages += other.messages;
  message_bytes += other.message_bytes;
  return *this;
}

Context DecodeContext(int rows, int depth) {
  const auto seen = [=](int window) {
    return double(rows) *
           (window > 0 ? std::min(window, depth + 1) : depth + 1);
  };
  return {seen, seen};
}

Context PrefillContext(int at, int rows) {
  return {[=](int window) {
            const int end = at + rows;
            return double(window > 0 ? std::min(end, window + rows) : end);
          },
          [=](int window) {
            double sum = 0;
            for (int i = at + 1; i <= at + rows; ++i) {
              sum += window > 0 ? std::min(i, window) : i;
            }
            return sum;
          }};
}

std::vector<Work> CountWork(const ProgramT& program, int rows, int logits,
                            const Context& context) {
  const KvLayout kv =
      KvLayout::Make(program.kv_format, program.head_dim, program.num_kv_heads,
                     program.num_layers, program.kvcache_block_size);
  const double position_bytes =
      static_cast<double>(kv.group_bytes) / kPanel * program.num_kv_heads;
  std::vector<Work> works;
  for (const auto& op : program.ops) {
    Work work;
    const ValueT& out = *program.values[op->output];
    const int count = out.row_kind == RowKind::Logits ? logits : rows;
    if (op->kind == OpKind::Matmul && count > 0) {
      const WeightT& weight = *program.weights[op->weight];
      work.bytes = static_cast<double>(weight.bytes);
      work.ops = 2.0 * weight.outputs * weight.inputs * count;
    } else if (op->kind == OpKind::Attention) {
      work.bytes = position_bytes * context.keys(op->window);
      work.float_ops = 4.0 * program.num_heads * program.head_dim *
                       context.pairs(op->window);
    } else if (op->kind == OpKind::AllReduce || op->kind == OpKind::Gather) {
      work = ExchangeWork(program, *op, count);
    }
    works.push_back(work);
  }
  return works;
}

Work Total(const std::vector<Work>& works) {
  Work total;
  for (const Work& work : works) total += work;
  return total;
}

double Limits::Floor(const Work& work) const {
  return std::max(work.bytes / read,
                  work.ops / peak + work.float_ops / float_peak) +
         work.messages * latency +
         (network > 0 ? work.message_bytes / network : 0);
}

}  // namespace rbln
