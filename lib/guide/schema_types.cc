// What each type of JSON may be under a schema.
#include <algorithm>
#include <cmath>

#include "guide/char_dfa.h"
#include "guide/emit.h"
#include "guide/formats.h"
#include "guide/number.h"
#include "guide/regex.h"
#include "guide/schema_compiler.h"

namespace rbln {
namespace {

constexpr int kMaxItems = 10000;    // minItems, maxItems
constexpr int kMaxLength = 100000;  // minLength, maxLength

}  // namespace

void SchemaCompiler::FillType(const OrderedJson& schema, std::string_view type,
                              int start, int end) {
  if (type == "object") {
    FillObject(schema, start, end);
  } else if (type == "array") {
    FillArray(schema, start, end);
  } else if (type == "string") {
    FillString(schema, start, end);
  } else if (type == "boolean") {
    builder_.AddLiterals(start, {"true", "false"}, end);
  } else if (type == "null") {
    builder_.AddLiteral(start, "null", end);
  } else {
    FillNumber(schema, type == "integer", start, end);
  }
}

std::optional<int> SchemaCompiler::Count(const OrderedJson& schema,
                                         const char* name, int most) {
  if (!schema.contains(name)) return std::nullopt;
  const OrderedJson& value = schema[name];
  // 3.0 is how some writers put 3.
  const bool whole = value.is_number_integer() ||
                     (value.is_number_float() &&
                      value.get<double>() == std::floor(value.get<double>()));
  if (!whole || value.get<double>() < 0) {
    Fail("{} must be an integer of at least 0, got {}", name, ShowJson(value));
  }
  if (value.get<double>() > most) {
    Fail("{} must be at most {}, got {}", name, most, ShowJson(value));
  }
  return value.get<int>();
}

void SchemaCompiler::CheckOrder(const char* min_name, std::optional<int> min,
                                const char* max_name, std::optional<int> max) {
  if (min && max && *min > *max) {
    Fail("{} {} is more than {} {}", min_name, *min, max_name, *max);
  }
}

void SchemaCompiler::FillString(const OrderedJson& schema, int start, int end) {
  const std::optional<int> min = Count(schema, "minLength", kMaxLength);
  const std::optional<int> max = Count(schema, "maxLength", kMaxLength);
  CheckOrder("minLength", min, "maxLength", max);
  std::optional<CharDfa> dfa;
  const auto restrict = [&](CharDfa to, const char* name) {
    dfa = dfa ? Intersection(*dfa, to, Where(name)) : std::move(to);
    if (dfa->empty()) Fail("no string can match its {}", name);
  };
  for (const char* name : {"pattern", "format"}) {
    if (!schema.contains(name)) continue;
    const OrderedJson& value = schema[name];
    if (!value.is_string()) {
      Fail("{} must be a string, got {}", name, ShowJson(value));
    }
    const auto& text = value.get_ref<const std::string&>();
    if (name == std::string_view("pattern")) {
      restrict(RegexDfa(text, RegexUse::kSearch, Where(name)), name);
    } else {
      const char* pattern = FormatPattern(text);
      if (pattern == nullptr) {
        Fail("the format {} is not supported; supported are {}",
             ShowJson(value), FormatNames());
      }
      restrict(RegexDfa(pattern, RegexUse::kWhole, Where(name)), name);
    }
  }
  const int inside = builder_.AddState();
  const int closing = builder_.AddState();
  builder_.AddBytes(start, '"', '"', inside);
  builder_.AddBytes(closing, '"', '"', end);
  if (dfa) {
    if (min || max) {
      if (std::max(min.value_or(0), max.value_or(0)) + 1 >= kMaxDfaStates) {
        Fail("minLength and maxLength beside a pattern must be below {}",
             kMaxDfaStates - 1);
      }
      restrict(LengthDfa(min.value_or(0), max), "pattern and length");
    }
    EmitDfa(builder_, *dfa, TextForm::kJsonString, inside, closing);
    return;
  }
  int at = inside;
  for (int i = 0; i < max.value_or(min.value_or(0)); ++i) {
    if (i >= min.value_or(0)) builder_.AddJump(at, closing);
    const int next = builder_.AddState();
    builder_.AddCall(at, rules_of_json_.Char(), next);
    at = next;
  }
  if (!max) builder_.AddCall(at, rules_of_json_.Char(), at);
  builder_.AddJump(at, closing);
}

void SchemaCompiler::FillNumber(const OrderedJson& schema, bool integer,
                                int start, int end) {
  NumberBounds bounds;
  bounds.integer = integer;
  const auto read = [&](const char* name) -> std::optional<Decimal> {
    if (!schema.contains(name)) return std::nullopt;
    const OrderedJson& value = schema[name];
    if (!value.is_number()) {
      Fail("{} must be a number, got {}", name, ShowJson(value));
    }
    std::optional<Decimal> decimal = ToDecimal(value);
    if (!decimal) {
      Fail("{} {} has too many digits for a bound that can be kept", name,
           ShowJson(value));
    }
    return decimal;
  };
  bounds.min = read("minimum");
  if (const auto above = read("exclusiveMinimum")) {
    if (!bounds.min || Compare(*above, *bounds.min) >= 0) {
      bounds.min = above;
      bounds.min_exclusive = true;
    }
  }
  bounds.max = read("maximum");
  if (const auto below = read("exclusiveMaximum")) {
    if (!bounds.max || Compare(*below, *bounds.max) <= 0) {
      bounds.max = below;
      bounds.max_exclusive = true;
    }
  }
  EmitNumber(builder_, bounds, start, end);
}

void SchemaCompiler::FillArray(const OrderedJson& schema, int start, int end) {
  if (schema.contains("uniqueItems") && schema["uniqueItems"] != false) {
    Fail("uniqueItems is not supported");
  }
  const std::string path = path_;
  std::vector<int> prefix;
  if (schema.contains("prefixItems")) {
    const OrderedJson& list = schema["prefixItems"];
    if (!list.is_array() || list.size() > kMaxItems) {
      Fail("prefixItems must be a list of at most {} schemas, got {}",
           kMaxItems, ShowJson(list));
    }
    for (size_t i = 0; i < list.size(); ++i) {
      prefix.push_back(
          RuleFor(list[i], fmt::format("{}/prefixItems/{}", path, i)));
    }
  }
  // What comes behind the prefix; -1: nothing may.
  int rest = -1;
  if (schema.contains("items")) {
    if (schema["items"].is_array()) {
      Fail("items must be a schema; a list of them is named prefixItems");
    }
    if (schema["items"] != false) {
      rest = RuleFor(schema["items"], path + "/items");
    }
  } else if (!schema.contains("prefixItems")) {
    rest = rules_of_json_.Value();
  }
  const int min = Count(schema, "minItems", kMaxItems).value_or(0);
  std::optional<int> max = Count(schema, "maxItems", kMaxItems);
  CheckOrder("minItems", min, "maxItems", max);
  const int known = static_cast<int>(prefix.size());
  if (rest < 0) max = std::min(max.value_or(known), known);
  if (max && min > *max) {
    Fail("minItems {} is more than the {} items there can be", min, *max);
  }

  const int space = rules_of_json_.Space();
  // Before the next item, the first or a later one.
  int at = builder_.AddState();
  const int opened = builder_.AddState();
  builder_.AddBytes(start, '[', '[', opened);
  builder_.AddCall(opened, space, at);
  const int closing = builder_.AddState();
  builder_.AddBytes(closing, ']', ']', end);
  if (min == 0) builder_.AddJump(at, closing);
  // Only behind an item is there white space before the end.
  const int closing_space = builder_.AddState();
  builder_.AddCall(closing_space, space, closing);
  const int unrolled = max ? *max : std::max(known, min) + 1;
  for (int i = 0; i < unrolled; ++i) {
    const int behind = builder_.AddState();
    builder_.AddCall(at, i < known ? prefix[i] : rest, behind);
    if (i + 1 >= min) builder_.AddJump(behind, closing_space);
    if (max && i + 1 == unrolled) break;
    const int comma = builder_.AddState();
    builder_.AddBytes(behind, ',', ',', comma);
    at = builder_.AddState();
    builder_.AddCall(comma, space, at);
    // The last one comes again and again where there is no maximum.
    if (i + 1 == unrolled) builder_.AddCall(at, rest, behind);
  }
}

std::vector<SchemaCompiler::Property> SchemaCompiler::Properties(
    const OrderedJson& schema, int* rest) {
  const std::string path = path_;
  std::vector<Property> properties;
  if (schema.contains("properties")) {
    const OrderedJson& given = schema["properties"];
    if (!given.is_object()) {
      Fail("properties must be an object, got {}", ShowJson(given));
    }
    for (const auto& [name, value] : given.items()) {
      properties.push_back(
          {name, RuleFor(value, fmt::format("{}/properties/{}", path, name)),
           false});
    }
  }
  *rest = -1;
  if (schema.contains("additionalProperties")) {
    const OrderedJson& others = schema["additionalProperties"];
    if (others != false) {
      *rest = RuleFor(others, path + "/additionalProperties");
    }
  } else if (!schema.contains("properties")) {
    *rest = rules_of_json_.Value();
  }
  if (!schema.contains("required")) return properties;
  const OrderedJson& required = schema["required"];
  if (!required.is_array()) {
    Fail("required must be a list of names, got {}", ShowJson(required));
  }
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < properties.size(); ++i) {
    places[properties[i].name] = i;
  }
  std::vector<std::string> unnamed;
  for (const OrderedJson& name : required) {
    if (!name.is_string()) {
      Fail("required must be a list of names, got {}", ShowJson(required));
    }
    const auto& text = name.get_ref<const std::string&>();
    if (const auto at = places.find(text); at != places.end()) {
      properties[at->second].required = true;
    } else if (std::find(unnamed.begin(), unnamed.end(), text) ==
               unnamed.end()) {
      unnamed.push_back(text);
    }
  }
  for (const std::string& name : unnamed) {
    if (*rest < 0 && schema.contains("additionalProperties")) {
      Fail("{} is required, and additionalProperties excludes it",
           ShowJson(name));
    }
    properties.push_back(
        {name, *rest < 0 ? rules_of_json_.Value() : *rest, true});
  }
  return properties;
}

void SchemaCompiler::FillObject(const OrderedJson& schema, int start, int end) {
  int rest = -1;
  const std::vector<Property> properties = Properties(schema, &rest);
  const int space = rules_of_json_.Space();
  const int opened = builder_.AddState();
  builder_.AddBytes(start, '{', '{', opened);
  // Before a property that is the first in the text, and before one that is
  // not.
  int first = builder_.AddState();
  int later = builder_.AddState();
  builder_.AddCall(opened, space, first);
  for (const Property& property : properties) {
    const int next_first = builder_.AddState();
    const int next_later = builder_.AddState();
    const int member = Separated(first, later);
    AddMember(member, property, next_later);
    if (!property.required) {
      builder_.AddJump(first, next_first);
      builder_.AddJump(later, next_later);
    }
    first = next_first;
    later = next_later;
  }
  if (rest >= 0) {
    const int member = Separated(first, later);
    AddOtherMember(member, properties, rest, later);
  }
  const int closing = builder_.AddState();
  builder_.AddCall(later, space, closing);
  builder_.AddJump(first, closing);
  builder_.AddBytes(closing, '}', '}', end);
}

int SchemaCompiler::Separated(int first, int later) {
  const int member = builder_.AddState();
  const int comma = builder_.AddState();
  builder_.AddJump(first, member);
  builder_.AddBytes(later, ',', ',', comma);
  builder_.AddCall(comma, rules_of_json_.Space(), member);
  return member;
}

void SchemaCompiler::AddMember(int from, const Property& property, int to) {
  const int colon = builder_.AddState();
  builder_.AddLiteral(from, JsonString(property.name) + ":", colon);
  AddMemberValue(colon, property.rule, to);
}

void SchemaCompiler::AddMemberValue(int from, int rule, int to) {
  const int value = builder_.AddState();
  builder_.AddCall(from, rules_of_json_.Space(), value);
  builder_.AddCall(value, rule, to);
}

void SchemaCompiler::AddOtherMember(int from,
                                    const std::vector<Property>& properties,
                                    int rule, int to) {
  const int named = builder_.AddState();
  if (properties.empty()) {
    builder_.AddCall(from, rules_of_json_.String(), named);
  } else {
    std::vector<std::string> names;
    for (const Property& property : properties) {
      names.push_back(property.name);
    }
    const int inside = builder_.AddState();
    const int closing = builder_.AddState();
    builder_.AddBytes(from, '"', '"', inside);
    EmitDfa(builder_, AnyTextBut(names), TextForm::kJsonString, inside,
            closing);
    builder_.AddBytes(closing, '"', '"', named);
  }
  const int colon = builder_.AddState();
  builder_.AddBytes(named, ':', ':', colon);
  AddMemberValue(colon, rule, to);
}

}  // namespace rbln
