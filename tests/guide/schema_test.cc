#include "guide/schema.h"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include "guide/accepts.h"

namespace rbln {
namespace {

struct Case {
  const char* schema;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    CAPTURE(one.schema);
    const std::string problem = Problem(SchemaSpec(one.schema));
    CHECK(problem == "");
    if (!problem.empty()) continue;
    Acceptor accepts(SchemaSpec(one.schema));
    for (const std::string& text : one.yes) {
      CAPTURE(text);
      CHECK(accepts(text));
    }
    for (const std::string& text : one.no) {
      CAPTURE(text);
      CHECK_FALSE(accepts(text));
    }
  }
}

TEST_CASE("any JSON, and any JSON object") {
  const std::vector<std::string> values = {
      "0",
      "-1.5e3",
      "true",
      "false",
      "null",
      "\"\"",
      "[]",
      "{}",
      R"("a\"\\\/\b\f\n\r\t\u00e9\ud83d\uDE00 é😀")",
      R"([1,[2,{"a":[]}],"x"])",
      R"({"a":{"b":null},"":1})",
      "[1, 2]",
      "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}",
      "{\"a\": 1, \"a\": 2}"};
  const std::vector<std::string> broken = {"",
                                           " 1",
                                           "1 ",
                                           "tru",
                                           "[1,]",
                                           "[,1]",
                                           "{\"a\"}",
                                           "{a:1}",
                                           "{\"a\":1,}",
                                           "\"\n\"",
                                           "\"\x01\"",
                                           "\"\\x\"",
                                           "\"\\ud83d\"",
                                           "\"\\udc00\"",
                                           "\"\\ud83dx\"",
                                           "\"\xff\"",
                                           "\"\xc0\x80\"",
                                           "\"\xed\xa0\x80\"",
                                           "\"\xf4\x90\x80\x80\"",
                                           "[1  ,2]",
                                           "[1,  2]",
                                           "[ \n1]",
                                           "{} ",
                                           "[\n" + std::string(33, ' ') + "1]",
                                           "[\n\n1]"};
  Check({{"true", values, broken}, {"{}", values, broken}});
  Check({{R"({"type": "object"})",
          {"{}", R"({"a": [1, {"b": "c"}]})"},
          {"[]", "1", R"({"a": 1}})"}}});
}

TEST_CASE("nesting has a bound, and always a way out") {
  Acceptor accepts(SchemaSpec("{}"));
  CHECK(accepts(std::string(100, '[') + std::string(100, ']')));
  CHECK_FALSE(accepts(std::string(2000, '[') + std::string(2000, ']')));
  // At the bound nothing more is opened, but what is open can be closed.
  std::string text;
  while (accepts.Begins(text + "[")) text += "[";
  CHECK(text.size() > 100);
  CHECK(accepts.Begins(text + "1"));
  CHECK_FALSE(accepts.Begins(text + "{"));
  CHECK(accepts(text + std::string(text.size(), ']')));
}

TEST_CASE("types, constants and enumerations") {
  Check({
      {R"({"type": "string"})", {"\"a\""}, {"1", "null", "a"}},
      {R"({"type": ["integer", "null"]})", {"1", "null"}, {"1.5", "\"\""}},
      {R"({"type": ["number", "integer"]})", {"1", "1.5"}, {"\"\""}},
      {R"({"type": "boolean"})", {"true", "false"}, {"null", "1"}},
      {R"({"enum": ["a", "ab", 1, null, [1, {"b": 2}], "\n\""]})",
       {"\"a\"", "\"ab\"", "1", "null", R"([1,{"b":2}])", R"("\n\"")"},
       {"\"abc\"", "2", "\"\"", "a"}},
      {R"({"type": "string", "enum": ["a", 1]})", {"\"a\""}, {"1"}},
      {R"({"type": "number", "enum": ["a", 1, 2.5]})", {"1", "2.5"}, {"\"a\""}},
      {R"({"const": {"z": 1, "a": [true]}})",
       {R"({"z":1,"a":[true]})"},
       {"{}"}},
      {R"({"const": 1, "enum": [1, 2]})", {"1"}, {"2"}},
  });
}

TEST_CASE("objects: order, what is required, and what else there may be") {
  Check({
      {R"({"properties": {"b": {"type": "integer"}, "a": {"type": "string"},
                          "c": {"type": "null"}}, "required": ["a"]})",
       {R"({"b":1,"a":"x","c":null})", R"({"a": "x"})", R"({"b":1, "a":"x"})",
        R"({"a":"x","c":null})", "{\n\t\"a\": \"x\"\n}"},
       {"{}", R"({"b":1})", R"({"a":"x","b":1})", R"({"a":1})",
        R"({"a":"x","d":1})", R"({"a":"x",})", R"({,"a":"x"})",
        R"({"a":"x" ,"c":null})", R"({"a":"x","a":"x"})"}},
      {R"({"type": "object", "properties": {}})",
       {"{}", "{ }"},
       {R"({"a":1})"}},
      {R"({"type": "object", "properties": {"ab": {"type": "integer"}},
           "additionalProperties": {"type": "boolean"}})",
       {"{}", R"({"ab":1})", R"({"ab":1,"a":true})", R"({"abc":true,"":false})",
        R"({"é\n":true})"},
       {R"({"ab":true})", R"({"x":1})", R"({"x":true,"ab":1})",
        R"({"\u0061b":true})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"a":1,"b":2})"},
       {R"({"a":"x"})"}},
      {R"({"type": "object", "additionalProperties": false})",
       {"{}"},
       {R"({"a":1})"}},
      {R"({"properties": {"a": true}, "additionalProperties": true,
           "required": ["z"]})",
       {R"({"a":1,"z":[2]})", R"({"z":0,"y":1})"},
       {R"({"a":1})", "{}"}},
      {R"({"required": ["q", "p", "q"]})",
       {R"({"q":1,"p":2})"},
       {R"({"p":1,"q":2})"}},
      {R"({"required": ["q"]})", {R"({"q":1,"x":2})"}, {"{}", R"({"x":2})"}},
      {R"({"properties": {"a": false, "b": {}}})",
       {R"({"b":1})", "{}"},
       {R"({"a":1})"}},
      {R"({"properties": {"a\"b\u0001": {"const": 1}}})",
       {R"({"a\"b\u0001":1})"},
       {R"({"a":1})"}},
  });
}

TEST_CASE("arrays: items, a prefix, and how many") {
  Check({
      {R"({"items": {"type": "integer"}})",
       {"[]", "[1]", "[1, 2,3]", "[ 1 ]", "[ ]"},
       {"[1,]", "[\"a\"]", "[1 2]", "[,]"}},
      {R"({"type": "array"})", {"[]", "[1, \"a\", [null]]"}, {"{}"}},
      {R"({"items": {"type": "integer"}, "minItems": 1})",
       {"[1]", "[1,2,3]"},
       {"[]", "[1,]"}},
      {R"({"items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
       {"[1,2]", "[1,2,3]"},
       {"[1]", "[1,2,3,4]", "[1,2,]"}},
      {R"({"items": {"type": "integer"}, "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}]})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,\"a\",2]"}},
      {R"({"prefixItems": [{"type": "integer"}], "items": {"type": "null"},
           "minItems": 2})",
       {"[1,null]", "[1,null,null]"},
       {"[1]", "[null]", "[1,1]"}},
      {R"({"prefixItems": [{"type": "integer"}], "items": false})",
       {"[]", "[1]"},
       {"[1,1]"}},
      {R"({"items": {"type": "integer"}, "uniqueItems": false})",
       {"[1,1]"},
       {}},
  });
}

TEST_CASE("strings: lengths, patterns and formats") {
  Check({
      {R"({"minLength": 2, "maxLength": 3})",
       {"\"ab\"", "\"é😀é\"", R"("\n\u0041")", R"("\ud83d\ude00x")"},
       {"\"a\"", "\"abcd\"", R"("\ud83d\ude00")"}},
      {R"({"type": "string", "maxLength": 0})", {"\"\""}, {"\"a\""}},
      {R"({"type": "string", "minLength": 1})", {"\"a\"", "\"abc\""}, {"\"\""}},
      {R"({"pattern": "b+"})", {"\"abc\"", "\"b\""}, {"\"ac\"", "\"\""}},
      {R"({"pattern": "^[\\n\"a]+$"})", {R"("\n\"a")"}, {"\"\n\"", "\"b\""}},
      {R"({"pattern": "^\\u0001$"})", {R"("\u0001")"}, {R"("1")"}},
      {R"({"pattern": "^\\u001b$"})", {R"("\u001b")", R"("\u001B")"}, {}},
      {R"({"pattern": "^a*$", "minLength": 2, "maxLength": 4})",
       {"\"aa\"", "\"aaaa\""},
       {"\"a\"", "\"aaaaa\"", "\"bb\""}},
      {R"({"type": "string", "format": "date"})",
       {"\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"",
        "\"2023-00-10\"", "\"23-01-01\""}},
      {R"({"format": "time"})",
       {"\"23:59:59Z\"", "\"01:02:03.5+09:00\""},
       {"\"24:00:00Z\"", "\"01:02:03\""}},
      {R"({"format": "date-time"})",
       {"\"2024-02-29T01:02:03Z\""},
       {"\"2024-02-29 01:02:03Z\"", "\"2024-02-29\""}},
      {R"({"format": "uuid"})",
       {"\"123e4567-e89b-12d3-A456-426614174000\""},
       {"\"123e4567e89b12d3a456426614174000\""}},
      {R"({"format": "email"})",
       {"\"a.b@c-d.org\""},
       {"\"a@b\"", "\"@b.org\"", "\"a@-b.org\"", "\"a b@c.org\""}},
      {R"({"format": "date", "pattern": "^2024"})",
       {"\"2024-01-01\""},
       {"\"2023-01-01\""}},
  });
}

TEST_CASE("references, recursion and alternatives") {
  Check({
      {R"({"$defs": {"t": {"type": "object", "properties": {
             "v": {"type": "integer"}, "kids": {"type": "array",
             "items": {"$ref": "#/$defs/t"}}}, "required": ["v"]}},
           "$ref": "#/$defs/t"})",
       {R"({"v":1})", R"({"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]})"},
       {R"({"v":1,"kids":[1]})", R"({"kids":[]})"}},
      {R"({"properties": {"next": {"anyOf": [{"$ref": "#"},
                                             {"type": "null"}]}}})",
       {"{}", R"({"next":{"next":null}})"},
       {R"({"next":1})"}},
      {R"({"definitions": {"a/b~c %": {"const": 1}},
           "$ref": "#/definitions/a~1b~0c%20%25"})",
       {"1"},
       {"2"}},
      {R"({"anyOf": [{"const": "ab"}, {"const": "ac"}, {"type": "integer"}]})",
       {"\"ab\"", "\"ac\"", "7"},
       {"\"a\"", "null"}},
      {R"({"allOf": [{"type": "integer"}], "title": "t", "default": 1,
           "description": "d", "examples": [], "$comment": "c"})",
       {"1"},
       {"\"a\""}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})",
       {"1", "\"a\""},
       {"null"}},
      {R"({"oneOf": [
           {"type": "object", "properties": {"k": {"const": "a"},
            "x": {"type": "integer"}}, "required": ["k", "x"]},
           {"type": "object", "properties": {"k": {"enum": ["b", "c"]}},
            "required": ["k"]}]})",
       {R"({"k":"a","x":1})", R"({"k":"c"})"},
       {R"({"k":"a"})"}},
      {R"({"prefixItems": [{"const": 1}, {"$ref": "#/prefixItems/0"}]})",
       {"[1,1]"},
       {"[1,2]"}},
  });
}

TEST_CASE("what cannot be kept is refused by name and place") {
  struct Refusal {
    const char* schema;
    const char* message;
  };
  for (const Refusal& one : std::vector<Refusal>{
           {R"({"not": {}})", "#: the keyword \"not\" is not supported"},
           {R"({"properties": {"a": {"multipleOf": 2}}})",
            "#/properties/a: the keyword \"multipleOf\" is not supported"},
           {R"({"patternProperties": {}})",
            "#: the keyword \"patternProperties\" is not supported"},
           {R"({"type": "array", "uniqueItems": true})",
            "#: uniqueItems is not supported"},
           {R"({"anyOf": [{}], "type": "object"})",
            "#: type beside anyOf is not supported"},
           {R"({"anyOf": [{}], "oneOf": [{}]})",
            "#: anyOf and oneOf in one schema are not supported"},
           {R"({"$ref": "#", "minLength": 2})",
            "#: minLength beside $ref is not supported"},
           {R"({"allOf": [{}, {}]})",
            "#: allOf with 2 entries is not supported, only with one"},
           {R"({"enum": ["a"], "minLength": 2})",
            "#: minLength beside enum is not supported"},
           {R"({"enum": []})",
            "#: enum must be a list of at least one value, got []"},
           {R"({"enum": ["a"], "type": "null"})",
            "#: no value of enum or const is of the type"},
           {R"({"type": "int"})",
            "#: type must be one of object, array, string, number, integer, "
            "boolean, null, got \"int\""},
           {R"({"format": "ipv4"})",
            "#: the format \"ipv4\" is not supported; supported are date, "
            "time, date-time, uuid, email"},
           {R"({"items": [{}]})",
            "#: items must be a schema; a list of them is named prefixItems"},
           {R"({"minItems": 3, "maxItems": 2})",
            "#: minItems 3 is more than maxItems 2"},
           {R"({"prefixItems": [{}], "minItems": 2})",
            "#: minItems 2 is more than the 1 items there can be"},
           {R"({"minLength": -1})",
            "#: minLength must be an integer of at least 0, got -1"},
           {R"({"maxLength": 1e300})",
            "#: maxLength must be at most 100000, got 1e+300"},
           {R"({"minLength": 3, "pattern": "^a$"})",
            "#: no string can match its pattern and length"},
           {R"({"properties": {}, "additionalProperties": false,
                "required": ["a"]})",
            "#: \"a\" is required, and additionalProperties excludes it"},
           {R"({"$ref": "other.json"})",
            "#: $ref 'other.json' is not supported: it must be # or begin with "
            "#/, a place in the same schema"},
           {R"({"$ref": "#/$defs/x"})",
            "#: $ref '#/$defs/x' leads nowhere: there is no '$defs' in #"},
           {R"({"$ref": "#"})",
            "# leads back to itself with nothing in between; such a $ref "
            "describes nothing"},
           {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})",
            "# leads back to itself with nothing in between; such a $ref "
            "describes nothing"},
           {R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
            "no text can match it"},
           {"false", "no text can match it"},
           {"3", "#: a schema is an object, true or false, this is 3"},
           {R"({"properties": {"a": 3}})",
            "#/properties/a: a schema is an object, true or false, this is 3"},
           {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
            "#: oneOf: it is not clear that branches 0 and 1 exclude each "
            "other; use anyOf, or give them different types or a required "
            "property with different constants"},
           {R"x({"pattern": "a(?=b)"})x",
            "#/pattern: look-around is not supported, at character 2 of the "
            "pattern"},
       }) {
    CAPTURE(one.schema);
    CHECK(Problem(SchemaSpec(one.schema)) ==
          "guided_json: " + std::string(one.message));
  }
  for (const char* open :
       {R"([{"type": "integer"}, {"enum": [1.0]}])",
        R"([{"properties": {"a": {"const": 1}}, "required": ["a"]},
            {"type": "string"}])",
        R"([{"properties": {"a": {"const": 1}}, "required": ["a"]},
            {"properties": {"a": {"const": 2}}}])",
        R"([{"const": 1}, {"const": 1.0}])", R"([{}, {"type": "null"}])"}) {
    CAPTURE(open);
    CHECK(Problem(SchemaSpec("{\"oneOf\": " + std::string(open) + "}"))
              .find("it is not clear") != std::string::npos);
  }
}

TEST_CASE("hostile schemas end in an error, or in a grammar, soon") {
  const auto start = std::chrono::steady_clock::now();
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += R"({"items":)";
  CHECK_FALSE(Problem(SchemaSpec(deep)).empty());
  CHECK_FALSE(Problem(SchemaSpec(std::string(1'000'000, '['))).empty());
  CHECK_FALSE(Problem(SchemaSpec("")).empty());
  // A long chain of references.
  std::string chain = R"({"$ref": "#/$defs/0", "$defs": {)";
  constexpr int kLinks = 20000;
  for (int i = 0; i < kLinks; ++i) {
    chain += fmt::format(R"("{}": {{"$ref": "#/$defs/{}"}}, )", i, i + 1);
  }
  chain += fmt::format(R"("{}": {{"type": "null"}}}}}})", kLinks);
  Acceptor accepts(SchemaSpec(chain));
  CHECK(accepts("null"));
  // Counts multiply only where each is written out.
  CHECK_FALSE(
      Problem(SchemaSpec(R"({"items": {}, "minItems": 100000})")).empty());
  CHECK_FALSE(
      Problem(SchemaSpec(R"({"pattern": "^(a{1000}){1000}$"})")).empty());
  // Every level of this one doubles the ways to read "[[[[".
  std::string doubling = R"({"$defs": {"0": {"type": "null"}, )";
  for (int i = 1; i < 60; ++i) {
    doubling += fmt::format(
        R"("{0}": {{"anyOf": [{{"items": {{"$ref": "#/$defs/{1}"}},
           "minItems": 1}}, {{"items": {{"$ref": "#/$defs/{1}"}},
           "minItems": 2}}]}}, )",
        i, i - 1);
  }
  doubling += R"("x": {}}, "$ref": "#/$defs/59"})";
  Acceptor doubled(SchemaSpec(doubling));
  doubled.matcher().set_max_work(1'000'000);
  CHECK_FALSE(doubled(std::string(59, '[')));
  CHECK(doubled.matcher().full());
  const auto spent = std::chrono::steady_clock::now() - start;
  CHECK(std::chrono::duration<double>(spent).count() < 30);
}

TEST_CASE("a choice is one of its texts") {
  Acceptor accepts(ChoiceSpec(R"(["yes", "no", "not sure", "é", "no"])"));
  for (const char* yes : {"yes", "no", "not sure", "é"}) CHECK(accepts(yes));
  for (const char* no : {"", "n", "nos", "not", "e"}) CHECK_FALSE(accepts(no));
  CHECK(Problem(ChoiceSpec("[]")) ==
        "guided_choice must be a list of at least one string");
  CHECK(Problem(ChoiceSpec("[1]")) ==
        "guided_choice must be a list of strings");
}

}  // namespace
}  // namespace rbln
