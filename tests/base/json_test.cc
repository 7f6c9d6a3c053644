#include "base/json.h"

#include <doctest/doctest.h>

namespace rbln {
namespace {

TEST_CASE("JSON written piece by piece is what its dump is") {
  const OrderedJson nested = {{"a", {1, 2.5, nullptr}}, {"b", "\u00e9"}};
  for (const std::string text :
       {"", "plain ~!", "a \"quote\"", "back\\slash", "tab\t\x01\x7f",
        "\ud55c\uad6d \U0001f600", "not \xff UTF-8 \xe2\x82", "{[:,"}) {
    CAPTURE(text);
    JsonWriter writer;
    writer.BeginObject();
    writer.Key("text");
    writer.String(text);
    writer.Key(text + "\n");
    writer.BeginArray();
    writer.Integer(-5);
    writer.Null();
    writer.BeginObject();
    writer.EndObject();
    writer.BeginArray();
    writer.EndArray();
    writer.String(text);
    writer.Value(nested);
    writer.EndArray();
    writer.Key("last");
    writer.Integer(int64_t{1} << 60);
    writer.EndObject();
    OrderedJson same = {{"text", text}};
    same[text + "\n"] = {
        -5, nullptr, OrderedJson::object(), OrderedJson::array(), text, nested};
    same["last"] = int64_t{1} << 60;
    CHECK(writer.Take() ==
          same.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }
}

TEST_CASE("nesting is bounded, brackets in strings are none") {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(ParseJson(nested(kMaxJsonDepth), "x", ErrorKind::kUsage).is_array());
  CHECK_THROWS_WITH_AS(
      ParseJson(nested(kMaxJsonDepth + 2), "x", ErrorKind::kUsage),
      "x: JSON is nested deeper than 256", Error);
  const std::string many = std::string(1000, '[');
  CHECK(ParseJson('"' + many + '"', "x", ErrorKind::kUsage) == many);
  // Of two equal keys the last one wins, in the place of the first.
  const char* const twice = R"({"a": 1, "b": 2, "a": {"c": 3}})";
  CHECK(ParseOrderedJson(twice, "x", ErrorKind::kUsage).dump() ==
        R"({"a":{"c":3},"b":2})");
}

}  // namespace
}  // namespace rbln
