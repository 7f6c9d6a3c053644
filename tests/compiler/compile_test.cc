// The compile job: what it refuses, and that nothing of anybody's is lost.
#include "compiler/compile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

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
  for (const char* name :
       {"answers/a.jsonl", "notes.txt", "weights.old", "prefill.rbln.d/x"}) {
    const std::string top =
        std::string(name).substr(0, std::string(name).find('/'));
    WriteTestFile(options.output + "/" + name, "x");
    options.decoder_batch_sizes = {2};
    CHECK(ErrorOf(ErrorKind::kUsage, [&] {
            Compile(checkpoint, options, {});
          }) == "output: " + options.output + " holds '" + top + "'" + lost);
    CHECK(ReadTestFile(options.output + "/" + name) == "x");
    fs::remove_all(options.output + "/" + top);

    const std::string partial = options.output + ".partial";
    WriteTestFile(partial + "/" + name, "x");
    CHECK(ErrorOf(ErrorKind::kUsage, [&] {
            Compile(checkpoint, options, {});
          }) == "output: " + partial + " holds '" + top + "'" + lost);
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

TEST_CASE("a link to the output stays, and the current directory is refused") {
  const TempDir temp;
  const Checkpoint checkpoint = Checkpoint::Open(kModel, false);
  fs::create_directories(temp / "far");
  // Relative to the link, to what is not there yet.
  fs::create_symlink("far/real", temp / "link");
  fs::create_symlink(temp / "link", temp / "link-to-link");
  Compile(checkpoint, Options(temp / "link-to-link"), {});
  CHECK(Compile(checkpoint, Options(temp / "far/real"), {}).up_to_date());
  CompileOptions other = Options(temp / "link");
  other.decoder_batch_sizes = {2};
  CHECK(!Compile(checkpoint, other, {}).up_to_date());
  CHECK(fs::is_symlink(temp / "link"));
  CHECK(!fs::exists(temp / "far/real/decoder_batch_1.rbln"));
  CHECK(!fs::exists(temp / "link.partial"));
  CHECK(!fs::exists(temp / "far/real.partial"));

  fs::create_symlink("b", temp / "a");
  fs::create_symlink("a", temp / "b");
  CHECK(ErrorOf(ErrorKind::kUsage, [&] {
          Compile(checkpoint, Options(temp / "a"), {});
        }) == "output: " + temp.path() + "/a: its links lead nowhere");

  const fs::path before = fs::current_path();
  fs::create_directories(temp / "here");
  fs::current_path(temp / "here");
  CHECK(ErrorOf(ErrorKind::kUsage,
                [&] { Compile(checkpoint, Options("."), {}); }) ==
        "output: . is the current directory, which cannot be replaced; name "
        "another one");
  fs::current_path(before);
}

TEST_CASE(
    "weights that are no numbers, or too large, are refused by tensor and "
    "index") {
  const TempDir temp;
  const std::string model = temp / "model";
  fs::copy(kModel, model);
  const std::string file = model + "/model.safetensors";
  const std::string good = ReadTestFile(file);
  uint64_t length = 0;
  std::memcpy(&length, good.data(), 8);
  const std::string tensor = "model.layers.1.mlp.up_proj.weight";
  const std::string header = good.substr(8, length);
  const std::string offsets = "\"data_offsets\":[";
  const size_t entry = header.find("\"" + tensor + "\"");
  REQUIRE(entry != std::string::npos);
  const size_t begin =
      std::stoull(header.substr(header.find(offsets, entry) + offsets.size()));
  const int row_length = Checkpoint::Open(model, false).model().hidden_size;

  struct Case {
    float value;
    WeightFormat format;
    const char* refused;  // null: compiled
    int ranks = 1;
  };
  const float kInfinity = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {NAN, WeightFormat::kFloat32, "nan"},
      {NAN, WeightFormat::kInt4, "nan"},
      {NAN, WeightFormat::kInt8, "nan", 2},
      {-kInfinity, WeightFormat::kBFloat16, "-inf"},
      {3.4e38f, WeightFormat::kFloat32, nullptr},
      {3.4e38f, WeightFormat::kBFloat16, "3.4e+38"},
      {1e6f, WeightFormat::kInt8, nullptr},
      {-1e6f, WeightFormat::kInt4, "-1000000"},
  };
  for (const Case& c : cases) {
    std::string bad = good;
    std::memcpy(bad.data() + 8 + length + begin + 4 * (60 * row_length + 5),
                &c.value, 4);
    WriteTestFile(file, bad);
    CompileOptions options = Options(temp / "out");
    options.weights = c.format;
    options.tensor_parallel_size = c.ranks;
    options.activations =
        c.format == WeightFormat::kFloat32    ? ActivationFormat::kFloat32
        : c.format == WeightFormat::kBFloat16 ? ActivationFormat::kBFloat16
                                              : ActivationFormat::kInt8;
    const std::string error = ErrorOf(ErrorKind::kUsage, [&] {
      Compile(Checkpoint::Open(model, false), options, {});
    });
    if (c.refused == nullptr) {
      CHECK(error == "no error");
    } else {
      CHECK(error.starts_with("tensor '" + tensor +
                              "': the weight at (60, 5) is " + c.refused +
                              ", expected a number of magnitude at most "));
      CHECK(!fs::exists(temp / "out"));
      CHECK(!fs::exists(temp / "out.partial"));
    }
    fs::remove_all(temp / "out");
  }
}

}  // namespace
}  // namespace rbln
