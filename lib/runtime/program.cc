#include "runtime/program.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "artifact/sharding.h"

namespace rbln {
namespace {

// Floats of a sum over ranks that are summed at a time: all ranks' parts of
// them stay in the cache.
constexpr int64_t kSumBlock = 2048;

// Logits of so many bytes leave the caches to the weights: stores to memory
// that is not there wait long, and all later ones behind them.
constexpr uint64_t kPastCaches = 1 << 19;

// Positions of items of attention that are handed out together.
constexpr int kPositionsTogether = 2048;

// From this size on a message's bytes take longer than its being on the way.
constexpr uint64_t kShareBytes = 64 << 10;

// out = the sum of the parts, in their order, over `range`; with `add`, added
// to what is there.
void SumParts(std::span<const float* const> parts, Range range, bool add,
              float* out) {
  float sum[kSumBlock];
  for (int64_t at = range.begin; at < range.end; at += kSumBlock) {
    const int64_t count = std::min(kSumBlock, range.end - at);
    std::memcpy(sum, parts[0] + at, count * sizeof(float));
    for (const float* part : parts.subspan(1)) {
      for (int64_t i = 0; i < count; ++i) sum[i] += part[at + i];
    }
    if (add) {
      for (int64_t i = 0; i < count; ++i) out[at + i] += sum[i];
    } else {
      std::memcpy(out + at, sum, count * sizeof(float));
    }
  }
}

}  // namespace

bool SumsInShares(int ranks, uint64_t bytes) {
  return ranks > 2 && bytes >= kShareBytes;
}

int64_t BoundProgram::ScratchFloats(const ProgramT& program) {
  return std::max(int64_t{program.rows} * kMaxTilePanels * kPanel,
                  AttentionScratch(program.num_heads, program.num_kv_heads,
                                   program.head_dim));
}

uint64_t BoundProgram::ExchangeBytes(const ProgramT& program) {
  uint64_t most = 0;
  for (const auto& op : program.ops) {
    if (op->kind != OpKind::AllReduce && op->kind != OpKind::Gather) continue;
    const ValueT& part = *program.values[op->inputs[0]];
    uint64_t row_bytes = part.row_bytes;
    if (op->kind == OpKind::Gather) {
      // Shares of the vocabulary differ.
      for (int rank = 0; rank < program.ranks; ++rank) {
        const int tokens =
            VocabShard(program.vocab_size, rank, program.ranks).size();
        row_bytes = std::max(row_bytes, RowBytes(part.format, tokens));
      }
    }
    most = std::max(most, row_bytes * static_cast<uint64_t>(part.rows));
  }
  return most;
}

BoundProgram::BoundProgram(const ProgramT& program,
                           const PackedWeights& weights,
                           const KernelTable& kernels, const StepMemory& memory)
    : kernels_(kernels),
      memory_(memory),
      rank_(program.rank),
      ranks_(program.ranks),
      rows_(program.rows),
      vocab_size_(program.vocab_size),
      num_heads_(program.num_heads),
      partition_len_(program.kvcache_partition_len),
      kv_(KvLayout::Make(program.kv_format, program.head_dim,
                         program.num_kv_heads, program.num_layers,
                         program.kvcache_block_size)) {
  const auto value = [&](int index) {
    const ValueT& from = *program.values[index];
    return Value{memory.arena + from.offset, from.row_bytes, from.columns,
                 from.row_kind, from.format};
  };
  const auto weight = [&](int index) -> const std::byte* {
    if (index < 0) return nullptr;
    const WeightT& from = *program.weights[index];
    return weights.Find(from.name, from.bytes).data();
  };
  for (const auto& from : program.ops) {
    Op op{};
    op.kind = from->kind;
    if (!from->inputs.empty()) op.in = value(from->inputs[0]);
    if (from->inputs.size() > 1) op.in2 = value(from->inputs[1]);
    op.out = value(from->output);
    op.weight = weight(from->weight);
    op.bias = weight(from->bias);
    if (from->weight >= 0) {
      const WeightT& w = *program.weights[from->weight];
      op.weight_format = w.format;
      op.panel_bytes = PanelBytes(w.format, w.inputs);
      op.panels = Panels(w.outputs);
      op.inputs = w.inputs;
      op.tokens = w.outputs;
    }
    op.epilogue = from->epilogue;
    op.tile = {from->tile_rows, from->tile_panels, from->tile_inputs};
    op.layer = from->layer;
    op.window = from->window;
    op.epsilon = from->epsilon;
    op.scale = from->scale;
    op.first_token = from->first_token;
    ops_.push_back(op);
  }
  const Op* next = nullptr;
  for (int round = 0; round < 2; ++round) {
    for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
      if (op->kind != OpKind::Matmul) continue;
      op->next = next;
      next = &*op;
    }
  }
  first_matmul_ = next;
  logits_ = value(program.logits);
  part_floats_ = AttentionPart(num_heads_, kv_.num_kv_heads, kv_.head_dim);
  next_ = std::make_unique<std::atomic<int64_t>[]>(ops_.size());
}

void BoundProgram::Connect(
    std::span<const std::unique_ptr<BoundProgram>> ranks) {
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (!Exchanges(ops_[i])) continue;
    for (const auto& rank : ranks) ops_[i].parts.push_back(rank->ops_[i].in);
  }
}

void BoundProgram::Connect(Transport& transport,
                           std::span<std::byte* const> inbox) {
  transport_ = &transport;
  sum_memory_ = inbox[rank_];
  for (Op& op : ops_) {
    if (!Exchanges(op)) continue;
    for (int rank = 0; rank < ranks_; ++rank) {
      Value part = op.in;
      if (rank != rank_) {
        part.data = inbox[rank];
        if (op.kind == OpKind::Gather) {
          part.columns = VocabShard(vocab_size_, rank, ranks_).size();
          part.row_bytes = RowBytes(part.format, part.columns);
        }
      }
      op.parts.push_back(part);
    }
  }
}

void BoundProgram::Begin(std::span<const Row> rows,
                         std::span<const BlockTable> tables, int threads) {
  if (threads != threads_) ShareOut(threads);
  step_rows_ = rows;
  step_tables_ = tables;
  logits_rows_.clear();
  positions_.clear();
  runs_.clear();
  const int most = AttentionRows(num_heads_, kv_.num_kv_heads);
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    positions_.push_back(rows[i].position);
    if (rows[i].logits) logits_rows_.push_back(i);
    const bool extends = i > 0 && rows[i].sequence == rows[i - 1].sequence &&
                         runs_.back().count < most;
    if (extends) {
      ++runs_.back().count;
    } else {
      runs_.push_back({i, 1});
    }
  }
  for (size_t i = 0; i < ops_.size(); ++i) {
    next_[i].store(0, std::memory_order_relaxed);
  }
  PlanAttention();
}

void BoundProgram::Run(int thread, const Meeting& meeting,
                       std::vector<double>* seconds) {
  using Clock = std::chrono::steady_clock;
  const bool timed = seconds != nullptr && thread == 0;
  if (timed) seconds->assign(ops_.size(), 0);
  Clock::time_point last;
  if (timed) last = Clock::now();
  for (size_t i = 0; i < ops_.size(); ++i) {
    RunOp(ops_[i], thread, *meeting.rank, &next_[i]);
    // What an exchange reads must be there, and stay until all have read it.
    const bool exchange =
        Exchanges(ops_[i]) || (i + 1 < ops_.size() && Exchanges(ops_[i + 1]));
    (exchange ? meeting.all : meeting.rank)->Wait();
    if (timed) {
      const Clock::time_point now = Clock::now();
      (*seconds)[i] = std::chrono::duration<double>(now - last).count();
      last = now;
    }
  }
}

BoundProgram::Logits BoundProgram::logits() const {
  return {reinterpret_cast<float*>(logits_.data),
          static_cast<int>(logits_rows_.size()),
          static_cast<int64_t>(logits_.row_bytes / sizeof(float))};
}

void BoundProgram::RunOp(const Op& op, int thread, Barrier& barrier,
                         std::atomic<int64_t>* next) {
  const auto [begin, end] = Share(RowCount(op.out.row_kind), thread, threads_);
  switch (op.kind) {
    case OpKind::Embed: {
      const auto embed = kernels_.embed[static_cast<int>(op.weight_format)];
      for (int64_t row = begin; row < end; ++row) {
        float* out =
            reinterpret_cast<float*>(op.out.data + row * op.out.row_bytes);
        const int token = step_rows_[row].token - op.first_token;
        if (token >= 0 && token < op.tokens) {
          embed(op.weight, op.inputs, token, out);
        } else {
          std::fill_n(out, op.out.columns, 0.0f);
        }
      }
      break;
    }
    case OpKind::Rotary: {
      const float* frequencies = reinterpret_cast<const float*>(op.weight);
      const int half = kv_.head_dim / 2;
      for (int64_t row = begin; row < end; ++row) {
        float* out =
            reinterpret_cast<float*>(op.out.data + row * op.out.row_bytes);
        for (int i = 0; i < half; ++i) {
          // The product is rounded to float32 before the cosine is taken, as
          // in transformers' LlamaRotaryEmbedding.
          const float angle =
              frequencies[i] * static_cast<float>(step_rows_[row].position);
          out[i] = op.scale *
                   static_cast<float>(std::cos(static_cast<double>(angle)));
          out[half + i] = op.scale * static_cast<float>(
                                         std::sin(static_cast<double>(angle)));
        }
      }
      break;
    }
    case OpKind::RmsNorm:
      for (int64_t row = begin; row < end; ++row) {
        const int64_t from =
            op.out.row_kind == RowKind::Logits ? logits_rows_[row] : row;
        kernels_.rms_norm(
            reinterpret_cast<const float*>(op.in.data + from * op.in.row_bytes),
            reinterpret_cast<const float*>(op.weight), op.in.columns,
            op.epsilon, op.out.data + row * op.out.row_bytes, op.out.row_bytes,
            op.out.format);
      }
      break;
    case OpKind::Matmul:
      RunMatmul(op, thread, next);
      break;
    case OpKind::RopeKv: {
      const int heads = kv_.num_kv_heads;
      const Range items =
          Share(int64_t(step_rows_.size()) * heads, thread, threads_);
      for (int64_t item = items.begin; item < items.end;) {
        const int64_t row = item / heads;
        const int first = static_cast<int>(item % heads);
        const int last = static_cast<int>(
            std::min<int64_t>(heads, first + (items.end - item)));
        const Row& at = step_rows_[row];
        RopeKvArgs args{};
        args.kv = kv_;
        args.cache = memory_.kv_cache;
        args.layer = op.layer;
        args.blocks = step_tables_[at.sequence].data();
        args.position = at.position;
        args.qkv =
            reinterpret_cast<float*>(op.out.data + row * op.out.row_bytes);
        args.rotary = reinterpret_cast<const float*>(op.in2.data +
                                                     row * op.in2.row_bytes);
        args.q_norm = reinterpret_cast<const float*>(op.weight);
        args.k_norm = reinterpret_cast<const float*>(op.bias);
        args.epsilon = op.epsilon;
        args.num_heads = num_heads_;
        kernels_.rope_kv(args, first, last);
        item += last - first;
      }
      break;
    }
    case OpKind::Attention:
      RunAttention(op, thread, barrier, next);
      break;
    case OpKind::Quantize: {
      // Rows may be few and wide: pairs of groups are shared out.
      const int pairs = (op.in.columns + kGroupPair - 1) / kGroupPair;
      const Range items =
          Share(int64_t{RowCount(op.out.row_kind)} * pairs, thread, threads_);
      for (int64_t item = items.begin; item < items.end;) {
        const int64_t row = item / pairs;
        const int first = static_cast<int>(item % pairs);
        const int last = static_cast<int>(
            std::min<int64_t>(pairs, first + (items.end - item)));
        kernels_.quantize(
            reinterpret_cast<const float*>(op.in.data + row * op.in.row_bytes),
            op.in.columns, first, last, op.out.data + row * op.out.row_bytes);
        item += last - first;
      }
      break;
    }
    case OpKind::AllReduce:
      if (transport_ != nullptr) {
        RunRemoteAllReduce(op, thread, barrier);
      } else {
        RunAllReduce(op, thread);
      }
      break;
    case OpKind::Gather:
      if (transport_ != nullptr) {
        const uint64_t rows = RowCount(op.in.row_kind);
        if (thread == 0 && rows > 0) {
          std::vector<std::span<const std::byte>> send(ranks_);
          std::vector<std::span<std::byte>> recv(ranks_);
          send[0] = {op.in.data, rows * op.in.row_bytes};
          for (int rank = 1; rank_ == 0 && rank < ranks_; ++rank) {
            recv[rank] = {op.parts[rank].data, rows * op.parts[rank].row_bytes};
          }
          transport_->Exchange(send, recv);
        }
        barrier.Wait();
      }
      RunGather(op, thread);
      break;
  }
}

void BoundProgram::RunAllReduce(const Op& op, int thread) {
  // Parts and sum are alike in shape, so that rows are one run of floats; the
  // padding between them is summed too.
  const int64_t floats =
      RowCount(op.out.row_kind) * op.out.row_bytes / sizeof(float);
  std::vector<const float*> parts;
  for (const Value& part : op.parts) {
    parts.push_back(reinterpret_cast<const float*>(part.data));
  }
  SumParts(parts, Share(floats, thread, threads_), op.epilogue == Epilogue::Add,
           reinterpret_cast<float*>(op.out.data));
}

void BoundProgram::RunRemoteAllReduce(const Op& op, int thread,
                                      Barrier& barrier) {
  const uint64_t bytes = RowCount(op.in.row_kind) * op.in.row_bytes;
  std::vector<std::span<const std::byte>> send(ranks_);
  std::vector<std::span<std::byte>> recv(ranks_);
  if (!SumsInShares(ranks_, bytes)) {
    if (thread == 0) {
      for (int rank = 0; rank < ranks_; ++rank) {
        send[rank] = {op.in.data, bytes};
        recv[rank] = {op.parts[rank].data, bytes};
      }
      transport_->Exchange(send, recv);
    }
    barrier.Wait();
    return RunAllReduce(op, thread);
  }
  // Every rank sums its share of the floats and tells the others.
  const auto share_of = [&](int rank) {
    return Share(static_cast<int64_t>(bytes / sizeof(float)), rank, ranks_);
  };
  const auto piece = [](std::byte* data, Range floats) {
    return std::span(data + floats.begin * sizeof(float),
                     (floats.end - floats.begin) * sizeof(float));
  };
  const Range mine = share_of(rank_);
  if (thread == 0) {
    for (int rank = 0; rank < ranks_; ++rank) {
      send[rank] = piece(op.in.data, share_of(rank));
      recv[rank] = piece(op.parts[rank].data, mine);
    }
    transport_->Exchange(send, recv);
  }
  barrier.Wait();
  float* const sums = reinterpret_cast<float*>(sum_memory_);
  std::vector<const float*> parts;
  for (const Value& part : op.parts) {
    parts.push_back(reinterpret_cast<const float*>(part.data));
  }
  const Range of_thread = Share(mine.end - mine.begin, thread, threads_);
  SumParts(parts, {mine.begin + of_thread.begin, mine.begin + of_thread.end},
           /*add=*/false, sums);
  barrier.Wait();
  if (thread == 0) {
    for (int rank = 0; rank < ranks_; ++rank) {
      send[rank] = piece(sum_memory_, mine);
      recv[rank] = piece(sum_memory_, share_of(rank));
    }
    transport_->Exchange(send, recv);
  }
  barrier.Wait();
  SumParts({&sums, 1},
           Share(static_cast<int64_t>(bytes / sizeof(float)), thread, threads_),
           op.epilogue == Epilogue::Add, reinterpret_cast<float*>(op.out.data));
}

void BoundProgram::RunGather(const Op& op, int thread) {
  if (rank_ != 0) return;
  const Range items =
      Share(int64_t{RowCount(op.out.row_kind)} * ranks_, thread, threads_);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t row = item / ranks_;
    const int rank = static_cast<int>(item % ranks_);
    const ShardRange tokens = VocabShard(vocab_size_, rank, ranks_);
    const Value& part = op.parts[rank];
    std::memcpy(
        op.out.data + row * op.out.row_bytes + tokens.begin * sizeof(float),
        part.data + row * part.row_bytes, tokens.size() * sizeof(float));
  }
}

void BoundProgram::ShareOut(int threads) {
  threads_ = threads;
  for (Op& op : ops_) {
    if (op.kind != OpKind::Matmul) continue;
    op.shares.clear();
    // A gate's panels stay together; where there are pieces, whole tiles do.
    const int64_t unit = op.epilogue == Epilogue::SiluGate ? 2 : 1;
    const int64_t tiles = int64_t{threads} * kMaxTilePanels;
    const bool pieces = threads > 1 && op.panels >= 8 * tiles;
    op.shared_panels = pieces ? op.panels / 2 / tiles * tiles : op.panels;
    for (int thread = 0; thread < threads; ++thread) {
      const Range units = Share(op.shared_panels / unit, thread, threads);
      const Range panels{units.begin * unit, units.end * unit};
      op.shares.push_back({panels, FirstBlockOf(op, panels)});
    }
    // A block, but several for each thread.
    const int64_t most =
        std::min<int64_t>(kMatmulBlockBytes / op.panel_bytes,
                          (op.panels - op.shared_panels) / (4 * threads));
    op.piece = std::max<int64_t>(most / kMaxTilePanels * kMaxTilePanels,
                                 kMaxTilePanels);
  }
}

WeightBlock BoundProgram::FirstBlockOf(const Op& op, const Range& panels) {
  return FirstBlock(op.weight_format, op.weight, op.inputs, op.tile,
                    panels.begin, panels.end);
}

// The threads are not equally fast: another may have their core for a while, or
// more of the bus. So half of the work goes to who comes first.
void BoundProgram::RunMatmul(const Op& op, int thread,
                             std::atomic<int64_t>* taken) {
  const int rows = RowCount(op.out.row_kind);
  if (rows == 0) return;
  MatmulArgs args{};
  args.weights = op.weight;
  args.panel_bytes = op.panel_bytes;
  args.inputs = op.inputs;
  args.bias = reinterpret_cast<const float*>(op.bias);
  args.x = op.in.data;
  args.x_row_bytes = op.in.row_bytes;
  args.rows = rows;
  args.out = op.out.data;
  args.out_row_bytes = op.out.row_bytes;
  args.out_format = op.out.format;
  args.epilogue = op.epilogue;
  args.past_caches =
      op.out.row_kind == RowKind::Logits && op.out.format == Format::Float32 &&
      op.epilogue == Epilogue::None && rows * op.out.row_bytes >= kPastCaches;
  args.tile = op.tile;
  args.scratch = memory_.scratch[thread];
  args.fetched = &op != first_matmul_;
  const auto matmul = kernels_.matmul[static_cast<int>(op.weight_format)];
  const WeightBlock of_next = RowCount(op.next->out.row_kind) > 0
                                  ? op.next->shares[thread].first
                                  : WeightBlock{};
  // A piece is taken one ahead, so that it comes from memory meanwhile: a
  // thread that is held up holds up that too.
  for (Range panels = op.shares[thread].panels;;) {
    const int64_t begin = op.shared_panels +
                          taken->fetch_add(op.piece, std::memory_order_relaxed);
    const Range piece{begin, std::min(begin + op.piece, op.panels)};
    const bool more = begin < op.panels;
    args.panel_begin = panels.begin;
    args.panel_end = panels.end;
    args.next = more ? FirstBlockOf(op, piece) : of_next;
    matmul(args);
    if (!more) break;
    panels = piece;
    args.fetched = true;
  }
}

void BoundProgram::PlanAttention() {
  parts_ = 0;
  int last = 0;
  for (const RowRun& run : runs_) {
    last = std::max(last, positions_[run.begin + run.count - 1]);
  }
  // Short items several at a time, so that one's keys come while another's are
  // used.
  const int64_t items = int64_t(runs_.size()) * kv_.num_kv_heads;
  items_together_ =
      std::clamp<int64_t>(std::min<int64_t>(kPositionsTogether / (last + 1),
                                            items / (2 * threads_)),
                          1, kv_.num_kv_heads);
  // Enough to hand out without, so that no thread waits long for the last.
  if (items >= 8 * threads_) return;
  const int parts = last / partition_len_ + 1;
  if (parts < 2) return;
  items_together_ = 1;
  parts_ = parts;
  part_memory_.resize(runs_.size() * kv_.num_kv_heads * parts * part_floats_);
}

AttentionArgs BoundProgram::AttentionOf(const Op& op, int thread,
                                        int64_t item) const {
  const RowRun& run = runs_[item / kv_.num_kv_heads];
  AttentionArgs args{};
  args.kv = kv_;
  args.cache = memory_.kv_cache;
  args.layer = op.layer;
  args.blocks = step_tables_[step_rows_[run.begin].sequence].data();
  args.kv_head = static_cast<int>(item % kv_.num_kv_heads);
  args.num_heads = num_heads_;
  args.rows = run.count;
  args.positions = &positions_[run.begin];
  args.q = op.in.data + run.begin * op.in.row_bytes;
  args.q_row_bytes = op.in.row_bytes;
  args.out = op.out.data + run.begin * op.out.row_bytes;
  args.out_row_bytes = op.out.row_bytes;
  args.out_format = op.out.format;
  args.scale = 1.0f / std::sqrt(static_cast<float>(kv_.head_dim));
  args.window = op.window;
  args.partition_len = partition_len_;
  args.scratch = memory_.scratch[thread];
  return args;
}

void BoundProgram::RunAttention(const Op& op, int thread, Barrier& barrier,
                                std::atomic<int64_t>* next) {
  // Sequences differ in length: items are handed out, not shared out.
  const int64_t items = int64_t(runs_.size()) * kv_.num_kv_heads;
  const auto take = [&] {
    return next->fetch_add(items_together_, std::memory_order_relaxed);
  };
  if (parts_ == 0) {
    for (int64_t item = take(); item < items; item = take()) {
      const int64_t end = std::min(item + items_together_, items);
      AttentionArgs args = AttentionOf(op, thread, item);
      while (item < end) {
        AttentionArgs after{};
        if (++item < end) {
          after = AttentionOf(op, thread, item);
          after.fetched = true;
          args.next = &after;
        }
        kernels_.attention(args);
        args = after;
      }
    }
    return;
  }
  // The partitions that a run sees: first and one past the last.
  const auto seen = [&](const AttentionArgs& args) {
    const int from = args.positions[0] + 1 - op.window;
    return Range{op.window == 0 || from < 0 ? 0 : from / partition_len_,
                 args.positions[args.rows - 1] / partition_len_ + 1};
  };
  const auto part = [&](int64_t item, int64_t partition) {
    return part_memory_.data() + (item * parts_ + partition) * part_floats_;
  };
  for (int64_t i = take(); i < items * parts_; i = take()) {
    const AttentionArgs args = AttentionOf(op, thread, i / parts_);
    const Range partitions = seen(args);
    const int64_t partition = i % parts_;
    if (partition < partitions.begin || partition >= partitions.end) continue;
    kernels_.attend_part(args, static_cast<int>(partition) * partition_len_,
                         part(i / parts_, partition));
  }
  barrier.Wait();
  const Range share = Share(items, thread, threads_);
  for (int64_t item = share.begin; item < share.end; ++item) {
    const AttentionArgs args = AttentionOf(op, thread, item);
    const Range partitions = seen(args);
    kernels_.combine_parts(args, part(item, partitions.begin), part_floats_,
                           static_cast<int>(partitions.end - partitions.begin));
  }
}

}  // namespace rbln
