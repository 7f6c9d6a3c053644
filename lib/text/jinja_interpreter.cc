#include "text/jinja_interpreter.h"

#include <algorithm>

#include "text/jinja_unicode.h"

namespace rbln::jinja {
namespace {

// How many expressions and statements may be open for each nested call that is
// allowed. It keeps the stack within a few hundred kilobytes.
constexpr int kNestingPerCall = 10;

}  // namespace

// Enters a new scope inside of `parent` for the guard's life.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter), outer_(interpreter.scope_) {
    Scope* scope;
    if (interpreter.free_scopes_.empty()) {
      scope = &interpreter.scopes_.emplace_back();
    } else {
      scope = interpreter.free_scopes_.back();
      interpreter.free_scopes_.pop_back();
    }
    scope->parent = parent;
    interpreter.scope_ = scope;
  }
  ~ScopeGuard() {
    Scope* scope = interpreter_.scope_;
    interpreter_.scope_ = outer_;
    if (scope->captured) return;
    scope->variables.clear();
    interpreter_.free_scopes_.push_back(scope);
  }

 private:
  Interpreter& interpreter_;
  Scope* outer_;
};

// Sends output into a string for the guard's life.
class Interpreter::Capture {
 public:
  Capture(Interpreter& interpreter, std::string* out)
      : interpreter_(interpreter), outer_(interpreter.out_) {
    interpreter.out_ = out;
  }
  ~Capture() { interpreter_.out_ = outer_; }

 private:
  Interpreter& interpreter_;
  std::string* outer_;
};

Interpreter::Interpreter(const Program& program, const OrderedJson& context,
                         std::time_t now, const ChatTemplate::Limits& limits)
    : program_(program),
      now_(now),
      heap_(limits.max_steps, limits.max_output_bytes),
      max_output_(limits.max_output_bytes),
      max_calls_(limits.max_depth),
      max_nesting_(limits.max_depth * kNestingPerCall),
      globals_(program.name_count()),
      root_(&scopes_.emplace_back()),
      scope_(root_) {
  for (size_t i = 0; i < globals_.size(); ++i) {
    const auto* entry = FindFunction(program.Name(static_cast<NameId>(i)));
    if (entry != nullptr) globals_[i] = Value::Function(entry);
  }
  for (const auto& [key, value] :
       context.get_ref<const OrderedJson::object_t&>()) {
    const NameId id = program.Find(key);
    if (id != kNoName) {
      globals_[static_cast<size_t>(id)] = Value::FromJson(value);
    }
  }
}

Interpreter::~Interpreter() {
  for (const Value& value : namespaces_) {
    value.As<NamespaceObject>().attributes.clear();
  }
  for (Scope& scope : scopes_) scope.variables.clear();
}

std::string Interpreter::Run() {
  Run(program_.body);
  return std::move(output_);
}

// --- output ---

void Interpreter::Write(std::string_view text) {
  if (out_->size() + text.size() > max_output_) {
    heap_.CheckString(out_->size() + text.size());
  }
  heap_.ChargeBytes(text.size());
  *out_ += text;
}

void Interpreter::Print(const Value& value) {
  if (value.Is(Kind::kString)) {
    Write(value.text());
  } else {
    AppendStr(heap_, *out_, value);
    heap_.CheckString(out_->size());
  }
}

// --- statements ---

Interpreter::Flow Interpreter::Run(const Body& body) {
  for (const Stmt* stmt : body) {
    const Flow flow = Run(*stmt);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const Stmt& stmt) {
  heap_.Charge(1);
  line_ = stmt.line;
  const Nesting nesting(*this);
  switch (stmt.type) {
    case StmtType::kData:
      Write(*stmt.data);
      return Flow::kNormal;
    case StmtType::kPrint:
      Print(Eval(*stmt.expr));
      return Flow::kNormal;
    case StmtType::kIf:
      return Run(Eval(*stmt.expr).Truth() ? stmt.body : stmt.otherwise);
    case StmtType::kFor:
      return RunFor(stmt);
    case StmtType::kSet: {
      CheckNamespaces(*stmt.target);
      const Value value = Eval(*stmt.expr);
      line_ = stmt.line;
      Assign(*stmt.target, value);
      return Flow::kNormal;
    }
    case StmtType::kSetBlock:
      return RunSetBlock(stmt);
    case StmtType::kMacro:
      scope_->Set(stmt.macro->name_id, MakeMacro(*stmt.macro));
      return Flow::kNormal;
    case StmtType::kCall:
      RunCall(stmt);
      return Flow::kNormal;
    case StmtType::kFilterBlock: {
      std::string text;
      const ScopeGuard scope(*this, scope_);
      {
        const Capture capture(*this, &text);
        const Flow flow = Run(stmt.body);
        if (flow != Flow::kNormal) return flow;
      }
      const Value input = Text(std::move(text));
      const Value result = EvalFilter(*stmt.expr, &input);
      if (!result.Is(Kind::kString)) {
        Fail("the filter of a filter block must give a str, not {}",
             TypeName(result));
      }
      Print(result);
      return Flow::kNormal;
    }
    case StmtType::kWith: {
      std::vector<Value> values;
      for (const auto& [target, expr] : stmt.bindings) {
        values.push_back(Eval(*expr));
      }
      const ScopeGuard scope(*this, scope_);
      for (size_t i = 0; i < values.size(); ++i) {
        Assign(*stmt.bindings[i].first, values[i]);
      }
      return Run(stmt.body);
    }
    case StmtType::kScope:
    case StmtType::kGeneration: {
      const ScopeGuard scope(*this, stmt.at_root ? root_ : scope_);
      return Run(stmt.body);
    }
    case StmtType::kBreak:
      return Flow::kBreak;
    case StmtType::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::RunSetBlock(const Stmt& stmt) {
  std::string text;
  Value value;
  {
    const ScopeGuard scope(*this, scope_);
    {
      const Capture capture(*this, &text);
      const Flow flow = Run(stmt.body);
      if (flow != Flow::kNormal) return flow;
    }
    value = Text(std::move(text));
    if (stmt.expr != nullptr) value = EvalFilter(*stmt.expr, &value);
  }
  line_ = stmt.line;
  CheckNamespaces(*stmt.target);
  Assign(*stmt.target, value);
  return Flow::kNormal;
}

void Interpreter::RunCall(const Stmt& stmt) {
  const Expr& call = *stmt.expr;
  const Value callee = Eval(*call.operands[0]);
  Args args = EvalArguments(call.arguments);
  args.named.emplace_back("caller", MakeMacro(*stmt.macro));
  line_ = stmt.line;
  Print(Call(callee, std::move(args)));
}

Interpreter::Flow Interpreter::RunFor(const Stmt& stmt) {
  const Value iterable = Eval(*stmt.expr);
  line_ = stmt.line;
  if (stmt.recursive || stmt.uses_loop) return RunLoop(stmt, iterable, 0);

  bool completed_one = false;
  Cursor cursor(*this, iterable);
  for (Value item; cursor.Next(item);) {
    heap_.Charge(1);
    if (stmt.test != nullptr && !PassesTest(stmt, scope_, item)) continue;
    const ScopeGuard scope(*this, scope_);
    Assign(*stmt.target, item);
    const Flow flow = Run(stmt.body);
    if (flow == Flow::kBreak) break;
    completed_one |= flow == Flow::kNormal;
  }
  if (completed_one || stmt.otherwise.empty()) return Flow::kNormal;
  const ScopeGuard scope(*this, scope_);
  return Run(stmt.otherwise);
}

Interpreter::Flow Interpreter::RunLoop(const Stmt& stmt, const Value& iterable,
                                       int64_t depth0) {
  const Value value = Value::Own(
      Kind::kLoop, new LoopObject(*this, stmt, iterable, scope_, depth0));
  auto& loop = value.As<LoopObject>();
  // The loop may be kept in one of its own values; it must let go of them.
  struct Clear {
    ~Clear() { loop.Clear(); }
    LoopObject& loop;
  } const clear{loop};

  bool completed_one = false;
  while (loop.Advance(*this)) {
    heap_.Charge(1);
    const ScopeGuard scope(*this, loop.scope);
    scope_->Set(kNameLoop, value);
    Assign(*stmt.target, loop.current);
    const Flow flow = Run(stmt.body);
    if (flow == Flow::kBreak) break;
    // As in jinja2, a loop that never reached its body's end has its else.
    completed_one |= flow == Flow::kNormal;
  }
  if (completed_one || stmt.otherwise.empty()) return Flow::kNormal;
  const ScopeGuard scope(*this, loop.scope);
  return Run(stmt.otherwise);
}

Value Interpreter::Recurse(LoopObject& loop, const Value& iterable) {
  // Errors end the rendering: the counts need no care on their way out.
  if (++calls_ > max_calls_) {
    Fail("a recursive loop nests more than {} deep", max_calls_);
  }
  std::string text;
  {
    const Capture capture(*this, &text);
    Scope* const outer = scope_;
    scope_ = loop.scope;
    RunLoop(loop.stmt, iterable, loop.depth0 + 1);
    scope_ = outer;
  }
  --calls_;
  return Text(std::move(text));
}

bool Interpreter::PassesTest(const Stmt& loop, Scope* scope,
                             const Value& item) {
  const ScopeGuard guard(*this, scope);
  Assign(*loop.target, item);
  return Eval(*loop.test).Truth();
}

// --- variables ---

Value Interpreter::Lookup(NameId name) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* value = scope->Find(name)) return *value;
  }
  return globals_[static_cast<size_t>(name)];
}

void Interpreter::Assign(const Expr& target, const Value& value) {
  if (target.type == ExprType::kName) {
    scope_->Set(target.name, value);
    return;
  }
  if (target.type == ExprType::kNamespaceRef) {
    auto& space = FindNamespace(target);
    const std::string& name = *target.text;
    if (name[0] == '_') {
      Fail("a namespace cannot have the attribute '{}': it begins with '_'",
           name);
    }
    if (Value* slot = space.Find(name)) {
      *slot = value;
    } else {
      space.Grow(sizeof(Value) + name.size() + 32);
      space.attributes.emplace_back(name, value);
    }
    return;
  }
  const std::vector<Value> items = ToVector(value);
  if (items.size() != target.operands.size()) {
    Fail("cannot unpack {} values into {} names", items.size(),
         target.operands.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    Assign(*target.operands[i], items[i]);
  }
}

void Interpreter::CheckNamespaces(const Expr& target) {
  if (target.type == ExprType::kNamespaceRef) {
    FindNamespace(target);
  } else if (target.type == ExprType::kTuple) {
    for (const Expr* part : target.operands) CheckNamespaces(*part);
  }
}

NamespaceObject& Interpreter::FindNamespace(const Expr& target) {
  const Value value = Lookup(target.name);
  if (!value.Is(Kind::kNamespace)) {
    Fail("cannot set '{}' of '{}': only a namespace has attributes to set",
         *target.text, program_.Name(target.name));
  }
  return value.As<NamespaceObject>();
}

Value Interpreter::MakeNamespace(const Args& args) {
  if (args.positional.size() > 1) Fail("namespace() takes one dict at most");
  auto* space = new NamespaceObject(heap_);
  Value value = Value::Own(Kind::kNamespace, space);
  heap_.Allocate(sizeof(Value));
  namespaces_.push_back(value);
  const auto set = [space](const std::string& name, const Value& attribute) {
    if (!name.empty() && name[0] == '_') {
      Fail("a namespace cannot have the attribute '{}': it begins with '_'",
           name);
    }
    space->Grow(sizeof(Value) + name.size() + 32);
    if (Value* slot = space->Find(name)) {
      *slot = attribute;
    } else {
      space->attributes.emplace_back(name, attribute);
    }
  };
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.Is(Kind::kDict)) {
      for (size_t i = 0; i < source.size(); ++i) {
        if (!source.KeyAt(i).Is(Kind::kString)) continue;
        set(source.KeyAt(i).text(), source.ValueAt(i));
      }
    } else {
      for (const Value& pair : ToVector(source)) {
        const std::vector<Value> parts = ToVector(pair);
        if (parts.size() != 2 || !parts[0].Is(Kind::kString)) {
          Fail("namespace() takes a dict, or pairs of names and values");
        }
        set(parts[0].text(), parts[1]);
      }
    }
  }
  for (const auto& [name, attribute] : args.named) set(name, attribute);
  return value;
}

Value Interpreter::MakeMacro(const MacroDefinition& definition) {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured;
       scope = scope->parent) {
    scope->captured = true;
    heap_.Allocate(sizeof(Scope) + 64);
  }
  return Value::Own(Kind::kMacro, new MacroObject(heap_, definition, scope_));
}

Value Interpreter::CallMacro(const MacroObject& macro, Args args) {
  const MacroDefinition& definition = *macro.definition;
  const std::string name =
      definition.name != nullptr ? *definition.name : std::string("caller");
  if (++calls_ > max_calls_) {
    Fail("macro '{}': calls nested more than {} deep", name, max_calls_);
  }
  const int line = line_;
  const auto take = [&args](std::string_view wanted) {
    for (auto it = args.named.begin(); it != args.named.end(); ++it) {
      if (it->first != wanted) continue;
      Value value = std::move(it->second);
      args.named.erase(it);
      return value;
    }
    return Value();
  };

  const size_t count = definition.parameters.size();
  std::vector<Value> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = i < args.positional.size()
                    ? args.positional[i]
                    : take(*definition.parameter_names[i]);
  }
  Value caller;
  if (definition.uses_caller) {
    caller = take("caller");
    if (caller.Is(Kind::kMissing) || caller.Is(Kind::kNone)) {
      caller = Value::Hint(heap_, "No caller defined");
    }
  }
  if (!definition.uses_kwargs && !args.named.empty()) {
    Fail("macro '{}' takes no keyword argument '{}'", name,
         args.named[0].first);
  }
  if (!definition.uses_varargs && args.positional.size() > count) {
    Fail("macro '{}' takes not more than {} argument(s)", name, count);
  }

  std::string text;
  {
    const ScopeGuard scope(*this, macro.scope);
    for (size_t i = 0; i < count; ++i) {
      scope_->variables.emplace_back(definition.parameters[i], values[i]);
    }
    if (definition.uses_caller) scope_->Set(kNameCaller, caller);
    if (definition.uses_kwargs) {
      auto* kwargs = new MappingObject(heap_);
      const Value value = Value::Own(Kind::kDict, kwargs);
      for (auto& [key, argument] : args.named) {
        kwargs->Set(Text(key), argument);
      }
      scope_->Set(kNameKwargs, value);
    }
    if (definition.uses_varargs) {
      std::vector<Value> rest;
      for (size_t i = count; i < args.positional.size(); ++i) {
        rest.push_back(args.positional[i]);
      }
      scope_->Set(kNameVarargs, Value::Tuple(heap_, std::move(rest)));
    }
    const Capture capture(*this, &text);
    const size_t first_default = count - definition.defaults.size();
    for (size_t i = 0; i < count; ++i) {
      if (!values[i].Is(Kind::kMissing)) continue;
      scope_->Set(
          definition.parameters[i],
          i >= first_default
              ? Eval(*definition.defaults[i - first_default])
              : Value::Hint(heap_,
                            fmt::format("parameter '{}' was not provided",
                                        *definition.parameter_names[i])));
    }
    Run(definition.body);
  }
  line_ = line;
  --calls_;
  return Text(std::move(text));
}

}  // namespace rbln::jinja
