#include "job/guide_parameters.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/error.h"

namespace rbln {
namespace {

using Kind = GuideSpec::Kind;

// Every field of an object, as the reader of a line sets them.
SamplingParams Set(const std::string& fields) {
  SamplingParams params;
  const OrderedJson object = OrderedJson::parse(fields);
  for (const auto& [name, value] : object.items()) {
    const bool known = SetGuideParameter(params, name, value);
    CHECK(known);
  }
  return params;
}

std::string Problem(const std::string& fields) {
  try {
    Set(fields);
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    return error.what();
  }
}

TEST_CASE("all the ways to say what a text must match") {
  struct Case {
    const char* fields;
    Kind kind;
    const char* text;
    const char* name;
  };
  for (const Case& one : std::vector<Case>{
           {R"({"response_format": {"type": "json_object"}})", Kind::kSchema,
            R"({"type":"object"})", "response_format"},
           {R"({"response_format": {"type": "json_schema", "json_schema":
               {"name": "n", "description": "d", "strict": true,
                "schema": {"properties": {"b": {}, "a": {}}}}}})",
            Kind::kSchema, R"({"properties":{"b":{},"a":{}}})",
            "response_format"},
           {R"({"guided_json": {"z": 1, "a": 2}})", Kind::kSchema,
            R"({"z":1,"a":2})", "guided_json"},
           {R"({"guided_json": "{\"type\": \"null\"}"})", Kind::kSchema,
            R"({"type": "null"})", "guided_json"},
           {R"({"guided_regex": "a+"})", Kind::kRegex, "a+", "guided_regex"},
           {R"({"guided_choice": ["b", "a"]})", Kind::kChoice, R"(["b","a"])",
            "guided_choice"},
           {R"({"structured_outputs": {"json": {}, "regex": null}})",
            Kind::kSchema, "{}", "structured_outputs: json"},
           {R"({"structured_outputs": {"regex": "x"}})", Kind::kRegex, "x",
            "structured_outputs: regex"},
           {R"({"structured_outputs": {"choice": ["x"]}})", Kind::kChoice,
            R"(["x"])", "structured_outputs: choice"},
           {R"({"structured_outputs": {"json_object": true}})", Kind::kSchema,
            R"({"type":"object"})", "structured_outputs: json_object"},
           // What says nothing is no second guide.
           {R"({"response_format": {"type": "text"}, "guided_json": null,
                "guided_regex": "x", "structured_outputs":
                {"json_object": false}})",
            Kind::kRegex, "x", "guided_regex"},
       }) {
    CAPTURE(one.fields);
    const SamplingParams params = Set(one.fields);
    REQUIRE(params.guide);
    CHECK(params.guide->kind == one.kind);
    CHECK(params.guide->text == one.text);
    CHECK(params.guide->name == one.name);
  }
  CHECK_FALSE(Set(R"({"response_format": {"type": "text"}})").guide);
  CHECK_FALSE(Set(R"({"response_format": null})").guide);
  CHECK_FALSE(Set(R"({"structured_outputs": {}})").guide);
  SamplingParams params;
  CHECK_FALSE(SetGuideParameter(params, "temperature", 1));
}

TEST_CASE("what is malformed or not supported is refused by name") {
  struct Case {
    const char* fields;
    const char* message;
  };
  for (const Case& one : std::vector<Case>{
           {R"({"response_format": "json"})",
            "response_format must be an object, got \"json\""},
           {R"({"response_format": {"type": "xml"}})",
            "response_format: type must be text, json_object or json_schema, "
            "got \"xml\""},
           {R"({"response_format": {}})",
            "response_format: type must be text, json_object or json_schema, "
            "got null"},
           {R"({"response_format": {"type": "json_object", "schema": {}}})",
            "response_format: schema is not supported with the type "
            "\"json_object\""},
           {R"({"response_format": {"type": "json_schema"}})",
            "response_format: json_schema must be an object with a schema"},
           {R"({"response_format": {"type": "json_schema",
                "json_schema": {"schema": {}, "mode": 1}}})",
            "response_format: json_schema: mode is not supported"},
           {R"({"response_format": {"type": "json_schema",
                "json_schema": {"schema": {}, "strict": 1}}})",
            "response_format: json_schema: strict must be true or false, got "
            "1"},
           {R"({"guided_json": [1]})",
            "guided_json must be a JSON schema, as an object or as its text, "
            "got [1]"},
           {R"({"guided_regex": 1})", "guided_regex must be a string, got 1"},
           {R"({"guided_choice": "a"})",
            "guided_choice must be a list of at least one string, got \"a\""},
           {R"({"guided_choice": []})",
            "guided_choice must be a list of at least one string, got []"},
           {R"({"guided_grammar": "root ::= x"})",
            "guided_grammar is not supported; guided_json, guided_regex and "
            "guided_choice are"},
           {R"({"structured_outputs": 1})",
            "structured_outputs must be an object, got 1"},
           {R"({"structured_outputs": {"grammar": "x"}})",
            "structured_outputs: grammar is not supported; json, regex, choice "
            "and json_object are"},
           {R"({"structured_outputs": {"json_object": 1}})",
            "structured_outputs: json_object must be true or false, got 1"},
           {R"({"guided_regex": "a", "guided_choice": ["b"]})",
            "guided_regex and guided_choice both say what to match; one of "
            "them is wanted"},
           {R"({"structured_outputs": {"regex": "a", "choice": ["b"]}})",
            "structured_outputs: regex and structured_outputs: choice both say "
            "what to match; one of them is wanted"},
       }) {
    CAPTURE(one.fields);
    CHECK(Problem(one.fields) == one.message);
  }
}

}  // namespace
}  // namespace rbln
