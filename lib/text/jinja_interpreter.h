// Runs a Program over a context. One Interpreter is one rendering.
#pragma once

#include <array>
#include <ctime>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja_ast.h"
#include "text/jinja_value.h"

namespace rbln::jinja {

class Interpreter;

// The arguments of one call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments bound to parameters, as Python does it. A parameter whose name is
// empty is positional only.
class Params {
 public:
  // Throws where Python raises TypeError. `required` counts the parameters,
  // from the first on, that have no default.
  Params(std::string_view function, const Args& args,
         std::initializer_list<std::string_view> names, size_t required = 0);

  bool Has(size_t i) const { return values_[i] != nullptr; }
  bool HasValue(size_t i) const {  // given and not None
    return Has(i) && !values_[i]->Is(Kind::kNone);
  }
  const Value& operator[](size_t i) const { return *values_[i]; }
  // With a default for what was not given.
  int64_t Int(size_t i, int64_t otherwise) const;
  bool Truth(size_t i, bool otherwise) const {
    return Has(i) ? values_[i]->Truth() : otherwise;
  }
  const std::string& Text(size_t i) const;  // throws unless it is a string

 private:
  static constexpr size_t kMaxParams = 6;
  std::array<const Value*, kMaxParams> values_{};
  std::string_view function_;
};

// Filters get the value they stand behind, then arguments; so do tests and
// methods.
using FilterFunction = Value (*)(Interpreter&, const Value&, const Args&);
using TestFunction = bool (*)(Interpreter&, const Value&, const Args&);

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};
struct TestEntry {
  std::string_view name;
  TestFunction function;
};
struct MethodEntry {
  std::string_view name;
  FilterFunction function;
};
struct FunctionEntry {
  std::string_view name;
  Value (*function)(Interpreter&, const Args&);
};

// Null where there is none of that name.
const FilterEntry* FindFilter(std::string_view name);
const TestEntry* FindTest(std::string_view name);
const MethodEntry* FindMethod(Kind kind, std::string_view name);
const FunctionEntry* FindFunction(std::string_view name);
// Whether Python has such an attribute on the type, so that looking it up must
// not silently come back undefined: one the sandbox forbids, or one not
// supported here.
bool IsForbiddenMethod(Kind kind, std::string_view name);
bool IsUnsupportedMethod(Kind kind, std::string_view name);

struct MethodObject : Object {
  MethodObject(Heap& heap, Value object, const MethodEntry* method)
      : Object(heap, 0), self(std::move(object)), entry(method) {
    depth = self.depth() + 1;
  }
  Value self;
  const MethodEntry* entry;
};

// The variables of a loop body, macro, set block and so on. A rendering's
// scopes nest as the template's blocks do.
struct Scope {
  Scope* parent = nullptr;
  bool captured = false;  // a macro closes over it: it lives to the end
  std::vector<std::pair<NameId, Value>> variables;

  Value* Find(NameId name) {
    for (auto& [id, value] : variables) {
      if (id == name) return &value;
    }
    return nullptr;
  }
  void Set(NameId name, Value value) {
    if (Value* slot = Find(name)) {
      *slot = std::move(value);
    } else {
      variables.emplace_back(name, std::move(value));
    }
  }
};

struct MacroObject : Object {
  MacroObject(Heap& heap, const MacroDefinition& macro, Scope* where)
      : Object(heap, 0), definition(&macro), scope(where) {}
  const MacroDefinition* definition;
  Scope* scope;  // in which it was defined
};

// Python's iter(): walks any iterable value.
class Cursor {
 public:
  // Throws where Python raises TypeError.
  Cursor(Interpreter& interpreter, Value source);
  bool Next(Value& out);
  static bool IsIterable(const Value& value);

 private:
  Interpreter& interpreter_;
  Value source_;
  size_t position_ = 0;
  size_t size_ = 0;
};

struct LoopObject : Object {
  LoopObject(Interpreter& interpreter, const Stmt& loop, const Value& iterable,
             Scope* where, int64_t recursion);
  // Pulls the next element that passes the loop's own test.
  bool Pull(Interpreter& interpreter, Value& out);
  bool Advance(Interpreter& interpreter);
  bool HasNext(Interpreter& interpreter);
  int64_t Length(Interpreter& interpreter);
  // Lets go of the values, which may hold on to the loop.
  void Clear();

  const Stmt& stmt;
  Scope* scope;  // around the loop
  int64_t depth0;
  int64_t index0 = -1;
  int64_t length = -1;
  Cursor cursor;
  Value current, before, after;  // `after` is missing unless it was looked at
  std::vector<Value> rest;       // pulled early, for the length
  size_t rest_position = 0;
  bool use_rest = false;
  Value last_changed;
};

class Interpreter {
 public:
  Interpreter(const Program& program, const OrderedJson& context,
              std::time_t now, const ChatTemplate::Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string Run();
  // Where the rendering stands.
  int line() const { return line_; }
  std::time_t now() const { return now_; }
  Heap& heap() { return heap_; }

  Value Text(std::string text, bool markup = false) {
    return Value::String(heap_, std::move(text), markup);
  }
  std::string Str(const Value& value) { return jinja::Str(heap_, value); }
  // len(); throws where Python raises TypeError.
  int64_t Length(const Value& value);
  bool HasLength(const Value& value) const;
  std::vector<Value> ToVector(const Value& iterable);
  // `needle in haystack`.
  bool Contains(const Value& haystack, const Value& needle);

  // obj.name and obj[key], by jinja2's rules.
  Value GetAttribute(const Value& object, const std::string& name);
  Value GetItem(const Value& object, const Value& key);
  // What getattr() finds; missing if nothing.
  Value FindAttribute(const Value& object, std::string_view name);

  Value Add(const Value& a, const Value& b);
  Value Arithmetic(ExprType op, const Value& a, const Value& b);

  Value Call(const Value& callee, Args args);
  Value CallFilter(const std::string& name, const Value& value,
                   const Args& args);
  bool CallTest(const std::string& name, const Value& value, const Args& args);

  Value MakeNamespace(const Args& args);
  Value MakeIterator(const Value& source, IteratorObject::Next next) {
    return Value::Own(Kind::kIterator,
                      new IteratorObject(heap_, source, std::move(next)));
  }
  // Runs a loop over another iterable: loop(items) of a recursive loop.
  Value Recurse(LoopObject& loop, const Value& iterable);
  bool PassesTest(const Stmt& loop, Scope* scope, const Value& item);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // One level of expressions and statements.
  class Nesting {
   public:
    explicit Nesting(Interpreter& interpreter) : interpreter_(interpreter) {
      if (++interpreter_.nesting_ > interpreter_.max_nesting_) {
        Fail("expressions and calls nested too deep");
      }
    }
    ~Nesting() { --interpreter_.nesting_; }

   private:
    Interpreter& interpreter_;
  };
  class ScopeGuard;
  class Capture;

  Flow Run(const Body& body);
  Flow Run(const Stmt& stmt);
  Flow RunFor(const Stmt& stmt);
  Flow RunLoop(const Stmt& stmt, const Value& iterable, int64_t depth0);
  Flow RunSetBlock(const Stmt& stmt);
  void RunCall(const Stmt& stmt);
  void Print(const Value& value);
  void Write(std::string_view text);

  Value Eval(const Expr& expr);
  Value EvalCompound(const Expr& expr);
  Value EvalName(const Expr& expr);
  Value EvalSequence(const Expr& expr);
  Value EvalArithmetic(const Expr& expr);
  Value EvalDict(const Expr& expr);
  Value EvalSlice(const Expr& expr);
  Value EvalFilter(const Expr& expr, const Value* input);
  Value EvalConcat(const Expr& expr);
  bool EvalCompare(const Expr& expr);
  bool Compares(Comparison comparison, const Value& a, const Value& b);
  void ChargeComparison(const Value& value);
  Args EvalArguments(const CallArguments& arguments);

  Value Slice(const Value& object, const Value& start, const Value& stop,
              const Value& step);
  Value CallMacro(const MacroObject& macro, Args args);
  Value LoopAttribute(const Value& loop, std::string_view name);
  Value MacroAttribute(const Value& macro, std::string_view name);
  Value Forbidden(const Value& object, std::string_view name);
  Value Negate(const Value& value, bool negate);
  Value Repeat(const Value& sequence, const Value& count);

  Value Lookup(NameId name);
  void Assign(const Expr& target, const Value& value);
  void CheckNamespaces(const Expr& target);
  NamespaceObject& FindNamespace(const Expr& target);
  Value MakeMacro(const MacroDefinition& definition);

  const Program& program_;
  std::time_t now_;
  Heap heap_;
  size_t max_output_;
  int max_calls_;
  int max_nesting_;
  int calls_ = 0;
  int nesting_ = 0;
  int line_ = 1;
  std::vector<Value> globals_;  // by NameId: context and global functions
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* root_;
  Scope* scope_;
  std::string output_;
  std::string* out_ = &output_;    // of the innermost capture
  std::vector<Value> namespaces_;  // to be emptied: they may hold themselves
};

std::string MacroName(const Value& macro);
std::string LoopText(const Value& loop);

// Methods whose results depend on format strings (jinja_format.cc).
Value PercentFormat(Interpreter& interpreter, const Value& format,
                    const Value& values);
Value FormatMethod(Interpreter& interpreter, const Value& format,
                   const Args& args);
Value FormatMapMethod(Interpreter& interpreter, const Value& format,
                      const Args& args);

// jinja_json.cc
Value ToJsonFilter(Interpreter& interpreter, const Value& value,
                   const Args& args);

// jinja_sequence_filters.cc
// The order that sorts `keys`; stable, also when reversed. Throws where two
// keys have no order.
std::vector<size_t> SortedOrder(Interpreter& interpreter,
                                const std::vector<Value>& keys, bool reverse);
const std::vector<FilterEntry>& SequenceFilters();
// jinja_text_filters.cc
const std::vector<FilterEntry>& TextFilters();
// jinja_methods.cc: the string methods that filters share.
std::vector<std::string_view> SplitLines(std::string_view text, bool keep);
std::string ReplaceText(Interpreter& interpreter, std::string_view text,
                        std::string_view from, std::string_view to,
                        int64_t count);
std::string_view StripCharacters(std::string_view text,
                                 const std::string* characters, bool left,
                                 bool right);

// int() and float() of text; false where Python raises ValueError.
bool ParsePythonInt(std::string_view text, int base, int64_t& out);
bool ParsePythonFloat(std::string_view text, double& out);

// HTML: & < > ' " as entities. Markup stays as it is.
std::string Escape(Interpreter& interpreter, const Value& value);

}  // namespace rbln::jinja
