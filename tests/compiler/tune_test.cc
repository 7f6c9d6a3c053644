// Measured tiles: what is taken, remembered and recorded. Not how fast.
#include "compiler/tune.h"

#include <doctest/doctest.h>

#include "artifact/program.h"
#include "checkpoint/checkpoint.h"
#include "compiler/compile.h"
#include "test_util.h"

namespace rbln {
namespace {

bool operator==(const MatmulTile& a, const MatmulTile& b) {
  return a.rows == b.rows && a.panels == b.panels && a.inputs == b.inputs;
}

TEST_CASE("tiles are measured once, and remembered for this machine") {
  const TempDir temp;
  const std::string path = temp / "cache/rbln-tool/tiles.json";
  const KernelTable& kernels = NativeKernels();
  std::vector<MeasuredTile> first;
  {
    Tuner tuner(kernels, 2, 1 << 20, path);
    first = tuner.Choose(Format::Int8, 8, 256, false);
    REQUIRE(first.size() > 1);
    for (size_t i = 1; i < first.size(); ++i) {
      // The default may come first although another was a little faster.
      CHECK(first[i].microseconds >= first[i == 1 ? 1 : i - 1].microseconds);
      CHECK(first[0].microseconds * 0.97 <= first[i].microseconds);
    }
    for (const MeasuredTile& m : tuner.Choose(Format::Int4, 8, 256, true)) {
      CHECK(m.tile.panels % 2 == (m.tile.panels == 1));
    }
    tuner.Save();
  }
  Tuner again(kernels, 2, 1 << 20, path);
  const std::vector<MeasuredTile>& second =
      again.Choose(Format::Int8, 8, 256, false);
  REQUIRE(second.size() == first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(second[i].tile == first[i].tile);
    CHECK(second[i].microseconds == first[i].microseconds);
  }

  for (const char* damaged : {"", "{", "[]", "{\"a\": 3}"}) {
    WriteTestFile(path, damaged);
    Tuner tuner(kernels, 2, 1 << 20, path);
    CHECK(tuner.Choose(Format::Float32, 1, 64, false).size() > 1);
    tuner.Save();
    CHECK(ReadTestFile(path).size() > 20);
  }
  // Where nothing can be written, nothing is lost but time.
  Tuner nowhere(kernels, 1, 1, "/proc/none/tiles.json");
  CHECK(nowhere.Choose(Format::BFloat16, 1, 64, false).size() > 1);
  nowhere.Save();
}

TEST_CASE("native is measured, a named target compiled by the record") {
  const TempDir temp;
  const std::string cache = temp / "cache";
  setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  const Checkpoint checkpoint = Checkpoint::Open(
      std::string(RBLN_TEST_DATA) + "/models/llama-mha", false);
  CompileOptions options;
  options.model = "checkpoint";
  options.batch_size = 4;
  options.decoder_batch_sizes = {4};
  options.max_seq_len = options.kvcache_block_size = 64;
  options.prefill_chunk_size = 64;
  options.weights = WeightFormat::kFloat32;
  options.activations = ActivationFormat::kFloat32;
  options.kv_caches = KvFormat::kFloat32;
  const auto compile = [&](const std::string& name, const std::string& target) {
    options.output = temp / name;
    options.target = target;
    Compile(checkpoint, options, {});
    return ReadProgram(options.output + "/decoder_batch_4.rbln");
  };
  const std::string isa = NativeKernels().isa;
  const ProgramT native = compile("native", "native");
  const ProgramT named = compile("named", isa);
  bool any = false;
  for (const auto& op : native.ops) {
    if (op->kind != OpKind::Matmul) continue;
    any = true;
    REQUIRE(op->measured.size() > 1);
    CHECK(op->measured[0]->kernel ==
          std::to_string(op->tile_rows) + "x" +
              std::to_string(op->tile_panels) + ", " +
              std::to_string(op->tile_inputs) + " inputs");
  }
  CHECK(any);
  for (const auto& op : named.ops) CHECK(op->measured.empty());
  // Remembered, a second output is the same bytes.
  compile("again", "native");
  CHECK(ReadTestFile(temp / "again/decoder_batch_4.rbln") ==
        ReadTestFile(temp / "native/decoder_batch_4.rbln"));
}

}  // namespace
}  // namespace rbln
