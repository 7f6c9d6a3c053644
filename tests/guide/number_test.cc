#include "guide/number.h"

#include <doctest/doctest.h>

#include <random>

#include "guide/accepts.h"

namespace rbln {
namespace {

std::string Bound(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format(", \"{}\": {}", name, value);
}

TEST_CASE("integers between bounds are exactly those between them") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    int lo = static_cast<int>(random() % 2400) - 1200;
    int hi = static_cast<int>(random() % 2400) - 1200;
    if (lo > hi) std::swap(lo, hi);
    const bool has_lo = random() % 4 != 0;
    const bool has_hi = !has_lo || random() % 4 != 0;
    const bool lo_exclusive = random() % 2 == 0;
    const bool hi_exclusive = random() % 2 == 0;
    const std::string schema =
        R"({"type": "integer")" +
        (has_lo ? Bound(lo_exclusive ? "exclusiveMinimum" : "minimum",
                        std::to_string(lo))
                : "") +
        (has_hi ? Bound(hi_exclusive ? "exclusiveMaximum" : "maximum",
                        std::to_string(hi))
                : "") +
        "}";
    CAPTURE(schema);
    const auto valid = [&](int value) {
      return (!has_lo || (lo_exclusive ? value > lo : value >= lo)) &&
             (!has_hi || (hi_exclusive ? value < hi : value <= hi));
    };
    bool any = false;
    for (int value = -1300; value <= 1300; ++value) any |= valid(value);
    if (!any) {
      CHECK(Problem(SchemaSpec(schema)) == "guided_json: no text can match it");
      continue;
    }
    Acceptor accepts(SchemaSpec(schema));
    int wrong = 0;
    for (int value = -1300; value <= 1300; ++value) {
      wrong += accepts(std::to_string(value)) != valid(value);
      // No zeros in front.
      wrong += value >= 0 && accepts("0" + std::to_string(value));
    }
    CHECK(wrong == 0);
    CHECK_FALSE(accepts("-0"));
    CHECK_FALSE(accepts("1.0"));
    CHECK(accepts("100000") == valid(100000));
    CHECK(accepts("-100000") == valid(-100000));
  }
}

TEST_CASE("decimals between bounds") {
  std::mt19937 random(5);
  const auto text = [](int thousandths) {
    return fmt::format("{}{}.{:03}", thousandths < 0 ? "-" : "",
                       std::abs(thousandths) / 1000,
                       std::abs(thousandths) % 1000);
  };
  for (int round = 0; round < 40; ++round) {
    int lo = static_cast<int>(random() % 24000) - 12000;
    int hi = static_cast<int>(random() % 24000) - 12000;
    if (lo >= hi) std::swap(lo, hi);
    if (round % 4 == 0) lo = lo / 1000 * 1000;
    const bool lo_exclusive = random() % 2 == 0;
    const bool hi_exclusive = random() % 2 == 0;
    const std::string schema =
        R"({"type": "number")" +
        Bound(lo_exclusive ? "exclusiveMinimum" : "minimum", text(lo)) +
        Bound(hi_exclusive ? "exclusiveMaximum" : "maximum", text(hi)) + "}";
    CAPTURE(schema);
    if (lo == hi) continue;
    Acceptor accepts(SchemaSpec(schema));
    const auto valid = [&](int value) {
      return (lo_exclusive ? value > lo : value >= lo) &&
             (hi_exclusive ? value < hi : value <= hi);
    };
    int wrong = 0;
    for (int i = 0; i < 2000; ++i) {
      int value = static_cast<int>(random() % 30000) - 15000;
      if (i % 3 == 0) value = lo + static_cast<int>(random() % 5) - 2;
      if (i % 3 == 1) value = hi + static_cast<int>(random() % 5) - 2;
      // -0.000 is there without its sign only.
      wrong += accepts(text(value)) != valid(value);
      wrong += accepts(text(value) + "00") != valid(value);
      if (value % 1000 == 0) {
        wrong += accepts(std::to_string(value / 1000)) != valid(value);
      }
    }
    CHECK(wrong == 0);
    CHECK_FALSE(accepts("1e0"));
  }
}

TEST_CASE("numbers without bounds, and bounds that cannot be kept") {
  Acceptor number(SchemaSpec(R"({"type": "number"})"));
  for (const char* yes : {"0", "-0", "12", "-3.25", "1e5", "1E-07", "0.1e+3",
                          "123456789012345678", "0.1234567890123456"}) {
    CHECK(number(yes));
  }
  for (const char* no : {"", "-", "01", ".5", "5.", "1e", "1e123", "+1", "NaN",
                         "1234567890123456789", "0.12345678901234567", "0x1"}) {
    CHECK_FALSE(number(no));
  }
  Acceptor integer(SchemaSpec(R"({"type": "integer"})"));
  CHECK(integer("-12"));
  CHECK_FALSE(integer("1.5"));
  CHECK_FALSE(integer("1e2"));
  // 64-bit limits say nothing about 18 digits.
  Acceptor wide(SchemaSpec(
      R"({"type": "integer", "minimum": -9223372036854775808,
          "maximum": 18446744073709551615})"));
  CHECK(wide("-999999999999999999"));
  CHECK(wide("999999999999999999"));
  Acceptor tiny(SchemaSpec(R"({"type": "number", "minimum": 1e-7})"));
  CHECK(tiny("0.0000001"));
  CHECK_FALSE(tiny("0.00000009"));
  CHECK(Problem(SchemaSpec(R"({"type": "number", "minimum": 1e-30})")) ==
        "guided_json: #: minimum 1e-30 has too many digits for a bound that "
        "can be kept");
  CHECK(Problem(SchemaSpec(R"({"type": "integer", "minimum": 1e40})")) ==
        "guided_json: no text can match it");
}

}  // namespace
}  // namespace rbln
