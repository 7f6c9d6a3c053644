// rbln-tool bench on the example model: what it prints, not how fast.
#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <sstream>

#include "base/json.h"
#include "test_util.h"

namespace rbln {
namespace {

std::string Run(const std::string& arguments, int want = 0) {
  FILE* pipe = popen((RBLN_TOOL " -q " + arguments).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
    out += static_cast<char>(c);
  }
  CHECK(WEXITSTATUS(pclose(pipe)) == want);
  return out;
}

TEST_CASE("bench prints one object a line, with all that is promised") {
  const TempDir temp;
  const std::string model = temp / "model";
  Run("compile " RBLN_EXAMPLES
      "/tiny-chat --target scalar --batch-size 4 "
      "--decoder-batch-sizes 4,1 --quantization.weights int8 --output " +
      model);
  std::istringstream lines(Run("bench " + model +
                               " --json --profile --repetitions 1 --lengths "
                               "16,100 --depths 20 --threads 1"));
  std::multiset<std::string> seen;
  std::string line;
  while (std::getline(lines, line)) {
    CAPTURE(line);
    const Json json = Json::parse(line);
    const std::string phase = json.at("phase");
    seen.insert(phase);
    if (phase == "profile") {
      CHECK(json.at("ms") >= 0.0);
      CHECK(json.at("count") > 0);
      continue;
    }
    for (const char* field : {"tokens_per_s", "ms_per_step", "bytes_per_step",
                              "ops_per_step", "gb_per_s", "read_gb_per_s",
                              "gops", "peak_gops", "fraction_of_limit"}) {
      CAPTURE(std::string(field));
      CHECK(json.at(field).get<double>() > 0);
    }
    if (phase == "decode") {
      CHECK(json.at("depth") == 20);
      CHECK(json.at("program") ==
            "decoder_batch_" + std::to_string(json.at("rows").get<int>()));
      // Every matrix once, and the KV cache: 21 positions of 4 layers, 4 KV
      // heads of 32, K and V in bfloat16, for each row.
      const int64_t kv = int64_t{21} * 4 * 4 * 32 * 2 * 2;
      const int64_t first = json["bytes_per_step"].get<int64_t>() -
                            json["rows"].get<int64_t>() * kv;
      CHECK(first > 1'500'000);
      CHECK(first < 2'300'000);
      CHECK(json["tokens_per_s"].get<double>() ==
            doctest::Approx(json["rows"].get<double>() /
                            json["ms_per_step"].get<double>() * 1e3));
    } else {
      CHECK(phase == "prefill");
      CHECK((json.at("tokens") == 16 || json.at("tokens") == 100));
    }
  }
  CHECK(seen.count("prefill") == 2);
  CHECK(seen.count("decode") == 2);
  CHECK(seen.count("profile") > 20);
  CHECK(Run("bench " + model + " --repetitions 1 --lengths 16 --depths 20")
            .find("decoder_batch_4") != std::string::npos);
  Run("bench " + model + " --depths 100000", 2);
}

}  // namespace
}  // namespace rbln
