// A parsed template. Nodes live in a Program, which is immutable once parsed;
// names are interned, filters and tests are looked up at parse time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja_value.h"

namespace rbln::jinja {

struct FilterEntry;
struct TestEntry;

using NameId = int;
inline constexpr NameId kNoName = -1;

enum class ExprType : uint8_t {
  kConstant,
  kName,
  kNamespaceRef,  // ns.attribute as a target
  kList,
  kTuple,
  kDict,       // operands: key, value, key, value...
  kAttribute,  // operands[0].text
  kItem,       // operands[0][operands[1]]
  kSlice,      // operands[0][operands[1]:operands[2]:operands[3]], null if none
  kCall,
  kFilter,  // operands[0] is null in a filter block
  kTest,
  kNot,
  kNegate,
  kPlus,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcat,
  kCompare,  // operands[0] comparisons[0] operands[1] comparisons[1] ...
  kAnd,
  kOr,
  kConditional,  // test, then, else (null if none)
};

enum class Comparison : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expr;

struct CallArguments {
  std::vector<const Expr*> positional;
  std::vector<std::pair<const std::string*, const Expr*>> named;
  const Expr* star = nullptr;       // *args
  const Expr* star_star = nullptr;  // **kwargs
  bool empty() const {
    return positional.empty() && named.empty() && !star && !star_star;
  }
};

struct Expr {
  Expr(ExprType what, int at) : type(what), line(at) {}
  ExprType type;
  int line;
  NameId name = kNoName;              // kName, kNamespaceRef
  const std::string* text = nullptr;  // name, attribute, filter or test
  Value constant;                     // borrows from the Program
  std::vector<const Expr*> operands;
  std::vector<Comparison> comparisons;
  CallArguments arguments;              // of a call, filter or test
  const FilterEntry* filter = nullptr;  // null: unknown, an error when reached
  const TestEntry* test = nullptr;
};

enum class StmtType : uint8_t {
  kData,
  kPrint,
  kFor,
  kIf,  // expr, body, otherwise; elif is an if in `otherwise`
  kSet,
  kSetBlock,
  kMacro,
  kCall,         // expr is the call, macro the body as caller
  kFilterBlock,  // expr is the filter
  kWith,
  kScope,  // a block, or what else is rendered in a scope of its own
  kGeneration,
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<const Stmt*>;

struct MacroDefinition {
  const std::string* name = nullptr;  // null: the body of a call block
  NameId name_id = kNoName;
  int line = 0;
  std::vector<NameId> parameters;
  std::vector<const std::string*> parameter_names;
  std::vector<const Expr*> defaults;  // of the last parameters
  Body body;
  // Which of the special names the body reads.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool has_caller_parameter = false;
};

struct Stmt {
  Stmt(StmtType what, int at) : type(what), line(at) {}
  StmtType type;
  int line;
  const std::string* data = nullptr;
  const Expr* target = nullptr;
  const Expr* expr = nullptr;
  const Expr* test = nullptr;  // of a filtered loop
  Body body;
  Body otherwise;
  bool recursive = false;
  bool uses_loop = false;  // the body reads `loop`
  bool at_root = false;    // a block: its scope's parent is the template's
  std::unique_ptr<MacroDefinition> macro;
  std::vector<std::pair<const Expr*, const Expr*>> bindings;  // of `with`
};

// The special names every Program interns first.
enum : NameId { kNameLoop, kNameCaller, kNameVarargs, kNameKwargs };

class Program {
 public:
  Program() {
    for (const char* name : {"loop", "caller", "varargs", "kwargs"}) {
      Intern(name);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  NameId Intern(const std::string& name) {
    const auto [it, fresh] =
        ids_.try_emplace(name, static_cast<NameId>(names_.size()));
    if (fresh) names_.push_back(&it->first);
    return it->second;
  }
  NameId Find(const std::string& name) const {
    const auto it = ids_.find(name);
    return it == ids_.end() ? kNoName : it->second;
  }
  const std::string& Name(NameId id) const {
    return *names_[static_cast<size_t>(id)];
  }
  size_t name_count() const { return names_.size(); }

  Expr* NewExpr(ExprType type, int line) {
    return &exprs_.emplace_back(type, line);
  }
  Stmt* NewStmt(StmtType type, int line) {
    return &stmts_.emplace_back(type, line);
  }
  const std::string* Keep(std::string text) {
    return &strings_.emplace_back(std::move(text));
  }

  Body body;  // of the whole template

 private:
  std::deque<std::string> strings_;
  std::deque<Expr> exprs_;
  std::deque<Stmt> stmts_;
  std::unordered_map<std::string, NameId> ids_;
  std::vector<const std::string*> names_;
};

}  // namespace rbln::jinja
