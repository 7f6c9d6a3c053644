#include "guide/grammar.h"

#include <doctest/doctest.h>

#include <random>

#include "guide/accepts.h"

namespace rbln {
namespace {

constexpr char kTree[] = R"({"type": "object", "properties": {
    "name": {"type": "string"}, "kids": {"type": "array",
    "items": {"$ref": "#"}}}, "required": ["name"]})";

TEST_CASE("forgetting all but some states changes no answer") {
  Acceptor whole(SchemaSpec(kTree));
  Acceptor compacted(SchemaSpec(kTree));
  const std::string text =
      R"({"name":"a","kids":[{"name":"é\n"}, {"name":"","kids":[]}]})";
  int a = whole.matcher().start();
  int b = compacted.matcher().start();
  for (const char c : text) {
    for (int byte = 0; byte < 256; ++byte) {
      const int next_a = whole.matcher().Next(a, static_cast<uint8_t>(byte));
      const int next_b =
          compacted.matcher().Next(b, static_cast<uint8_t>(byte));
      CHECK((next_a == Matcher::kDead) == (next_b == Matcher::kDead));
      CHECK(whole.matcher().MayEnd(next_a) ==
            compacted.matcher().MayEnd(next_b));
    }
    a = whole.matcher().Next(a, static_cast<uint8_t>(c));
    b = compacted.matcher().Next(b, static_cast<uint8_t>(c));
    std::vector<int> kept = {b, compacted.matcher().start(), b};
    compacted.matcher().Compact(&kept);
    CHECK(kept[0] == kept[2]);
    CHECK(kept[1] == compacted.matcher().start());
    CHECK(compacted.matcher().work() == 0);
    b = kept[0];
  }
  CHECK(whole.matcher().MayEnd(a));
  CHECK(compacted.matcher().MayEnd(b));
}

TEST_CASE("no text leads into a blind alley") {
  for (const char* schema :
       {kTree, "{}", R"({"type": "number", "exclusiveMinimum": 0.5,
                         "exclusiveMaximum": 0.6})",
        R"({"pattern": "^(ab|cd)*$", "minLength": 3, "maxLength": 6})"}) {
    CAPTURE(schema);
    Acceptor accepts(SchemaSpec(schema));
    Matcher& matcher = accepts.matcher();
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
      int state = matcher.start();
      for (int step = 0; step < 400; ++step) {
        std::vector<int> next;
        for (int byte = 0; byte < 256; ++byte) {
          const int to = matcher.Next(state, static_cast<uint8_t>(byte));
          if (to != Matcher::kDead) next.push_back(to);
        }
        if (next.empty()) {
          REQUIRE(matcher.MayEnd(state));
          break;
        }
        state = next[random() % next.size()];
      }
    }
  }
}

TEST_CASE("work is the same in whatever order, and has a bound") {
  const auto all = [](Matcher& matcher, bool backwards) {
    const int start = matcher.start();
    for (int i = 0; i < 256; ++i) {
      const int byte = backwards ? 255 - i : i;
      const int to = matcher.Next(start, static_cast<uint8_t>(byte));
      matcher.Next(to, '"');
    }
    return matcher.work();
  };
  Acceptor a(SchemaSpec("{}"));
  Acceptor b(SchemaSpec("{}"));
  std::vector<int> none;
  a.matcher().Compact(&none);
  b.matcher().Compact(&none);
  CHECK(all(a.matcher(), false) == all(b.matcher(), true));
  CHECK(all(a.matcher(), true) == b.matcher().work());

  Acceptor bounded(SchemaSpec("{}"));
  bounded.matcher().set_max_work(0);
  CHECK_FALSE(bounded("1"));
  CHECK(bounded.matcher().full());
  bounded.matcher().set_max_work(100000);
  bounded.matcher().Compact(&none);
  CHECK(bounded("1"));
}

}  // namespace
}  // namespace rbln
