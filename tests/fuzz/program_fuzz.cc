// Any bytes as a .rbln file: what the checks let pass is run, on weights of the
// shapes it asks for.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "artifact/program.h"
#include "runtime/program.h"
#include "test_util.h"

namespace rbln {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 22;

void RunProgram(const ProgramT& program) {
  if (program.ranks > 1) return;  // one alone cannot run
  // A file of zeros.
  std::map<std::string, uint64_t> sizes;
  uint64_t weights_bytes = 0;
  for (const auto& weight : program.weights) {
    if (!sizes.emplace(weight->name, weight->bytes).second) return;
    if (weight->bytes > kMaxBytes) return;
    weights_bytes += weight->bytes;
  }
  const KvLayout kv =
      KvLayout::Make(program.kv_format, program.head_dim, program.num_kv_heads,
                     program.num_layers, program.kvcache_block_size);
  const int64_t scratch = BoundProgram::ScratchFloats(program);
  if (weights_bytes > kMaxBytes || program.arena_bytes > kMaxBytes ||
      kv.block_bytes > kMaxBytes ||
      static_cast<uint64_t>(scratch) > kMaxBytes || program.ops.size() > 500) {
    return;
  }
  static const TempDir directory;
  const std::string path = directory / "weights.safetensors";
  WeightsLayout layout;
  for (const auto& [name, bytes] : sizes) layout.Add(name, bytes);
  WriteTestFile(path, layout.Header());
  std::filesystem::resize_file(path, layout.file_bytes());

  // Each of its own, so that a sanitizer sees what leaves it.
  const auto aligned = [](uint64_t bytes) {
    return std::unique_ptr<std::byte, decltype(&std::free)>(
        static_cast<std::byte*>(
            std::aligned_alloc(kAlignment, AlignUp(bytes + 1, kAlignment))),
        &std::free);
  };
  const auto arena = aligned(program.arena_bytes);
  const auto cache = aligned(kv.block_bytes);
  const auto scratch_memory = aligned(scratch * sizeof(float));
  std::memset(arena.get(), 0, program.arena_bytes);
  std::memset(cache.get(), 0, kv.block_bytes);
  StepMemory memory;
  memory.arena = arena.get();
  memory.kv_cache = cache.get();
  memory.scratch = {reinterpret_cast<float*>(scratch_memory.get())};
  const PackedWeights weights(path);
  BoundProgram bound(program, weights, *FindKernels("scalar"), memory);
  static ThreadTeam team(1, /*pin=*/false);
  std::vector<Row> rows;
  for (int i = 0; i < std::min(program.rows, 8); ++i) {
    if (i >= program.kvcache_block_size) break;
    rows.push_back({program.vocab_size - 1, i, 0, true});
  }
  const std::vector<int32_t> blocks = {0};
  const std::vector<BlockTable> tables = {blocks};
  bound.Begin(rows, tables, 1);
  bound.Run(0, {&team.barrier(), &team.barrier()}, nullptr);
}

}  // namespace
}  // namespace rbln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Where a file is mapped is aligned.
  const std::vector<std::byte> bytes(
      reinterpret_cast<const std::byte*>(data),
      reinterpret_cast<const std::byte*>(data) + size);
  try {
    rbln::RunProgram(rbln::ParseProgram(bytes, "fuzz"));
  } catch (const rbln::Error&) {
  }
  return 0;
}
