// The compile job: what it refuses, and that nothing of anybody's is lost.
#include "compiler/compile.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>

#include "test_util.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

// A float32 checkpoint, tensor after tensor.
const std::string kModel = std::string(RBLN_TEST_DATA) + "/models/llama-mha";

CompileOptions Options(const std::string& output) {
  CompileOptions options;
  options.model = "checkpoint";
  options.output = output;
  options.batch_size = 2;
  options.decoder_batch_sizes = {2, 1};
  options.max_seq_len = options.kvcache_block_size = 64;
  options.prefill_chunk_size = 64;
  options.target = "scalar";  // by name: nothing is measured
  options.weights = WeightFormat::kFloat32;
  options.activations = ActivationFormat::kFloat32;
  options.kv_caches = KvFormat::kFloat32;
  return options;
}

// The message and kind of what `act` throws.
std::string ErrorOf(ErrorKind kind, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "no error";
}

TEST_CASE("a directory that holds somebody's files is not compiled over") {
  const TempDir temp;
  const Checkpoint checkpoint = Checkpoint::Open(kModel, false);
  CompileOptions options = Options(temp / "out");
  Compile(checkpoint, options, {});
  const std::string lost =
      ", which is not of a compile and would be lost; move it away, or choose "
      "another output";
  // A directory counts, whatever its name is.
  for (const char* name : {"answers/a.jsonl", "notes.txt", "weights.old",
                           "prefill.rbln.d/x"}) {
    const std::string top = std::string(name).substr(
        0, std::string(name).find('/'));
    WriteTestFile(options.output + "/" + name, "x");
    options.decoder_batch_sizes = {2};
    CHECK(ErrorOf(ErrorKind::kUsage,
                  [&] { Compile(checkpoint, options, {}); }) ==
          "output: " + options.output + " holds '" + top + "'" + lost);
    CHECK(ReadTestFile(options.output + "/" + name) == "x");
    fs::remove_all(options.output + "/" + top);

    const std::string partial = options.output + ".partial";
    WriteTestFile(partial + "/" + name, "x");
    CHECK(ErrorOf(ErrorKind::kUsage,
                  [&] { Compile(checkpoint, options, {}); }) ==
          "output: " + partial + " holds '" + top + "'" + lost);
    CHECK(ReadTestFile(partial + "/" + name) == "x");
    fs::remove_all(partial);
  }
  // What a killed compile left is cleared away.
  WriteTestFile(options.output + ".partial/weights.rank3.safetensors", "x");
  WriteTestFile(options.output + ".partial/decoder_batch_9.rbln", "x");
  Compile(checkpoint, options, {});
  CHECK(!fs::exists(options.output + ".partial"));
  CHECK(!fs::exists(options.output + "/decoder_batch_1.rbln"));
  // Nor is anything cleared behind a link.
  WriteTestFile(temp / "else/prefill.rbln", "x");
  fs::create_symlink(temp / "else", options.output + ".partial");
  options.decoder_batch_sizes = {2, 1};
  CHECK(ErrorOf(ErrorKind::kResource,
                [&] { Compile(checkpoint, options, {}); }) != "no error");
  CHECK(ReadTestFile(temp / "else/prefill.rbln") == "x");
}

}  // namespace
}  // namespace rbln
