// Turns the schemas inside a schema into rules. See schema.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "guide/grammar.h"
#include "guide/json_rules.h"

namespace rbln {

// A value as it stands in a message: short, and valid UTF-8.
std::string ShowJson(const OrderedJson& value);

// Goes through a schema once. For each schema inside it there is one rule,
// which is filled when its turn comes: nothing here recurs, however deep it
// nests.
class SchemaCompiler {
 public:
  // Both must outlive this object.
  SchemaCompiler(GrammarBuilder& builder, const OrderedJson& root)
      : builder_(builder), root_(root), rules_of_json_(builder) {}

  void Run();

 private:
  using Names = std::vector<std::string_view>;
  struct Todo {
    const OrderedJson* schema;
    std::string path;
    int rule;
  };
  struct Property {
    std::string name;
    int rule;
    bool required;
  };

  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
    throw UsageError("{}: {}: {}", builder_.where(), path_,
                     fmt::format(format, std::forward<Args>(args)...));
  }
  std::string Where(const char* name) const {
    return fmt::format("{}: {}/{}", builder_.where(), path_, name);
  }

  int RuleFor(const OrderedJson& schema, const std::string& path);
  void Fill(const OrderedJson& schema, int rule);
  void CheckKeywords(const OrderedJson& schema);
  void FillWhole(const OrderedJson& schema, std::string_view name, int start,
                 int end);
  // Of oneOf exactly one branch may hold; a text of one branch is only sure to
  // be no text of another where the two cannot both hold.
  void CheckDisjoint(const OrderedJson& branches);
  // nullopt: any.
  std::optional<Names> Types(const OrderedJson& schema);
  void FillValues(const OrderedJson& schema, const std::optional<Names>& types,
                  int start, int end);

  // By type: schema_types.cc.
  void FillType(const OrderedJson& schema, std::string_view type, int start,
                int end);
  std::optional<int> Count(const OrderedJson& schema, const char* name,
                           int most);
  void CheckOrder(const char* min_name, std::optional<int> min,
                  const char* max_name, std::optional<int> max);
  void FillString(const OrderedJson& schema, int start, int end);
  void FillNumber(const OrderedJson& schema, bool integer, int start, int end);
  void FillArray(const OrderedJson& schema, int start, int end);
  // The properties in the order in which they are written. `rest` is the rule
  // of others; -1: there may be none.
  std::vector<Property> Properties(const OrderedJson& schema, int* rest);
  void FillObject(const OrderedJson& schema, int start, int end);
  // The state before a member, which comes behind a comma unless it is first.
  int Separated(int first, int later);
  void AddMember(int from, const Property& property, int to);
  void AddMemberValue(int from, int rule, int to);
  // A member whose name is none of the schema's.
  void AddOtherMember(int from, const std::vector<Property>& properties,
                      int rule, int to);

  GrammarBuilder& builder_;
  const OrderedJson& root_;
  JsonRules rules_of_json_;
  std::string path_;  // of the schema at hand
  std::map<const OrderedJson*, int> rules_;
  std::vector<Todo> todo_;
};

}  // namespace rbln
