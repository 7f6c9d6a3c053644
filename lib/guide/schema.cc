#include "guide/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "guide/schema_compiler.h"
#include "guide/schema_ref.h"

namespace rbln {
namespace {

using Names = std::vector<std::string_view>;

const Names kTypes = {"object",  "array",   "string", "number",
                      "integer", "boolean", "null"};
const Names kObjectKeywords = {"properties", "required",
                               "additionalProperties"};
const Names kArrayKeywords = {"items", "prefixItems", "minItems", "maxItems",
                              "uniqueItems"};
const Names kStringKeywords = {"minLength", "maxLength", "pattern", "format"};
const Names kNumberKeywords = {"minimum", "maximum", "exclusiveMinimum",
                               "exclusiveMaximum"};
const Names kWholeKeywords = {"$ref", "anyOf", "oneOf", "allOf"};
const Names kValueKeywords = {"type", "enum", "const"};
// The last one is OpenAPI's, which pydantic writes beside oneOf.
const Names kAnnotations = {"title",     "description", "default",
                            "examples",  "$schema",     "$comment",
                            "$defs",     "definitions", "readOnly",
                            "writeOnly", "deprecated",  "discriminator"};

bool Contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The type of a value, as `type` names it.
std::string_view TypeOf(const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::null:
      return "null";
    case OrderedJson::value_t::boolean:
      return "boolean";
    case OrderedJson::value_t::string:
      return "string";
    case OrderedJson::value_t::array:
      return "array";
    case OrderedJson::value_t::object:
      return "object";
    case OrderedJson::value_t::number_float:
      return "number";
    default:
      return "integer";
  }
}

}  // namespace

std::string ShowJson(const OrderedJson& value) {
  std::string text =
      value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  constexpr size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

void SchemaCompiler::Run() {
  RuleFor(root_, "#");
  // Rules that are filled may ask for more.
  for (size_t i = 0; i < todo_.size(); ++i) {
    const Todo todo = todo_[i];
    path_ = todo.path;
    Fill(*todo.schema, todo.rule);
  }
}

int SchemaCompiler::RuleFor(const OrderedJson& schema,
                            const std::string& path) {
  const auto [at, added] = rules_.try_emplace(&schema, 0);
  if (added) {
    at->second = builder_.AddRule(path);
    todo_.push_back({&schema, path, at->second});
  }
  return at->second;
}

void SchemaCompiler::Fill(const OrderedJson& schema, int rule) {
  const int start = builder_.start(rule);
  const int end = builder_.AddState();
  builder_.SetEnd(end);
  if (schema.is_boolean()) {
    if (schema == true) {
      builder_.AddCall(start, rules_of_json_.Value(), end);
    }
    return;
  }
  if (!schema.is_object()) {
    Fail("a schema is an object, true or false, this is {}", ShowJson(schema));
  }
  CheckKeywords(schema);
  for (const std::string_view name : kWholeKeywords) {
    if (schema.contains(name)) return FillWhole(schema, name, start, end);
  }
  const std::optional<Names> types = Types(schema);
  if (schema.contains("enum") || schema.contains("const")) {
    return FillValues(schema, types, start, end);
  }
  if (!types) {
    builder_.AddCall(start, rules_of_json_.Value(), end);
    return;
  }
  for (const std::string_view type : *types) {
    FillType(schema, type, start, end);
  }
}

void SchemaCompiler::CheckKeywords(const OrderedJson& schema) {
  std::string_view whole;
  for (const std::string_view name : kWholeKeywords) {
    if (!schema.contains(name)) continue;
    if (!whole.empty()) {
      Fail("{} and {} in one schema are not supported", whole, name);
    }
    whole = name;
  }
  const bool values = schema.contains("enum") || schema.contains("const");
  for (const auto& [name, value] : schema.items()) {
    if (Contains(kAnnotations, name) || name == whole) continue;
    if (name == "$id" && &schema == &root_) continue;
    const bool constrains =
        Contains(kObjectKeywords, name) || Contains(kArrayKeywords, name) ||
        Contains(kStringKeywords, name) || Contains(kNumberKeywords, name);
    if (!constrains && !Contains(kValueKeywords, name)) {
      Fail("the keyword {} is not supported", ShowJson(name));
    }
    if (!whole.empty()) Fail("{} beside {} is not supported", name, whole);
    if (values && constrains) {
      Fail("{} beside {} is not supported", name,
           schema.contains("enum") ? "enum" : "const");
    }
  }
}

void SchemaCompiler::FillWhole(const OrderedJson& schema, std::string_view name,
                               int start, int end) {
  const OrderedJson& value = schema[name];
  const std::string path = path_;
  if (name == "$ref") {
    std::string to;
    const OrderedJson& target =
        Resolve(root_, value, &to, [&](auto problem) { Fail("{}", problem); });
    builder_.AddCall(start, RuleFor(target, to), end);
    return;
  }
  if (!value.is_array() || value.empty()) {
    Fail("{} must be a list of at least one schema, got {}", name,
         ShowJson(value));
  }
  if (name == "allOf" && value.size() != 1) {
    Fail("allOf with {} entries is not supported, only with one", value.size());
  }
  if (name == "oneOf") CheckDisjoint(value);
  for (size_t i = 0; i < value.size(); ++i) {
    builder_.AddCall(
        start, RuleFor(value[i], fmt::format("{}/{}/{}", path, name, i)), end);
  }
}

void SchemaCompiler::CheckDisjoint(const OrderedJson& branches) {
  constexpr size_t kMost = 256;
  if (branches.size() > kMost) {
    Fail("oneOf with more than {} branches; use anyOf", kMost);
  }
  for (size_t i = 0; i < branches.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (AreDisjoint(root_, branches[i], branches[j])) continue;
      Fail(
          "oneOf: it is not clear that branches {} and {} exclude each "
          "other; use anyOf, or give them different types or a required "
          "property with different constants",
          j, i);
    }
  }
}

std::optional<Names> SchemaCompiler::Types(const OrderedJson& schema) {
  Names types;
  if (schema.contains("type")) {
    const OrderedJson& given = schema["type"];
    const auto add = [&](const OrderedJson& one) {
      if (!one.is_string() ||
          !Contains(kTypes, one.get_ref<const std::string&>())) {
        Fail("type must be one of {}, got {}", fmt::join(kTypes, ", "),
             ShowJson(one));
      }
      const auto& name = one.get_ref<const std::string&>();
      if (!Contains(types, name)) types.push_back(name);
    };
    if (!given.is_array()) {
      add(given);
    } else {
      for (const OrderedJson& one : given) add(one);
    }
    if (types.empty()) Fail("type must not be an empty list");
    // Every integer is a number.
    if (Contains(types, "number")) std::erase(types, "integer");
    return types;
  }
  const auto imply = [&](const Names& keywords, std::string_view type) {
    for (const std::string_view name : keywords) {
      if (schema.contains(name)) return types.push_back(type);
    }
  };
  imply(kObjectKeywords, "object");
  imply(kArrayKeywords, "array");
  imply(kStringKeywords, "string");
  imply(kNumberKeywords, "number");
  if (types.empty()) return std::nullopt;
  return types;
}

void SchemaCompiler::FillValues(const OrderedJson& schema,
                                const std::optional<Names>& types, int start,
                                int end) {
  OrderedJson values = OrderedJson::array();
  if (schema.contains("enum")) {
    values = schema["enum"];
    if (!values.is_array() || values.empty()) {
      Fail("enum must be a list of at least one value, got {}",
           ShowJson(values));
    }
  }
  if (schema.contains("const")) {
    const OrderedJson& constant = schema["const"];
    if (schema.contains("enum") &&
        std::find(values.begin(), values.end(), constant) == values.end()) {
      Fail("const {} is not in enum", ShowJson(constant));
    }
    values = OrderedJson::array({constant});
  }
  std::vector<std::string> texts;
  for (const OrderedJson& value : values) {
    const std::string_view type = TypeOf(value);
    if (types && !Contains(*types, type) &&
        !(type == "integer" && Contains(*types, "number"))) {
      continue;
    }
    texts.push_back(value.dump());
  }
  if (texts.empty()) Fail("no value of enum or const is of the type");
  builder_.AddLiterals(start, std::move(texts), end);
}

void AddSchema(GrammarBuilder& builder, const OrderedJson& schema) {
  SchemaCompiler(builder, schema).Run();
}

}  // namespace rbln
