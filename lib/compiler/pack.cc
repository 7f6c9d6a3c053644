// Packing: the checkpoint's tensors become panels (kernels/table.h), in pieces
// small enough that memory does not depend on the model's size.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "base/file.h"
#include "base/hash.h"
#include "base/threads.h"
#include "compiler/lower.h"
#include "kernels/kernels.h"

namespace rbln {

namespace {

// About the source floats that one thread holds at a time.
constexpr int64_t kPieceElements = int64_t{1} << 19;

uint16_t RoundToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40);  // keep it a NaN
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Where a packed output column comes from.
struct Column {
  int tensor;   // -1: padding
  int64_t row;  // of this rank's share
};

Column SourceOf(const GraphWeight& weight, int64_t column) {
  if (weight.packing == Packing::kAlternate) {
    const int tensors = static_cast<int>(weight.tensors.size());
    const int64_t panel = column / kPanel;
    const int tensor = static_cast<int>(panel % tensors);
    const int64_t row = panel / tensors * kPanel + column % kPanel;
    return row < weight.tensor_outputs[tensor] ? Column{tensor, row}
                                               : Column{-1, 0};
  }
  for (size_t tensor = 0; tensor < weight.tensors.size(); ++tensor) {
    if (column < weight.tensor_outputs[tensor]) {
      return {static_cast<int>(tensor), column};
    }
    column -= weight.tensor_outputs[tensor];
  }
  return {-1, 0};
}

// The largest magnitude that a format holds: what is beyond overflows bfloat16,
// or the float16 scale of its group.
float LargestWeight(Format format) {
  switch (format) {
    case Format::Int8:
      return 65504.0f * 127;
    case Format::Int4:
      return 65504.0f * 6;
    case Format::BFloat16:
      return 0x1.fep127f;
    default:
      return std::numeric_limits<float>::max();
  }
}

// Reads the rows of panels [begin, end) as (16 * panels, inputs) floats, rows
// of padding as zeros. Rows that follow each other in a tensor are read at
// once.
void ReadPanels(const GraphWeight& weight, const WeightSource& source,
                int64_t begin, int64_t end, std::vector<float>* rows) {
  const int64_t inputs = std::max(1, weight.inputs);
  const int64_t all_inputs =
      weight.tensor_inputs > 0 ? weight.tensor_inputs : inputs;
  const int64_t count = (end - begin) * kPanel;
  rows->assign(count * inputs, 0.0f);
  for (int64_t i = 0; i < count;) {
    const Column from = SourceOf(weight, begin * kPanel + i);
    int64_t run = 1;
    while (i + run < count && all_inputs == inputs) {
      const Column next = SourceOf(weight, begin * kPanel + i + run);
      if (next.tensor != from.tensor ||
          (from.tensor >= 0 && next.row != from.row + run)) {
        break;
      }
      ++run;
    }
    if (from.tensor >= 0) {
      const int64_t row =
          from.row +
          (weight.tensor_begin.empty() ? 0 : weight.tensor_begin[from.tensor]);
      source.Read(weight.tensors[from.tensor],
                  row * all_inputs + weight.input_begin,
                  std::span(*rows).subspan(i * inputs, run * inputs));
    }
    i += run;
  }
}

// Throws for a weight that is no number or too large: it would spoil answers,
// or, quantized, hide. `rows` are output columns from `first` on.
void CheckRows(const GraphWeight& weight, int64_t first,
               std::span<const float> rows) {
  const auto magnitude = [](float x) {
    return std::bit_cast<int32_t>(x) & 0x7fffffff;
  };
  const float largest = LargestWeight(weight.format);
  const int32_t most = magnitude(largest);
  // Magnitudes are in the order of their bits, NaN behind infinity. Without a
  // branch this is done many at a time.
  int32_t bad = 0;
  for (const float x : rows) bad |= magnitude(x) > most;
  if (bad == 0) return;
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](float x) { return magnitude(x) > most; });
  const int64_t inputs = std::max(1, weight.inputs);
  const int64_t at = found - rows.begin();
  const Column from = SourceOf(weight, first + at / inputs);
  const int64_t row =
      from.row +
      (weight.tensor_begin.empty() ? 0 : weight.tensor_begin[from.tensor]);
  throw UsageError(
      "tensor '{}': the weight at ({}) is {}, expected a number of magnitude "
      "at most {:.4g}, which {} can hold; the checkpoint is damaged or "
      "overflowed: download or convert it again",
      weight.tensors[from.tensor],
      weight.inputs == 0
          ? fmt::format("{}", row)
          : fmt::format("{}, {}", row, weight.input_begin + at % inputs),
      *found, largest, FormatName(weight.format));
}

// One panel: 16 rows of `inputs` floats.
void PackPanel(const GraphWeight& weight, const KernelTable& kernels,
               const float* rows, std::byte* out) {
  const int inputs = weight.inputs;
  if (weight.format == Format::Int8)
    return kernels.pack_int8(rows, inputs, out);
  if (weight.format == Format::Int4)
    return kernels.pack_int4(rows, inputs, out);
  if (weight.format == Format::Float32) {
    float* to = reinterpret_cast<float*>(out);
    for (int k = 0; k < inputs; ++k) {
      for (int lane = 0; lane < kPanel; ++lane) {
        to[k * kPanel + lane] = rows[int64_t{lane} * inputs + k];
      }
    }
    return;
  }
  uint16_t* to = reinterpret_cast<uint16_t*>(out);
  for (int k = 0; k < inputs; ++k) {
    for (int lane = 0; lane < kPanel; ++lane) {
      to[(k / 2 * kPanel + lane) * 2 + k % 2] =
          RoundToBf16(rows[int64_t{lane} * inputs + k]);
    }
  }
}

// A run of panels of one weight, or a whole vector.
struct Piece {
  const GraphWeight* weight;
  int64_t begin;
  int64_t end;
  uint64_t offset;  // in the file
};

// The checksum of pieces that become known in nearly any order.
class OrderedHasher {
 public:
  explicit OrderedHasher(std::string_view before) { hasher_.Update(before); }

  // Piece `index`, counted from 0, whose bytes may be taken. From any thread.
  void Add(int64_t index, std::vector<std::byte>& bytes) {
    const std::lock_guard lock(mutex_);
    if (index != next_) {
      waiting_[index] = std::move(bytes);
      return;
    }
    hasher_.Update(bytes);
    ++next_;
    for (auto first = waiting_.begin();
         first != waiting_.end() && first->first == next_;
         first = waiting_.erase(first)) {
      hasher_.Update(first->second);
      ++next_;
    }
  }
  // Of all pieces.
  std::string Digest() const { return hasher_.Digest(); }

 private:
  std::mutex mutex_;
  Hasher hasher_;
  int64_t next_ = 0;
  // No more than there are threads: pieces are begun in order.
  std::map<int64_t, std::vector<std::byte>> waiting_;
};

// The weights that operations use, in order of first use.
std::vector<const GraphWeight*> UsedWeights(const Graph& graph) {
  std::vector<bool> seen(graph.weights.size(), false);
  std::vector<const GraphWeight*> used;
  for (const GraphOp& op : graph.ops) {
    for (const int index : {op.weight, op.bias}) {
      if (index < 0 || seen[index]) continue;
      seen[index] = true;
      used.push_back(&graph.weights[index]);
    }
  }
  return used;
}

WeightsLayout LayOut(const Graph& graph) {
  WeightsLayout layout;
  for (const GraphWeight* weight : UsedWeights(graph)) {
    layout.Add(weight->name, WeightBytes(*weight));
  }
  return layout;
}

}  // namespace

uint64_t PackedBytes(const Graph& graph) { return LayOut(graph).file_bytes(); }

ManifestFile PackWeights(const Graph& graph, const WeightSource& source,
                         int threads, const std::string& path,
                         const std::function<void(uint64_t)>& progress) {
  const std::vector<const GraphWeight*> used = UsedWeights(graph);
  const WeightsLayout layout = LayOut(graph);
  const std::string header = layout.Header();

  std::vector<Piece> pieces;
  uint64_t offset = header.size();
  for (const GraphWeight* weight : used) {
    if (weight->inputs == 0) {
      pieces.push_back({weight, 0, Panels(weight->Outputs()), offset});
    } else {
      const int64_t panels = Panels(weight->Outputs());
      const uint64_t panel_bytes = WeightBytes(*weight) / panels;
      const int64_t step = std::max<int64_t>(
          1, kPieceElements / (int64_t{kPanel} * weight->inputs));
      for (int64_t begin = 0; begin < panels; begin += step) {
        pieces.push_back({weight, begin, std::min(begin + step, panels),
                          offset + begin * panel_bytes});
      }
    }
    offset += WeightBytes(*weight);
  }

  const KernelTable& kernels = NativeKernels();
  FileWriter file(path);
  file.Truncate(offset);
  file.WriteAt(0, std::as_bytes(std::span(header)));
  OrderedHasher hasher(header);
  ParallelFor(threads, static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const Piece& piece = pieces[i];
    const GraphWeight& weight = *piece.weight;
    thread_local std::vector<float> rows;
    thread_local std::vector<std::byte> packed;
    if (weight.inputs == 0) {
      if (weight.tensors.empty()) {
        rows = weight.constants;
      } else {
        ReadPanels(weight, source, piece.begin, piece.end, &rows);
        CheckRows(weight, piece.begin * kPanel, rows);
      }
      packed.assign(WeightBytes(weight), std::byte{0});
      std::memcpy(packed.data(), rows.data(),
                  std::min(packed.size(), rows.size() * sizeof(float)));
    } else {
      ReadPanels(weight, source, piece.begin, piece.end, &rows);
      const uint64_t panel_bytes =
          WeightBytes(weight) / Panels(weight.Outputs());
      packed.assign(panel_bytes * (piece.end - piece.begin), std::byte{0});
      for (int64_t panel = 0; panel < piece.end - piece.begin; ++panel) {
        // Beside packing, which finds the panel in the cache.
        const std::span<const float> panel_rows = std::span(rows).subspan(
            panel * kPanel * weight.inputs, int64_t{kPanel} * weight.inputs);
        CheckRows(weight, (piece.begin + panel) * kPanel, panel_rows);
        PackPanel(weight, kernels, panel_rows.data(),
                  packed.data() + panel * panel_bytes);
      }
    }
    file.WriteAt(piece.offset, packed);
    if (progress) progress(packed.size());
    hasher.Add(i, packed);
  });
  file.Sync();
  file.Close();
  return {offset, hasher.Digest()};
}

}  // namespace rbln
