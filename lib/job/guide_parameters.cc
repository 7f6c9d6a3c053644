#include "job/guide_parameters.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace rbln {
namespace {

using Kind = GuideSpec::Kind;

std::string Show(const OrderedJson& value) {
  std::string text =
      value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  constexpr size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

void SetGuide(SamplingParams& params, Kind kind, std::string text,
              std::string name) {
  if (params.guide) {
    throw UsageError("{} and {} both say what to match; one of them is wanted",
                     params.guide->name, name);
  }
  params.guide = {kind, std::move(text), std::move(name)};
}

void SetSchema(SamplingParams& params, const std::string& name,
               const OrderedJson& schema) {
  if (!schema.is_object() && !schema.is_string()) {
    throw UsageError(
        "{} must be a JSON schema, as an object or as its text, got {}", name,
        Show(schema));
  }
  SetGuide(params, Kind::kSchema,
           schema.is_string() ? schema.get<std::string>() : schema.dump(),
           name);
}

void SetRegex(SamplingParams& params, const std::string& name,
              const OrderedJson& pattern) {
  if (!pattern.is_string()) {
    throw UsageError("{} must be a string, got {}", name, Show(pattern));
  }
  SetGuide(params, Kind::kRegex, pattern.get<std::string>(), name);
}

void SetChoice(SamplingParams& params, const std::string& name,
               const OrderedJson& list) {
  const bool strings =
      list.is_array() && !list.empty() &&
      std::all_of(list.begin(), list.end(),
                  [](const OrderedJson& one) { return one.is_string(); });
  if (!strings) {
    throw UsageError("{} must be a list of at least one string, got {}", name,
                     Show(list));
  }
  SetGuide(params, Kind::kChoice, list.dump(), name);
}

void SetAnyObject(SamplingParams& params, const std::string& name) {
  SetGuide(params, Kind::kSchema, R"({"type":"object"})", name);
}

void SetResponseFormat(SamplingParams& params, const std::string& name,
                       const OrderedJson& value) {
  if (!value.is_object()) {
    throw UsageError("{} must be an object, got {}", name, Show(value));
  }
  const OrderedJson type = value.value("type", OrderedJson());
  if (type != "text" && type != "json_object" && type != "json_schema") {
    throw UsageError(
        "{}: type must be text, json_object or json_schema, got {}", name,
        Show(type));
  }
  for (const auto& [key, item] : value.items()) {
    const bool known =
        key == "type" || (key == "json_schema" && type == "json_schema");
    if (known || item.is_null()) continue;
    throw UsageError("{}: {} is not supported with the type {}", name, key,
                     Show(type));
  }
  if (type == "text") return;
  if (type == "json_object") return SetAnyObject(params, name);
  const std::string inner = name + ": json_schema";
  const auto format = value.find("json_schema");
  if (format == value.end() || !format->is_object() ||
      !format->contains("schema")) {
    throw UsageError("{} must be an object with a schema", inner);
  }
  for (const auto& [key, item] : format->items()) {
    const bool known = key == "name" || key == "description" ||
                       key == "schema" || key == "strict";
    if (!known) throw UsageError("{}: {} is not supported", inner, key);
    // Whether or not it is asked for, the schema is kept to.
    if (key == "strict" && !item.is_boolean() && !item.is_null()) {
      throw UsageError("{}: strict must be true or false, got {}", inner,
                       Show(item));
    }
  }
  SetSchema(params, name, (*format)["schema"]);
}

void SetStructuredOutputs(SamplingParams& params, const std::string& name,
                          const OrderedJson& value) {
  if (!value.is_object()) {
    throw UsageError("{} must be an object, got {}", name, Show(value));
  }
  for (const auto& [key, item] : value.items()) {
    if (item.is_null()) continue;
    const std::string inner = name + ": " + key;
    if (key == "json") {
      SetSchema(params, inner, item);
    } else if (key == "regex") {
      SetRegex(params, inner, item);
    } else if (key == "choice") {
      SetChoice(params, inner, item);
    } else if (key == "json_object") {
      if (!item.is_boolean()) {
        throw UsageError("{} must be true or false, got {}", inner, Show(item));
      }
      if (item == true) SetAnyObject(params, inner);
    } else {
      throw UsageError(
          "{} is not supported; json, regex, choice and json_object are",
          inner);
    }
  }
}

}  // namespace

bool SetGuideParameter(SamplingParams& params, std::string_view name,
                       const OrderedJson& value) {
  const bool known = name == "response_format" ||
                     name == "structured_outputs" ||
                     name.starts_with("guided_");
  if (!known) return false;
  if (value.is_null()) return true;
  const std::string text(name);
  if (name == "response_format") {
    SetResponseFormat(params, text, value);
  } else if (name == "structured_outputs") {
    SetStructuredOutputs(params, text, value);
  } else if (name == "guided_json") {
    SetSchema(params, text, value);
  } else if (name == "guided_regex") {
    SetRegex(params, text, value);
  } else if (name == "guided_choice") {
    SetChoice(params, text, value);
  } else {
    // Also on a plain line, where names that nobody knows go back with the
    // answer: this one would change it.
    throw UsageError(
        "{} is not supported; guided_json, guided_regex and guided_choice are",
        name);
  }
  return true;
}

}  // namespace rbln
