// The rules of rbln.yaml and its flags, each with its message.
#include "compiler/options.h"

#include <doctest/doctest.h>

#include <functional>

#include "test_util.h"

namespace rbln {
namespace {

ModelDescription Model() {
  ModelDescription model;
  model.num_heads = 8;
  model.num_kv_heads = 4;
  model.intermediate_size = 256;
  model.vocab_size = 1000;
  model.max_position_embeddings = 65536;
  model.dtype = DType::kFloat16;
  return model;
}

// Resolves a config file with these lines; the model is set.
CompileOptions Resolve(const std::string& yaml) {
  const TempDir temp;
  WriteTestFile(temp / "c.yaml", "model: a/b\n" + yaml);
  try {
    return ResolveOptions(CompileConfig::FromFile(temp / "c.yaml"), Model());
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    // The directory's name is another one each time.
    std::string what = error.what();
    for (size_t at; (at = what.find(temp.path() + "/")) != std::string::npos;) {
      what.erase(at, temp.path().size() + 1);
    }
    throw UsageError("{}", what);
  }
}

std::string ErrorOf(const std::string& yaml) {
  try {
    Resolve(yaml);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("the defaults") {
  const CompileOptions options = Resolve("max_seq_len: 4096");
  CHECK(options.model == "a/b");
  CHECK(options.output == "b.rbln");
  CHECK(options.batch_size == 1);
  CHECK(options.decoder_batch_sizes == std::vector<int>{1});
  CHECK(options.attn_impl == AttnImpl::kEager);
  CHECK(options.kvcache_partition_len == 0);
  CHECK(options.kvcache_block_size == 4096);
  CHECK(options.prefill_chunk_size == 128);
  CHECK(options.weights == WeightFormat::kBFloat16);
  CHECK(options.activations == ActivationFormat::kBFloat16);
  CHECK(options.kv_caches == KvFormat::kBFloat16);
  CHECK(options.target == "native");
  CHECK(options.warnings.empty());
}

TEST_CASE("batch sizes are sorted, made single and completed, with warnings") {
  const CompileOptions options = Resolve(
      "max_seq_len: 64\nrbln_batch_size: 8\n"
      "decoder_batch_sizes: [1, 4, 4]");
  CHECK(options.decoder_batch_sizes == std::vector<int>{8, 4, 1});
  CHECK(options.warnings.size() == 2);
}

TEST_CASE("flash attention follows from the partition length") {
  const CompileOptions flash = Resolve("kvcache_partition_len: 16384");
  CHECK(flash.attn_impl == AttnImpl::kFlashAttn);
  CHECK(flash.kvcache_block_size == 16384);
  const CompileOptions shorter = Resolve(
      "attn_impl: flash_attn\nmax_seq_len: 3072\n"
      "kvcache_block_size: 64");
  CHECK(shorter.kvcache_partition_len == 1024);
  CHECK(shorter.kvcache_block_size == 64);
  const CompileOptions both =
      Resolve("attn_impl: eager\nkvcache_partition_len: 16384");
  CHECK(both.attn_impl == AttnImpl::kFlashAttn);
  CHECK(both.warnings.size() == 1);
}

TEST_CASE("defaults compile for every length a model may have") {
  const TempDir temp;
  WriteTestFile(temp / "c.yaml", "model: a/b\n");
  const CompileConfig config = CompileConfig::FromFile(temp / "c.yaml");
  struct Case {
    int limit;
    int max_seq_len;
    int partition;  // 0: eager
  };
  const Case cases[] = {
      {1, 1, 0},
      {32768, 32768, 0},
      {32769, 32768, 1024},
      {40960, 40960, 8192},
      {131072, 131072, 16384},
      {131000, 130048, 1024},
      {163840, 163840, 16384},
      {1010000, 1009664, 1024},
  };
  for (const Case& c : cases) {
    ModelDescription model = Model();
    model.max_position_embeddings = c.limit;
    const CompileOptions options = ResolveOptions(config, model);
    CHECK(options.max_seq_len == c.max_seq_len);
    CHECK(options.kvcache_partition_len == c.partition);
    CHECK((options.attn_impl == AttnImpl::kEager) == (c.partition == 0));
    CHECK(options.warnings.size() == (c.limit == c.max_seq_len ? 0 : 1));
  }
  // What was said is kept to, or refused.
  CHECK(Resolve("max_seq_len: 65536").attn_impl == AttnImpl::kFlashAttn);
  CHECK(ErrorOf("max_seq_len: 40000")
            .starts_with("c.yaml:2: max_seq_len: 40000: max_seq_len is 40000, "
                         "which is not a "
                         "multiple of the partition length 16384; "));
}

TEST_CASE("scaled RoPE allows longer sequences than the model's own limit") {
  const TempDir temp;
  WriteTestFile(temp / "c.yaml",
                "model: a/b\nattn_impl: flash_attn\nmax_seq_len: 262144\n");
  const CompileConfig config = CompileConfig::FromFile(temp / "c.yaml");
  ModelDescription model = Model();
  const auto error = [&]() -> std::string {
    try {
      ResolveOptions(config, model);
    } catch (const Error& thrown) {
      return thrown.what();
    }
    return "";
  };
  CHECK(error().ends_with("(max_position_embeddings) is 65536"));
  using Kind = RopeScaling::Kind;
  for (const Kind kind : {Kind::kLinear, Kind::kDynamic}) {
    model.rope_scaling.kind = kind;
    model.rope_scaling.factor = 4;
    CHECK(error() == "");
    model.rope_scaling.factor = 2;
    CHECK(error().ends_with("is 65536, and its RoPE scaling covers 131072"));
  }
  for (const Kind kind : {Kind::kYarn, Kind::kLongrope, Kind::kLlama3}) {
    model.rope_scaling.kind = kind;
    model.rope_scaling.factor = 8;
    model.rope_scaling.original_max_position_embeddings = 32768;
    CHECK(error() == "");
    // The limit of such a model often has the scaling in it.
    model.rope_scaling.original_max_position_embeddings = 8192;
    CHECK(error().ends_with("(max_position_embeddings) is 65536"));
  }
}

TEST_CASE("quantized weights bring int8 activations") {
  const CompileOptions options = Resolve(
      "max_seq_len: 64\nquantization:\n  weights: int4\n  group_size: 32");
  CHECK(options.weights == WeightFormat::kInt4);
  CHECK(options.activations == ActivationFormat::kInt8);
  CHECK(options.kv_caches == KvFormat::kBFloat16);
  CHECK(options.group_size == 32);
}

TEST_CASE("flags win over the file") {
  const TempDir temp;
  WriteTestFile(temp / "c.yaml", "model: m\nbatch_size: 2\nmax_seq_len: 64\n");
  CompileConfig config = CompileConfig::FromFile(temp / "c.yaml");
  config.SetFlag("batch_size", "4");
  config.SetFlag("decoder_batch_sizes", "4, 2,1");
  CHECK(ResolveOptions(config, Model()).decoder_batch_sizes ==
        std::vector<int>{4, 2, 1});
  config.SetFlag("batch_size", "x");
  CHECK_THROWS_WITH(ResolveOptions(config, Model()),
                    "--batch-size: batch_size: x: expected a whole number of "
                    "at least 1");
}

TEST_CASE("sampling values are kept as JSON, of a file as of a flag") {
  const TempDir temp;
  WriteTestFile(temp / "c.yaml",
                "model: m\nmax_seq_len: 64\nsampling:\n"
                "  temperature: 0.5\n  ignore_eos: True\n"
                "  stop: [\"5\", 5, nan]\n  logit_bias: {7: -1.5}\n");
  CompileConfig config = CompileConfig::FromFile(temp / "c.yaml");
  config.SetFlag("sampling.bad_words", "abc");
  const std::map<std::string, std::string> expected = {
      {"temperature", "0.5"},
      {"ignore_eos", "true"},
      {"stop", "[\"5\",5,\"nan\"]"},
      {"logit_bias", "{\"7\":-1.5}"},
      {"bad_words", "\"abc\""}};
  CHECK(ResolveOptions(config, Model()).sampling.values == expected);
  CHECK_THROWS_WITH(config.SetFlag("sampling.stop", "[a"),
                    doctest::Contains("--sampling.stop: sampling.stop: [a: "
                                      "not YAML: "));
}

TEST_CASE("a config may say where its one document begins") {
  const TempDir temp;
  WriteTestFile(temp / "c.yaml",
                "# settings\n%YAML 1.2\n---\nmodel: m # ---\n"
                "max_seq_len: 64\noutput: a---\n");
  const CompileConfig config = CompileConfig::FromFile(temp / "c.yaml");
  CHECK(ResolveOptions(config, Model()).output == "a---");
}

TEST_CASE("the output is named after the model's directory") {
  const auto output = [](const std::string& model) {
    CompileConfig config;
    config.SetFlag("model", model);
    config.SetFlag("max_seq_len", "64");
    return ResolveOptions(config, Model()).output;
  };
  CHECK(output("models/chat/") == "chat.rbln");
  CHECK(output("org/chat-1.5B") == "chat-1.5B.rbln");
  CHECK(Resolve("max_seq_len: 64\noutput: a/b/./").output == "a/b");
  const auto here = std::filesystem::current_path();
  CHECK(output(".") == here.filename().string() + ".rbln");
}

TEST_CASE("what is against a rule is refused by key, value, rule and line") {
  struct Case {
    const char* yaml;
    const char* message;
  };
  const Case cases[] = {
      {"bacth_size: 3",
       "c.yaml:2: unknown key 'bacth_size'; the nearest known one is "
       "'batch_size'"},
      {"quantization:\n  weight: int8",
       "c.yaml:3: unknown key 'quantization.weight'; the nearest known one is "
       "'quantization.weights'"},
      {"batch_size: 2\nrbln_batch_size: 3",
       "c.yaml:3: 'batch_size' is set twice, first at c.yaml:2"},
      {"batch_size: 0",
       "c.yaml:2: batch_size: 0: expected a whole number of at least 1"},
      {"batch_size: 1025", "c.yaml:2: batch_size: 1025: expected at most 1024"},
      {"batch_size: 99999999999",
       "c.yaml:2: batch_size: 99999999999: expected a whole number of at least "
       "1"},
      {"max_seq_len: 64\nprefill_chunk_size: 4160",
       "c.yaml:3: prefill_chunk_size: 4160: expected a multiple of 64, at most "
       "4096"},
      {"batch_size: 1.5",
       "c.yaml:2: batch_size: 1.5: expected a whole number of at least 1"},
      {"batch_size: yes",
       "c.yaml:2: batch_size: yes: expected a whole number of at least 1"},
      {"decoder_batch_sizes: []",
       "c.yaml:2: decoder_batch_sizes: []: expected at least one size"},
      {"batch_size: 4\ndecoder_batch_sizes: [8]",
       "c.yaml:3: decoder_batch_sizes: [8]: 8 is not between 1 and batch_size, "
       "which is 4"},
      {"decoder_batch_sizes: [a]",
       "c.yaml:2: decoder_batch_sizes: [\"a\"]: expected whole numbers, as in "
       "8,4,1"},
      {"max_seq_len: 65537",
       "c.yaml:2: max_seq_len: 65537: the model's own limit "
       "(max_position_embeddings) is 65536"},
      {"attn_impl: paged",
       "c.yaml:2: attn_impl: paged: expected one of: eager, flash_attn"},
      {"attn_impl: eager",
       "c.yaml:2: attn_impl: eager: eager attention goes up to 32768, and "
       "max_seq_len is 65536, the model's own limit; leave attn_impl out, or "
       "set it to flash_attn"},
      {"kvcache_partition_len: 48000",
       "c.yaml:2: kvcache_partition_len: 48000: max_seq_len is 65536, the "
       "model's own limit, which is not a multiple of the partition length "
       "48000; the nearest that are: 48000 and 96000"},
      {"max_seq_len: 20000\nkvcache_partition_len: 16384",
       "c.yaml:3: kvcache_partition_len: 16384: max_seq_len is 20000, which is "
       "not a multiple of the partition length 16384; the nearest that are: "
       "16384 and 32768"},
      {"max_seq_len: 64\nkvcache_block_size: 32",
       "c.yaml:3: kvcache_block_size: 32: with eager attention it equals "
       "max_seq_len, which is 64; smaller blocks need attn_impl: flash_attn"},
      {"kvcache_partition_len: 16384\nkvcache_block_size: 100",
       "c.yaml:3: kvcache_block_size: 100: it must divide the partition length "
       "16384 and be a multiple of 16"},
      {"kvcache_partition_len: 16384\nkvcache_num_blocks: 3",
       "c.yaml:3: kvcache_num_blocks: 3: one full sequence takes 4 blocks"},
      {"max_seq_len: 64\nprefill_chunk_size: 100",
       "c.yaml:3: prefill_chunk_size: 100: expected a multiple of 64, at most "
       "4096"},
      {"max_seq_len: 64\ntensor_parallel_size: 3",
       "c.yaml:3: tensor_parallel_size: 3: it must divide the model's 4 KV "
       "heads or be a multiple of them"},
      {"max_seq_len: 64\nquantization:\n  weights: int3",
       "c.yaml:4: quantization.weights: int3: expected one of: int8, int4"},
      {"max_seq_len: 64\ntarget: sse",
       "c.yaml:3: target: sse: expected one of: native, scalar, avx2, avxvnni, "
       "avx512"},
      {"attn_impl: flash_attn\nmax_seq_len: 1001",
       "c.yaml:3: max_seq_len: 1001: max_seq_len is 1001, which is not a "
       "multiple of the partition length 16; the nearest that are: 992 and "
       "1008"},
      {"max_seq_len: 1000\nkvcache_partition_len: 100",
       "c.yaml:3: kvcache_partition_len: 100: expected a multiple of 16"},
      {"attn_impl: flash_attn\nmax_seq_len: 20000",
       "c.yaml:3: max_seq_len: 20000: max_seq_len is 20000, which is not a "
       "multiple of the partition length 16384; the nearest that are: 16384 "
       "and 32768"},
      {"max_seq_len: 64\nquantization:\n  group_size: 96",
       "c.yaml:4: quantization.group_size: 96: expected 32"},
      {"max_seq_len: 64\nquantization:\n  weights: int8\n  activations: "
       "float32",
       "c.yaml:5: quantization.activations: float32: expected int8, which is "
       "what weights in int8 and int4 are multiplied by"},
      {"sampling:\n  stop: &a [*a]",
       "c.yaml:3: expected a value, or one list or map of values, found "
       "another level below it"},
      {"sampling:\n  stop: \"\xff\"",
       "c.yaml:3: sampling.stop: the value is not UTF-8"},
      {"sampling: \"\xff\"", "c.yaml:2: sampling: the value is not UTF-8"},
      {"batch_size: [3]",
       "c.yaml:2: batch_size: expected one value, found [3]"},
      {"output: []", "c.yaml:2: output: expected one value, found []"},
      {"decoder_batch_sizes: {a: 1}",
       "c.yaml:2: decoder_batch_sizes: expected one value, found {\"a\":1}"},
      {"output: ~/x",
       "c.yaml:2: output: ~/x: '~' is not expanded here; write the whole path"},
      {"output: 'a\n", "c.yaml:2:11: not YAML: illegal EOF in scalar"},
      {"output: \"a\nbatch_size: 2\n\n",
       "c.yaml:3:14: not YAML: illegal EOF in scalar"},
      {"batch_size: 2\n---\nbatch_size: 3\n",
       "c.yaml:3: expected one document, found more behind its end"},
      {"batch_size: 2\n...\nbatch_size: 3\n",
       "c.yaml:4: expected one document, found more behind its end"},
      {"batch_size: 2\n}\nbatch_size: 3\n",
       "c.yaml:3:1: not YAML: illegal flow end"},
      {"quantization: int4",
       "c.yaml:2: quantization: expected keys below it, found \"int4\""},
  };
  for (const Case& c : cases) CHECK(ErrorOf(c.yaml) == c.message);
}

}  // namespace
}  // namespace rbln
