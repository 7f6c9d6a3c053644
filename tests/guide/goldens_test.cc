// Against what Python's re and jsonschema say: scripts/make_guide_goldens.py.
#include <doctest/doctest.h>

#include <sstream>

#include "base/json.h"
#include "guide/accepts.h"
#include "test_util.h"

namespace rbln {
namespace {

TEST_CASE("patterns and schemas let through what others say is right") {
  const std::string path = std::string(RBLN_TEST_DATA) + "/guide/cases.jsonl";
  std::istringstream lines(ReadTestFile(path));
  int yes = 0;
  int no = 0;
  for (std::string line; std::getline(lines, line);) {
    const OrderedJson one = ParseOrderedJson(line, path, ErrorKind::kUsage);
    const bool is_regex = one.contains("regex");
    const GuideSpec spec = is_regex ? RegexSpec(one["regex"].get<std::string>())
                                    : SchemaSpec(one["schema"].dump());
    CAPTURE(spec.text);
    const std::string problem = Problem(spec);
    if (!problem.empty()) {
      // No text at all matches some of those that were made at random.
      CAPTURE(problem);
      CHECK(one["yes"].empty());
      CHECK((problem == spec.name + ": no text can match it" ||
             problem.find("no string can match") != std::string::npos));
      continue;
    }
    Acceptor accepts(spec);
    for (const std::string text : one["yes"]) {
      CAPTURE(text);
      CHECK(accepts(text));
      ++yes;
    }
    for (const std::string text : one["no"]) {
      CAPTURE(text);
      CHECK_FALSE(accepts(text));
      ++no;
    }
  }
  CHECK(yes > 1000);
  CHECK(no > 1000);
}

}  // namespace
}  // namespace rbln
