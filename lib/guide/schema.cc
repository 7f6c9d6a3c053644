#include "guide/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "guide/char_dfa.h"
#include "guide/emit.h"
#include "guide/formats.h"
#include "guide/json_rules.h"
#include "guide/number.h"
#include "guide/regex.h"
#include "guide/schema_ref.h"

namespace rbln {
namespace {

constexpr int kMaxItems = 10000;    // minItems, maxItems
constexpr int kMaxLength = 100000;  // minLength, maxLength

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

std::string Show(const OrderedJson& value) {
  std::string text =
      value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  constexpr size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
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

class Compiler {
 public:
  Compiler(GrammarBuilder& builder, const OrderedJson& root)
      : builder_(builder), root_(root), rules_of_json_(builder) {}

  void Run() {
    RuleFor(root_, "#");
    // Rules that are filled may ask for more rules; nothing here recurs,
    // however deep the schema is.
    for (size_t i = 0; i < todo_.size(); ++i) {
      const Todo todo = todo_[i];
      path_ = todo.path;
      Fill(*todo.schema, todo.rule);
    }
  }

 private:
  struct Todo {
    const OrderedJson* schema;
    std::string path;
    int rule;
  };

  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
    throw UsageError("{}: {}: {}", builder_.where(), path_,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  int RuleFor(const OrderedJson& schema, const std::string& path) {
    const auto [at, added] = rules_.try_emplace(&schema, 0);
    if (added) {
      at->second = builder_.AddRule(path);
      todo_.push_back({&schema, path, at->second});
    }
    return at->second;
  }

  void Fill(const OrderedJson& schema, int rule) {
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
      Fail("a schema is an object, true or false, this is {}", Show(schema));
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

  void CheckKeywords(const OrderedJson& schema) {
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
        Fail("the keyword {} is not supported", Show(name));
      }
      if (!whole.empty()) Fail("{} beside {} is not supported", name, whole);
      if (values && constrains) {
        Fail("{} beside {} is not supported", name,
             schema.contains("enum") ? "enum" : "const");
      }
    }
  }

  void FillWhole(const OrderedJson& schema, std::string_view name, int start,
                 int end) {
    const OrderedJson& value = schema[name];
    const std::string path = path_;
    if (name == "$ref") {
      std::string to;
      const OrderedJson& target = Resolve(
          root_, value, &to, [&](auto problem) { Fail("{}", problem); });
      builder_.AddCall(start, RuleFor(target, to), end);
      return;
    }
    if (!value.is_array() || value.empty()) {
      Fail("{} must be a list of at least one schema, got {}", name,
           Show(value));
    }
    if (name == "allOf" && value.size() != 1) {
      Fail("allOf with {} entries is not supported, only with one",
           value.size());
    }
    if (name == "oneOf") CheckDisjoint(value);
    for (size_t i = 0; i < value.size(); ++i) {
      builder_.AddCall(
          start, RuleFor(value[i], fmt::format("{}/{}/{}", path, name, i)),
          end);
    }
  }

  // Of oneOf exactly one branch may hold; a text of one branch is only sure to
  // be no text of another where the two cannot both hold.
  void CheckDisjoint(const OrderedJson& branches) {
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

  // nullopt: any.
  std::optional<Names> Types(const OrderedJson& schema) {
    Names types;
    if (schema.contains("type")) {
      const OrderedJson& given = schema["type"];
      const auto add = [&](const OrderedJson& one) {
        if (!one.is_string() ||
            !Contains(kTypes, one.get_ref<const std::string&>())) {
          Fail("type must be one of {}, got {}", fmt::join(kTypes, ", "),
               Show(one));
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

  void FillValues(const OrderedJson& schema, const std::optional<Names>& types,
                  int start, int end) {
    OrderedJson values = OrderedJson::array();
    if (schema.contains("enum")) {
      values = schema["enum"];
      if (!values.is_array() || values.empty()) {
        Fail("enum must be a list of at least one value, got {}", Show(values));
      }
    }
    if (schema.contains("const")) {
      const OrderedJson& constant = schema["const"];
      if (schema.contains("enum") &&
          std::find(values.begin(), values.end(), constant) == values.end()) {
        Fail("const {} is not in enum", Show(constant));
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

  void FillType(const OrderedJson& schema, std::string_view type, int start,
                int end) {
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

  std::optional<int> Count(const OrderedJson& schema, const char* name,
                           int most) {
    if (!schema.contains(name)) return std::nullopt;
    const OrderedJson& value = schema[name];
    // 3.0 is how some writers put 3.
    const bool whole = value.is_number_integer() ||
                       (value.is_number_float() &&
                        value.get<double>() == std::floor(value.get<double>()));
    if (!whole || value.get<double>() < 0) {
      Fail("{} must be an integer of at least 0, got {}", name, Show(value));
    }
    if (value.get<double>() > most) {
      Fail("{} must be at most {}, got {}", name, most, Show(value));
    }
    return value.get<int>();
  }

  void CheckOrder(const char* min_name, std::optional<int> min,
                  const char* max_name, std::optional<int> max) {
    if (min && max && *min > *max) {
      Fail("{} {} is more than {} {}", min_name, *min, max_name, *max);
    }
  }

  void FillString(const OrderedJson& schema, int start, int end) {
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
        Fail("{} must be a string, got {}", name, Show(value));
      }
      const auto& text = value.get_ref<const std::string&>();
      if (name == std::string_view("pattern")) {
        restrict(RegexDfa(text, RegexUse::kSearch, Where(name)), name);
      } else {
        const char* pattern = FormatPattern(text);
        if (pattern == nullptr) {
          Fail("the format {} is not supported; supported are {}", Show(value),
               FormatNames());
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

  void FillNumber(const OrderedJson& schema, bool integer, int start, int end) {
    NumberBounds bounds;
    bounds.integer = integer;
    const auto read = [&](const char* name) -> std::optional<Decimal> {
      if (!schema.contains(name)) return std::nullopt;
      const OrderedJson& value = schema[name];
      if (!value.is_number()) {
        Fail("{} must be a number, got {}", name, Show(value));
      }
      std::optional<Decimal> decimal = ToDecimal(value);
      if (!decimal) {
        Fail("{} {} has too many digits for a bound that can be kept", name,
             Show(value));
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

  void FillArray(const OrderedJson& schema, int start, int end) {
    if (schema.contains("uniqueItems") && schema["uniqueItems"] != false) {
      Fail("uniqueItems is not supported");
    }
    const std::string path = path_;
    std::vector<int> prefix;
    if (schema.contains("prefixItems")) {
      const OrderedJson& list = schema["prefixItems"];
      if (!list.is_array() || list.size() > kMaxItems) {
        Fail("prefixItems must be a list of at most {} schemas, got {}",
             kMaxItems, Show(list));
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

  struct Property {
    std::string name;
    int rule;
    bool required;
  };

  // The properties in the order in which they are written. `rest` is the rule
  // of others; -1: there may be none.
  std::vector<Property> Properties(const OrderedJson& schema, int* rest) {
    const std::string path = path_;
    std::vector<Property> properties;
    if (schema.contains("properties")) {
      const OrderedJson& given = schema["properties"];
      if (!given.is_object()) {
        Fail("properties must be an object, got {}", Show(given));
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
      Fail("required must be a list of names, got {}", Show(required));
    }
    std::map<std::string_view, size_t> places;
    for (size_t i = 0; i < properties.size(); ++i) {
      places[properties[i].name] = i;
    }
    std::vector<std::string> unnamed;
    for (const OrderedJson& name : required) {
      if (!name.is_string()) {
        Fail("required must be a list of names, got {}", Show(required));
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
             Show(name));
      }
      properties.push_back(
          {name, *rest < 0 ? rules_of_json_.Value() : *rest, true});
    }
    return properties;
  }

  void FillObject(const OrderedJson& schema, int start, int end) {
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

  // The state before a member, which comes behind a comma unless it is first.
  int Separated(int first, int later) {
    const int member = builder_.AddState();
    const int comma = builder_.AddState();
    builder_.AddJump(first, member);
    builder_.AddBytes(later, ',', ',', comma);
    builder_.AddCall(comma, rules_of_json_.Space(), member);
    return member;
  }

  void AddMember(int from, const Property& property, int to) {
    const int colon = builder_.AddState();
    builder_.AddLiteral(from, JsonString(property.name) + ":", colon);
    AddMemberValue(colon, property.rule, to);
  }

  void AddMemberValue(int from, int rule, int to) {
    const int value = builder_.AddState();
    builder_.AddCall(from, rules_of_json_.Space(), value);
    builder_.AddCall(value, rule, to);
  }

  // A member whose name is none of the schema's.
  void AddOtherMember(int from, const std::vector<Property>& properties,
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

  std::string Where(const char* name) const {
    return fmt::format("{}: {}/{}", builder_.where(), path_, name);
  }

  GrammarBuilder& builder_;
  const OrderedJson& root_;
  JsonRules rules_of_json_;
  std::string path_;  // of the schema at hand
  std::map<const OrderedJson*, int> rules_;
  std::vector<Todo> todo_;
};

}  // namespace

void AddSchema(GrammarBuilder& builder, const OrderedJson& schema) {
  Compiler(builder, schema).Run();
}

}  // namespace rbln
