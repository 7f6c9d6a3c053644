// Bad checkpoints and their messages; good ones read exactly.
#include "checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/json.h"
#include "test_util.h"

namespace rbln {
namespace {

Json GoodConfig() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 4},
          {"hidden_size", 4},
          {"intermediate_size", 6},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"tie_word_embeddings", true},
          {"dtype", "float32"}};
}

std::string LittleEndian(uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

// A safetensors file with the tensors that `config` wants, element i of tensor
// t being t + i / 100; `change` may spoil the header.
std::string Safetensors(const Json& config,
                        const std::function<void(Json&)>& change = nullptr) {
  const ModelDescription model = ParseModelConfig(config.dump(), "config.json");
  Json header = Json::object();
  std::string data;
  float t = 0;
  for (const TensorSpec& spec : ExpectedTensors(model)) {
    const size_t begin = data.size();
    int64_t count = 1;
    for (const int64_t d : spec.shape) count *= d;
    for (int64_t i = 0; i < count; ++i) {
      const float x = t + static_cast<float>(i) / 100;
      data.append(reinterpret_cast<const char*>(&x), 4);
    }
    header[spec.name] = {{"dtype", "F32"},
                         {"shape", spec.shape},
                         {"data_offsets", {begin, data.size()}}};
    t += 1;
  }
  if (change) change(header);
  const std::string text = header.dump();
  return LittleEndian(text.size()) + text + data;
}

std::string ErrorOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST_CASE("a good checkpoint is read exactly, in any piece") {
  const TempDir temp;
  WriteTestFile(temp / "config.json", GoodConfig().dump());
  WriteTestFile(temp / "model.safetensors", Safetensors(GoodConfig()));
  const Checkpoint checkpoint = Checkpoint::Open(temp.path(), false);
  CHECK(checkpoint.model().num_kv_heads == 1);
  CHECK(checkpoint.model().head_dim == 2);
  std::vector<float> out(3);
  checkpoint.weights().Read("model.embed_tokens.weight", 5, out);
  CHECK(out == std::vector<float>{5.0f / 100, 6.0f / 100, 7.0f / 100});
  const std::string print = checkpoint.weights().Fingerprint();
  CHECK(print == Checkpoint::Open(temp.path(), false).weights().Fingerprint());
  std::string changed = Safetensors(GoodConfig());
  changed.back() ^= 1;
  WriteTestFile(temp / "model.safetensors", changed);
  CHECK(print != Checkpoint::Open(temp.path(), false).weights().Fingerprint());
}

TEST_CASE("float16 and bfloat16 are widened exactly") {
  const TempDir temp;
  WriteTestFile(temp / "config.json", GoodConfig().dump());
  for (const bool half : {true, false}) {
    const std::string file = Safetensors(GoodConfig(), [&](Json& header) {
      // The embedding's 64 bytes are read as 16 numbers of two bytes.
      Json& entry = header["model.embed_tokens.weight"];
      entry["dtype"] = half ? "F16" : "BF16";
      entry["data_offsets"] = {0, 32};
    });
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    std::string spoiled = file;
    const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7c00, 0x03ff};
    const uint16_t brains[] = {0x3f80, 0xc000, 0x0001, 0x8000, 0x7f80, 0x4049};
    std::memcpy(spoiled.data() + 8 + length, half ? halves : brains, 12);
    WriteTestFile(temp / "model.safetensors", spoiled);
    std::vector<float> out(6);
    Checkpoint::Open(temp.path(), false)
        .weights()
        .Read("model.embed_tokens.weight", 0, out);
    CHECK(out[0] == 1.0f);
    CHECK(out[1] == -2.0f);
    CHECK(out[2] == (half ? 0x1p-24f : 0x1p-133f));
    CHECK((out[3] == 0.0f && std::signbit(out[3])));
    CHECK(out[4] == std::numeric_limits<float>::infinity());
    CHECK(out[5] == (half ? 1023 * 0x1p-24f : 3.140625f));
  }
}

TEST_CASE("a bad config.json is refused by what is wrong in it") {
  struct Case {
    const char* key;
    Json value;  // discarded: the key is removed
    const char* message;
  };
  const Case cases[] = {
      {"architectures",
       {"GPT2LMHeadModel"},
       "c: architecture GPT2LMHeadModel is not supported; supported are: "
       "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
       "Qwen3ForCausalLM"},
      {"vocab_size", Json(Json::value_t::discarded),
       "c: 'vocab_size' is missing"},
      {"vocab_size", -1,
       "c: 'vocab_size' is -1, expected a whole number from 1 to 16777216"},
      {"hidden_size", 4.5,
       "c: 'hidden_size' is 4.5, expected a whole number from 1 to 16777216"},
      {"num_key_value_heads", 3,
       "c: 'num_key_value_heads' is 3, which does not divide "
       "'num_attention_heads', 2"},
      {"head_dim", 3,
       "c: the head size is 3, expected an even number of at most 1024"},
      {"hidden_act", "gelu", "c: 'hidden_act' is gelu, supported is: silu"},
      {"rms_norm_eps", "x",
       "c: 'rms_norm_eps' is \"x\", expected a positive "
       "number"},
      {"rope_scaling",
       {{"rope_type", "su"}, {"factor", 2.0}},
       "c: rope_scaling: rope type 'su' is not supported; supported are: "
       "default, linear, llama3, dynamic, yarn, longrope"},
      {"rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1.0}}},
       "c: rope_scaling: 'long_factor' is missing, expected a list of 1 "
       "positive numbers"},
      {"rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1, -1}}},
       "c: rope_scaling: 'short_factor' is [1,-1], expected a list of 1 "
       "positive numbers"},
      {"rope_scaling",
       {{"rope_type", "yarn"}, {"factor", -2.0}},
       "c: rope_scaling: 'factor' is -2.0, expected a positive number"},
      {"rope_scaling",
       {{"type", "linear"}},
       "c: rope_scaling: 'factor' is missing"},
      {"eos_token_id", "x",
       "c: 'eos_token_id' is \"x\", expected a token id or a list of them"},
      {"eos_token_id",
       {2, 2.5},
       "c: 'eos_token_id' is [2,2.5], expected a token id or a list of them"},
      {"sliding_window", -1,
       "c: 'sliding_window' is -1, expected a whole number from 0 to 16777216"},
      {"quantization_config",
       {{"bits", 4}},
       "c: the weights are quantized already ('quantization_config': "
       "{\"bits\":4}); give the checkpoint in float32, float16 or bfloat16"},
  };
  for (const Case& c : cases) {
    Json config = GoodConfig();
    if (c.value.is_discarded()) {
      config.erase(c.key);
    } else {
      config[c.key] = c.value;
    }
    CHECK(ErrorOf([&] { ParseModelConfig(config.dump(), "c"); }) == c.message);
  }
}

TEST_CASE("bad weights are refused by file and tensor") {
  const TempDir temp;
  const std::string dir = temp.path();
  const std::string file = temp / "model.safetensors";
  WriteTestFile(temp / "config.json", GoodConfig().dump());
  const auto open = [&] { Checkpoint::Open(dir, false); };
  const char* embed = "model.embed_tokens.weight";

  CHECK(ErrorOf(open) == dir +
                             ": has neither model.safetensors nor "
                             "model.safetensors.index.json");
  WriteTestFile(temp / "pytorch_model.bin", "x");
  CHECK(ErrorOf(open) ==
        dir +
            ": has neither model.safetensors nor "
            "model.safetensors.index.json; pytorch_model.bin is not read: "
            "save the model again with safe_serialization=True");

  struct Case {
    std::string content;
    std::string message;
  };
  const std::string good = Safetensors(GoodConfig());
  const auto spoiled = [&](const std::function<void(Json&)>& change) {
    return Safetensors(GoodConfig(), change);
  };
  const Case cases[] = {
      {"abc", file + ": 3 bytes, too short for a safetensors file"},
      {LittleEndian(uint64_t{1} << 60) + "{}",
       file + ": the header claims 1152921504606846976 bytes of a file of 10; "
              "it is no safetensors file, or cut off"},
      {LittleEndian(2) + "[]", file + ": the header is not a JSON object"},
      {spoiled([&](Json& h) { h.erase(embed); }),
       dir + ": tensor 'model.embed_tokens.weight' (4, 4) is missing"},
      {spoiled([&](Json& h) {
         h[embed]["shape"] = {2, 8};
       }),
       dir + ": tensor 'model.embed_tokens.weight' has shape (2, 8), "
             "config.json makes it (4, 4)"},
      {spoiled([&](Json& h) { h[embed]["dtype"] = "I32"; }),
       dir + ": tensor 'model.embed_tokens.weight' is of type I32; read are: "
             "F32, F16, BF16"},
      {spoiled([&](Json& h) {
         h[embed]["shape"] = {1ll << 40, 1ll << 40};
       }),
       file + ": tensor 'model.embed_tokens.weight' has 64 bytes, its shape of "
              "[1099511627776,1099511627776] wants more than there can be"},
      {spoiled([&](Json& h) {
         h[embed]["data_offsets"] = {8, 4};
       }),
       file + ": tensor 'model.embed_tokens.weight' lies at 8 to 4, but the "
              "file has 592 bytes of data; it may be cut off: download it "
              "again"},
      {spoiled([&](Json& h) {
         h[embed]["data_offsets"] = {4, 68};
       }),
       file + ": tensors 'model.embed_tokens.weight' and "
              "'model.layers.0.input_layernorm.weight' overlap"},
  };
  for (const Case& c : cases) {
    WriteTestFile(file, c.content);
    CHECK(ErrorOf(open) == c.message);
  }
  WriteTestFile(file, good.substr(0, good.size() - 1));
  CHECK(ErrorOf(open).find("but the file has 591 bytes of data; it may be cut "
                           "off") != std::string::npos);
}

TEST_CASE("surplus tensors are warned of, but not those that are known") {
  const TempDir temp;
  Json config = GoodConfig();
  config["num_hidden_layers"] = 2;
  const std::string two = Safetensors(config, [](Json& header) {
    for (const char* name :
         {"lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
      header[name] = {
          {"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    }
  });
  WriteTestFile(temp / "model.safetensors", two);
  WriteTestFile(temp / "config.json", config.dump());
  CHECK(Checkpoint::Open(temp.path(), false).warnings().empty());
  WriteTestFile(temp / "config.json", GoodConfig().dump());
  CHECK(Checkpoint::Open(temp.path(), false).warnings() ==
        std::vector<std::string>{
            temp.path() +
            ": 9 tensors are not of the model that config.json describes, such "
            "as 'model.layers.1.input_layernorm.weight'; they are left out"});
}

TEST_CASE("shards are found, and an index cannot lead out of the directory") {
  const TempDir temp;
  WriteTestFile(temp / "config.json", GoodConfig().dump());
  const std::string index = temp / "model.safetensors.index.json";
  const auto open = [&] { Checkpoint::Open(temp.path(), false); };
  const auto write = [&](const std::string& shard) {
    WriteTestFile(
        index,
        Json{{"weight_map", {{"model.embed_tokens.weight", shard}}}}.dump());
  };
  for (const char* shard : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    write(shard);
    CHECK(ErrorOf(open) == index +
                               ": tensor 'model.embed_tokens.weight' is said "
                               "to lie in '" +
                               shard + "', which is not a file name");
  }
  write("a.safetensors");
  WriteTestFile(temp / "a.safetensors",
                Safetensors(GoodConfig(), [](Json& header) {
                  header.erase("model.embed_tokens.weight");
                }));
  CHECK(ErrorOf(open) ==
        temp.path() +
            ": tensor 'model.embed_tokens.weight' is not in "
            "a.safetensors, where model.safetensors.index.json says "
            "it is");
  WriteTestFile(temp / "a.safetensors", Safetensors(GoodConfig()));
  open();
}

TEST_CASE("a hub id is looked up in the local cache") {
  const TempDir temp;
  setenv("HF_HUB_CACHE", temp.path().c_str(), 1);
  CHECK(
      ErrorOf([] { Checkpoint::Open("org/tiny", false); }) ==
      "model: org/tiny: no such directory, and not in the Hugging Face cache " +
          temp.path() +
          "; fetch it with 'hf download org/tiny', or name a directory");
  const std::string root = temp / "models--org--tiny";
  WriteTestFile(root + "/refs/main", "abc\n");
  WriteTestFile(root + "/snapshots/abc/config.json", GoodConfig().dump());
  WriteTestFile(root + "/snapshots/abc/model.safetensors",
                Safetensors(GoodConfig()));
  CHECK(Checkpoint::Open("org/tiny", false).directory() ==
        root + "/snapshots/abc");
  CHECK(Checkpoint::Open("org/tiny@abc", false).model().vocab_size == 4);
  unsetenv("HF_HUB_CACHE");
}

TEST_CASE("dummy weights are the same in every piece and every run") {
  const TempDir temp;
  WriteTestFile(temp / "config.json", GoodConfig().dump());
  const Checkpoint a = Checkpoint::Open(temp.path(), true);
  const Checkpoint b = Checkpoint::Open(temp.path(), true);
  std::vector<float> whole(16), part(5);
  a.weights().Read("model.embed_tokens.weight", 0, whole);
  b.weights().Read("model.embed_tokens.weight", 7, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 7));
  CHECK(a.weights().Fingerprint() == b.weights().Fingerprint());
  CHECK(whole[0] != whole[1]);
}

}  // namespace
}  // namespace rbln
