// rbln-tool compare against transformers' perplexity of the example model.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "test_util.h"

namespace rbln {
namespace {

const std::string kData = std::string(RBLN_TEST_DATA) + "/models/";

std::string Run(const std::string& arguments) {
  FILE* pipe = popen((RBLN_TOOL " -q " + arguments).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
    out += static_cast<char>(c);
  }
  CHECK(pclose(pipe) == 0);
  return out;
}

TEST_CASE(
    "compare gives transformers' perplexity, and the divergence of each "
    "format") {
  const TempDir temp;
  const auto compile = [&](const std::string& name, const std::string& flags) {
    Run("compile " RBLN_EXAMPLES "/tiny-chat --target scalar --output " +
        (temp / name) + " " + flags);
  };
  compile("float32", "--dtype float32");
  compile("bfloat16", "--dtype bfloat16");
  compile("int8", "--dtype bfloat16 --quantization.weights int8");
  compile("int4", "--dtype bfloat16 --quantization.weights int4");
  const Json golden =
      ReadJsonFile(kData + "tiny-chat.perplexity.json", ErrorKind::kUsage);
  const auto compare = [&](const std::string& name) {
    return Json::parse(Run("compare " + (temp / "float32") + " " +
                           (temp / name) + " " + kData +
                           "tiny-chat.text.txt --json --context " +
                           std::to_string(golden.at("context").get<int>())));
  };
  const double want = golden.at("perplexity");

  const Json same = compare("float32");
  CHECK(same.at("tokens") == golden.at("tokens"));
  CHECK(same["perplexity"]["reference"].get<double>() ==
        doctest::Approx(want).epsilon(1e-5));
  CHECK(same["perplexity"]["candidate"] == same["perplexity"]["reference"]);
  CHECK(same["kl_divergence"]["max"] == 0.0);
  CHECK(same["top1_agreement"] == 1.0);

  // Measured on these 205 tokens: 0.00004, 0.0009, 0.1.
  CHECK(compare("bfloat16")["kl_divergence"]["mean"] < 0.0001);
  const Json int8 = compare("int8");
  CHECK(int8["kl_divergence"]["mean"] > 0.0);
  CHECK(int8["kl_divergence"]["mean"] < 0.002);
  const Json int4 = compare("int4");
  CHECK(int4["kl_divergence"]["mean"] > int8["kl_divergence"]["mean"]);
  CHECK(int4["kl_divergence"]["mean"] < 0.2);
  CHECK(int4["kl_divergence"]["p50"] <= int4["kl_divergence"]["p99"]);
  CHECK(int4["perplexity"]["candidate"].get<double>() ==
        doctest::Approx(want).epsilon(0.1));
}

}  // namespace
}  // namespace rbln
