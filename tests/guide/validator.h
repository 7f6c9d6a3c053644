// A validator of its own for the part of JSON Schema that guides know: plain
// recursion over parsed values, as little like the grammars as can be.
#pragma once

#include <cmath>
#include <string>

#include "base/json.h"
#include "guide/formats.h"
#include "guide/regex.h"
#include "text/tokenizer_utf8.h"

namespace rbln {

inline std::u32string Characters(const std::string& text) {
  std::u32string result;
  for (size_t at = 0; at < text.size();) result += NextChar(text, &at);
  return result;
}

class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  bool Valid(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref")) {
      const std::string ref = schema["$ref"];
      return Valid(root_.at(Json::json_pointer(ref.substr(1))), value);
    }
    for (const char* name : {"anyOf", "oneOf", "allOf"}) {
      if (!schema.contains(name)) continue;
      int valid = 0;
      const Json& branches = schema[name];
      for (const Json& one : branches) valid += Valid(one, value);
      const std::string which = name;
      if (which == "anyOf" && valid == 0) return false;
      if (which == "oneOf" && valid != 1) return false;
      if (which == "allOf" && valid != static_cast<int>(branches.size())) {
        return false;
      }
    }
    if (schema.contains("const") && schema["const"] != value) return false;
    if (schema.contains("enum")) {
      bool found = false;
      for (const Json& one : schema["enum"]) found |= one == value;
      if (!found) return false;
    }
    return HasType(schema, value) && Number(schema, value) &&
           String(schema, value) && Array(schema, value) &&
           Object(schema, value);
  }

 private:
  static bool HasType(const Json& schema, const Json& value) {
    if (!schema.contains("type")) return true;
    const Json types = schema["type"].is_array()
                           ? schema["type"]
                           : Json::array({schema["type"]});
    for (const std::string type : types) {
      if (type == value.type_name()) return true;
      if (type == "integer" && value.is_number() &&
          value.get<double>() == std::floor(value.get<double>())) {
        return true;
      }
    }
    return false;
  }

  static bool Number(const Json& schema, const Json& value) {
    if (!value.is_number()) return true;
    const double number = value;
    return number >= schema.value("minimum", -INFINITY) &&
           number <= schema.value("maximum", INFINITY) &&
           number > schema.value("exclusiveMinimum", -INFINITY) &&
           number < schema.value("exclusiveMaximum", INFINITY);
  }

  static bool String(const Json& schema, const Json& value) {
    if (!value.is_string()) return true;
    const std::u32string text = Characters(value);
    if (text.size() < schema.value("minLength", size_t{0})) return false;
    if (text.size() > schema.value("maxLength", size_t{1} << 30)) return false;
    if (schema.contains("pattern") &&
        !RegexDfa(std::string(schema["pattern"]), RegexUse::kSearch, "pattern")
             .Accepts(text)) {
      return false;
    }
    return !schema.contains("format") ||
           RegexDfa(FormatPattern(std::string(schema["format"])),
                    RegexUse::kWhole, "format")
               .Accepts(text);
  }

  bool Array(const Json& schema, const Json& value) const {
    if (!value.is_array()) return true;
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    if (value.size() > schema.value("maxItems", size_t{1} << 30)) return false;
    const Json prefix = schema.value("prefixItems", Json::array());
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < prefix.size()) {
        if (!Valid(prefix[i], value[i])) return false;
      } else if (schema.contains("items")) {
        if (!Valid(schema["items"], value[i])) return false;
      }
    }
    return true;
  }

  bool Object(const Json& schema, const Json& value) const {
    if (!value.is_object()) return true;
    for (const std::string name : schema.value("required", Json::array())) {
      if (!value.contains(name)) return false;
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, one] : value.items()) {
      if (properties.contains(name)) {
        if (!Valid(properties[name], one)) return false;
      } else if (schema.contains("additionalProperties")) {
        if (!Valid(schema["additionalProperties"], one)) return false;
      }
    }
    return true;
  }

  const Json& root_;
};

}  // namespace rbln
