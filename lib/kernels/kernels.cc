#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>

#include "artifact/program.h"
#include "base/error.h"

namespace rbln {

extern const KernelTable kKernels_scalar;
#if defined(__x86_64__)
extern const KernelTable kKernels_avx2;
extern const KernelTable kKernels_avxvnni;
extern const KernelTable kKernels_avx512;
#endif

static_assert(kFormatFloat32 == Format::Float32 &&
              kFormatBFloat16 == Format::BFloat16 &&
              kStoreResult == Epilogue::None && kAddResult == Epilogue::Add &&
              kSiluGateResult == Epilogue::SiluGate &&
              kFormatInt8 == Format::Int8 && kFormatInt4 == Format::Int4 &&
              kFormats == static_cast<int>(Format::MAX) + 1 &&
              kGroup == kGroupSize);

namespace {

const KernelTable* const kTables[] = {
#if defined(__x86_64__)
    &kKernels_avx512,
    &kKernels_avxvnni,
    &kKernels_avx2,
#endif
    &kKernels_scalar,
};

}  // namespace

BlockShape MatmulBlockShape(const MatmulTile& tile, int64_t panels, int steps,
                            int step_inputs, int step_bytes) {
  const int64_t wanted = std::min<int64_t>(tile.panels, panels);
  const int together = wanted >= 4 ? 4 : wanted >= 2 ? 2 : 1;
  const int asked =
      tile.inputs < step_inputs ? steps : tile.inputs / step_inputs;
  const int most = std::min(asked, kMatmulBlockBytes / (together * step_bytes));
  const int blocks = (steps + most - 1) / most;
  return {together, (steps + blocks - 1) / blocks};
}

WeightBlock FirstBlock(Format format, const std::byte* weights, int inputs,
                       const MatmulTile& tile, int64_t begin, int64_t end) {
  if (begin >= end) return {};
  const int step_inputs = format == Format::Float32    ? 1
                          : format == Format::BFloat16 ? 2
                                                       : kGroupPair;
  const int steps = (inputs + step_inputs - 1) / step_inputs;
  const uint64_t panel_bytes = PanelBytes(format, inputs);
  const uint64_t step_bytes = panel_bytes / steps;
  const BlockShape shape = MatmulBlockShape(
      tile, end - begin, steps, step_inputs, static_cast<int>(step_bytes));
  return {weights + begin * panel_bytes, panel_bytes, shape.panels,
          shape.steps * step_bytes};
}

KvLayout KvLayout::Make(Format format, int head_dim, int num_kv_heads,
                        int num_layers, int block_size) {
  KvLayout kv{format, head_dim, num_kv_heads, num_layers, block_size, 0, 0, 0};
  const uint64_t element = format == Format::Float32    ? 4
                           : format == Format::BFloat16 ? 2
                                                        : 1;
  const uint64_t scales = format == Format::Int8 ? 2 * sizeof(float) : 0;
  // Int8 has K by fours of the dimensions.
  const uint64_t k_columns =
      format == Format::Int8 ? AlignUp(head_dim, 4) : head_dim;
  kv.group_bytes =
      kPanel * (element * (k_columns + AlignUp(head_dim, kPanel)) + scales);
  kv.slice_bytes = kv.group_bytes * (AlignUp(block_size, kPanel) / kPanel);
  kv.block_bytes = kv.slice_bytes * num_kv_heads * num_layers;
  return kv;
}

int AttentionRows(int num_heads, int num_kv_heads) {
  // Enough queries to reuse each tile of keys from the first-level cache.
  constexpr int kQueries = 32;
  return std::max(1, kQueries / (num_heads / num_kv_heads));
}

int64_t AttentionScratch(int num_heads, int num_kv_heads, int head_dim) {
  const int64_t queries = int64_t{AttentionRows(num_heads, num_kv_heads)} *
                          (num_heads / num_kv_heads);
  // For int8 also each query's header and its numbers in two halves.
  const int64_t whole = 4 + (2 * AlignUp(head_dim, 4)) / sizeof(float);
  return AlignUp(4 * queries, 16) +
         queries * (2 * AlignUp(head_dim, kPanel) + 19 + whole);
}

int64_t AttentionPart(int num_heads, int num_kv_heads, int head_dim) {
  const int64_t queries = int64_t{AttentionRows(num_heads, num_kv_heads)} *
                          (num_heads / num_kv_heads);
  return AlignUp(queries * (AlignUp(head_dim, kPanel) + 17), 16);
}

std::span<const KernelTable* const> KernelTables() { return kTables; }

#if defined(__x86_64__)
namespace {

// Features that not every compiler knows by name.
bool HasF16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
bool HasAvxVnni() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0;
}

}  // namespace
#endif

bool Supported(const KernelTable& table) {
#if defined(__x86_64__)
  const std::string_view isa = table.isa;
  __builtin_cpu_init();
  if (isa == "avx512") {
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512bf16");
  }
  if (isa == "avx2" || isa == "avxvnni") {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           HasF16c() && (isa == "avx2" || HasAvxVnni());
  }
#endif
  return true;
}

const KernelTable* FindKernels(std::string_view isa) {
  for (const KernelTable* table : kTables) {
    if (isa == table->isa) return table;
  }
  return nullptr;
}

const KernelTable& NativeKernels() {
  if (const char* name = std::getenv("RBLN_ISA");
      name != nullptr && *name != '\0') {
    const KernelTable* table = FindKernels(name);
    if (table == nullptr || !Supported(*table)) {
      std::string usable;
      for (const KernelTable* known : kTables) {
        if (Supported(*known)) {
          usable +=
              usable.empty() ? known->isa : std::string(", ") + known->isa;
        }
      }
      throw UsageError("RBLN_ISA={}: {}; this machine runs: {}", name,
                       table == nullptr ? "no such instruction set"
                                        : "this machine lacks it",
                       usable);
    }
    return *table;
  }
  return **std::find_if(std::begin(kTables), std::end(kTables),
                        [](const KernelTable* t) { return Supported(*t); });
}

MatmulTile DefaultTile(std::string_view isa, Format format, int rows,
                       int inputs) {
  const bool wide = isa == "avx512";
  if (format == Format::Int8 || format == Format::Int4) {
    if (!wide)
      return rows <= 16 ? MatmulTile{rows, 1, inputs} : MatmulTile{8, 1, 1024};
    if (rows <= 4) return {rows, 1, inputs};
    if (rows > 16) return {5, 2, 2048};
    const int parts = (rows + 5) / 6;  // much alike
    return {(rows + parts - 1) / parts, 2, inputs};
  }
  if (!wide && rows == 1) return {rows, 4, inputs};
  if (rows <= 16) return {rows, 2, inputs};
  // Many rows. Rows lie powers of two apart and fall on the same lines of the
  // first-level cache: twelve of them fill it, and it may be shared.
  if (wide) return {6, 4, 1024};
  return {4, 2, format == Format::Float32 ? 256 : 1024};
}

}  // namespace rbln
