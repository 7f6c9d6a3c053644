#include "guide/schema_ref.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace rbln {
namespace {

constexpr int kMaxDepth = 16;  // of references and properties looked into

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// One step of a pointer in a URI: %HH, then ~1 and ~0.
std::string DecodeStep(std::string_view step) {
  std::string text;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '%' && i + 2 < step.size() && HexDigit(step[i + 1]) >= 0 &&
        HexDigit(step[i + 2]) >= 0) {
      text +=
          static_cast<char>(HexDigit(step[i + 1]) * 16 + HexDigit(step[i + 2]));
      i += 2;
    } else {
      text += step[i];
    }
  }
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '~' && i + 1 < text.size() &&
        (text[i + 1] == '0' || text[i + 1] == '1')) {
      name += text[++i] == '0' ? '~' : '/';
    } else {
      name += text[i];
    }
  }
  return name;
}

const OrderedJson* Step(const OrderedJson& at, const std::string& name) {
  if (at.is_object()) {
    const auto found = at.find(name);
    return found == at.end() ? nullptr : &*found;
  }
  if (!at.is_array() || name.empty() || name.size() > 6 ||
      name.find_first_not_of("0123456789") != std::string::npos) {
    return nullptr;
  }
  const size_t index = std::stoul(name);
  return index < at.size() ? &at[index] : nullptr;
}

std::set<std::string> Types(const OrderedJson& schema) {
  std::set<std::string> types;
  const auto add = [&](const OrderedJson& one) {
    if (one.is_string()) types.insert(one.get<std::string>());
  };
  const OrderedJson& given = schema["type"];
  if (given.is_array()) {
    for (const OrderedJson& one : given) add(one);
  } else {
    add(given);
  }
  if (types.contains("number")) types.insert("integer");
  return types;
}

// The values that a schema is limited to; nullopt: not to a list of them.
std::optional<OrderedJson> Values(const OrderedJson& schema) {
  if (schema.contains("const")) return OrderedJson::array({schema["const"]});
  if (schema.contains("enum") && schema["enum"].is_array()) {
    return schema["enum"];
  }
  return std::nullopt;
}

bool Requires(const OrderedJson& schema, const std::string& name) {
  if (!schema.contains("required") || !schema["required"].is_array()) {
    return false;
  }
  const OrderedJson& names = schema["required"];
  return std::find(names.begin(), names.end(), OrderedJson(name)) !=
         names.end();
}

bool HasProperties(const OrderedJson& schema) {
  return schema.contains("properties") && schema["properties"].is_object();
}

struct NotFound {};

class DisjointCheck {
 public:
  explicit DisjointCheck(const OrderedJson& root) : root_(root) {}

  bool Check(const OrderedJson& first, const OrderedJson& second, int depth) {
    if (depth > kMaxDepth || ++steps_ > kMaxSteps) return false;
    const OrderedJson* a = Target(first);
    const OrderedJson* b = Target(second);
    if (a == nullptr || b == nullptr) return false;
    if (*a == false || *b == false) return true;
    if (!a->is_object() || !b->is_object()) return false;
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (!one->contains("anyOf") || !(*one)["anyOf"].is_array()) continue;
      return std::all_of((*one)["anyOf"].begin(), (*one)["anyOf"].end(),
                         [&, with = other](const OrderedJson& branch) {
                           return Check(branch, *with, depth + 1);
                         });
    }
    const std::optional<OrderedJson> a_values = Values(*a);
    const std::optional<OrderedJson> b_values = Values(*b);
    if (a_values && b_values) {
      return std::none_of(
          a_values->begin(), a_values->end(), [&](const OrderedJson& value) {
            return std::find(b_values->begin(), b_values->end(), value) !=
                   b_values->end();
          });
    }
    const std::set<std::string> a_types = TypesOf(*a, a_values);
    const std::set<std::string> b_types = TypesOf(*b, b_values);
    if (!a_types.empty() && !b_types.empty() &&
        std::none_of(a_types.begin(), a_types.end(),
                     [&](auto& type) { return b_types.contains(type); })) {
      return true;
    }
    // Both are objects and nothing else, as that is how they are compiled: a
    // property may tell them apart.
    if (!HasProperties(*a) || !HasProperties(*b)) return false;
    for (const std::set<std::string>& types : {a_types, b_types}) {
      if (!types.empty() && types != std::set<std::string>{"object"}) {
        return false;
      }
    }
    for (const auto& [name, value] : (*a)["properties"].items()) {
      const OrderedJson* other = Step((*b)["properties"], name);
      if (other != nullptr && Requires(*a, name) && Requires(*b, name) &&
          Check(value, *other, depth + 1)) {
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr int kMaxSteps = 100'000;

  static std::set<std::string> TypesOf(
      const OrderedJson& schema, const std::optional<OrderedJson>& values) {
    if (schema.contains("type")) return Types(schema);
    std::set<std::string> types;
    if (!values) return types;
    for (const OrderedJson& value : *values) {
      types.insert(value.type_name());
      // 1.0 is an integer, too.
      if (value.is_number()) types.insert("integer");
    }
    return types;
  }

  // Behind its references; null where they lead nowhere.
  const OrderedJson* Target(const OrderedJson& schema) const {
    const OrderedJson* at = &schema;
    for (int i = 0; i < kMaxDepth; ++i) {
      if (at->is_object() && at->contains("$ref")) {
        std::string path;
        try {
          at = &Resolve(root_, (*at)["$ref"], &path,
                        [](const std::string&) { throw NotFound(); });
        } catch (const NotFound&) {
          return nullptr;
        }
      } else if (at->is_object() && at->contains("allOf") &&
                 (*at)["allOf"].is_array() && (*at)["allOf"].size() == 1) {
        at = &(*at)["allOf"][0];
      } else {
        return at;
      }
    }
    return nullptr;
  }

  const OrderedJson& root_;
  int steps_ = 0;
};

}  // namespace

const OrderedJson& Resolve(const OrderedJson& root, const OrderedJson& ref,
                           std::string* path,
                           const std::function<void(std::string)>& fail) {
  if (!ref.is_string()) fail("$ref must be a string");
  const auto& text = ref.get_ref<const std::string&>();
  if (text.empty() || text[0] != '#' || (text.size() > 1 && text[1] != '/')) {
    fail(fmt::format(
        "$ref '{}' is not supported: it must be # or begin with #/, a place in "
        "the same schema",
        text.substr(0, 60)));
  }
  const OrderedJson* at = &root;
  *path = "#";
  for (size_t begin = 1; begin < text.size();) {
    const size_t end = std::min(text.find('/', begin + 1), text.size());
    const std::string name =
        DecodeStep(std::string_view(text).substr(begin + 1, end - begin - 1));
    const OrderedJson* next = Step(*at, name);
    if (next == nullptr) {
      fail(fmt::format("$ref '{}' leads nowhere: there is no '{}' in {}",
                       text.substr(0, 60), name.substr(0, 60), *path));
    }
    at = next;
    *path += "/" + name;
    begin = end;
  }
  return *at;
}

bool AreDisjoint(const OrderedJson& root, const OrderedJson& a,
                 const OrderedJson& b) {
  return DisjointCheck(root).Check(a, b, 0);
}

}  // namespace rbln
