// Expressions: names, literals, comparisons, calls.
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {

Value Interpreter::EvalName(const Expr& expr) {
  Value value = Lookup(expr.name);
  if (!value.Is(Kind::kMissing)) return value;
  return Value::Undefined(Value::Borrow(&program_.Name(expr.name)),
                          Value::About::kVariable);
}

Value Interpreter::Eval(const Expr& expr) {
  heap_.Charge(1);
  switch (expr.type) {
    case ExprType::kConstant:
      return expr.constant;
    case ExprType::kName:
      return EvalName(expr);
    default:
      return EvalCompound(expr);
  }
}

Value Interpreter::EvalCompound(const Expr& expr) {
  const Nesting nesting(*this);
  switch (expr.type) {
    case ExprType::kList:
    case ExprType::kTuple:
      return EvalSequence(expr);
    case ExprType::kDict:
      return EvalDict(expr);
    case ExprType::kAttribute: {
      const Value object = Eval(*expr.operands[0]);
      line_ = expr.line;
      return GetAttribute(object, *expr.text);
    }
    case ExprType::kItem: {
      const Value object = Eval(*expr.operands[0]);
      const Value key = Eval(*expr.operands[1]);
      line_ = expr.line;
      return GetItem(object, key);
    }
    case ExprType::kSlice:
      return EvalSlice(expr);
    case ExprType::kCall: {
      const Value callee = Eval(*expr.operands[0]);
      Args args = EvalArguments(expr.arguments);
      line_ = expr.line;
      return Call(callee, std::move(args));
    }
    case ExprType::kFilter:
      return EvalFilter(expr, nullptr);
    case ExprType::kTest: {
      const Value value = Eval(*expr.operands[0]);
      const Args args = EvalArguments(expr.arguments);
      line_ = expr.line;
      if (expr.test == nullptr) Fail("no test named '{}'", *expr.text);
      return Value::Bool(expr.test->function(*this, value, args));
    }
    case ExprType::kNot:
      return Value::Bool(!Eval(*expr.operands[0]).Truth());
    case ExprType::kAnd: {
      Value left = Eval(*expr.operands[0]);
      return left.Truth() ? Eval(*expr.operands[1]) : left;
    }
    case ExprType::kOr: {
      Value left = Eval(*expr.operands[0]);
      return left.Truth() ? left : Eval(*expr.operands[1]);
    }
    case ExprType::kConditional:
      if (Eval(*expr.operands[0]).Truth()) return Eval(*expr.operands[1]);
      if (expr.operands[2] != nullptr) return Eval(*expr.operands[2]);
      return Value::Hint(heap_,
                         fmt::format("the inline if-expression on line {} was "
                                     "false and has no else",
                                     expr.line));
    case ExprType::kCompare:
      return Value::Bool(EvalCompare(expr));
    case ExprType::kConcat:
      return EvalConcat(expr);
    default:
      return EvalArithmetic(expr);
  }
}

Value Interpreter::EvalArithmetic(const Expr& expr) {
  const Value a = Eval(*expr.operands[0]);
  if (expr.operands.size() == 1) {
    line_ = expr.line;
    return Negate(a, expr.type == ExprType::kNegate);
  }
  const Value b = Eval(*expr.operands[1]);
  line_ = expr.line;
  return expr.type == ExprType::kAdd ? Add(a, b) : Arithmetic(expr.type, a, b);
}

Value Interpreter::EvalSequence(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.operands.size());
  for (const Expr* item : expr.operands) items.push_back(Eval(*item));
  return expr.type == ExprType::kList ? Value::List(heap_, std::move(items))
                                      : Value::Tuple(heap_, std::move(items));
}

Value Interpreter::EvalDict(const Expr& expr) {
  auto* dict = new MappingObject(heap_);
  Value value = Value::Own(Kind::kDict, dict);
  for (size_t i = 0; i < expr.operands.size(); i += 2) {
    Value key = Eval(*expr.operands[i]);
    dict->Set(std::move(key), Eval(*expr.operands[i + 1]));
  }
  return value;
}

Value Interpreter::EvalConcat(const Expr& expr) {
  std::string text;
  for (const Expr* part : expr.operands) {
    AppendStr(heap_, text, Eval(*part));
  }
  return Text(std::move(text));
}

bool Interpreter::EvalCompare(const Expr& expr) {
  Value left = Eval(*expr.operands[0]);
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    Value right = Eval(*expr.operands[i + 1]);
    line_ = expr.line;
    if (!Compares(expr.comparisons[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

bool Interpreter::Compares(Comparison comparison, const Value& a,
                           const Value& b) {
  // NaN is in no order to anything, itself included.
  const auto ordered = [&](const char* op) {
    const int order = Compare(a, b, op);
    if (a.IsNumber() && b.IsNumber() &&
        (a.real() != a.real() || b.real() != b.real())) {
      return 2;
    }
    return order;
  };
  switch (comparison) {
    case Comparison::kEqual:
      ChargeComparison(a);
      return Equal(a, b);
    case Comparison::kNotEqual:
      ChargeComparison(a);
      return !Equal(a, b);
    case Comparison::kLess:
      return ordered("<") == -1;
    case Comparison::kLessEqual: {
      const int order = ordered("<=");
      return order == -1 || order == 0;
    }
    case Comparison::kGreater:
      return ordered(">") == 1;
    case Comparison::kGreaterEqual: {
      const int order = ordered(">=");
      return order == 1 || order == 0;
    }
    case Comparison::kIn:
      return Contains(b, a);
    case Comparison::kNotIn:
      return !Contains(b, a);
  }
  return false;
}

void Interpreter::ChargeComparison(const Value& value) {
  if (value.Is(Kind::kString)) {
    heap_.ChargeBytes(value.text().size());
  } else if (value.IsSequence() || value.Is(Kind::kDict)) {
    heap_.Charge(value.size());
  }
}

Value Interpreter::EvalSlice(const Expr& expr) {
  const Value object = Eval(*expr.operands[0]);
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.operands[i + 1] != nullptr) {
      parts[i] = Eval(*expr.operands[i + 1]);
    } else {
      parts[i] = Value::None();
    }
  }
  line_ = expr.line;
  return Slice(object, parts[0], parts[1], parts[2]);
}

Value Interpreter::EvalFilter(const Expr& expr, const Value* input) {
  Value value;
  if (expr.operands[0] == nullptr) {
    value = *input;
  } else if (expr.operands[0]->type == ExprType::kFilter) {
    const Nesting nesting(*this);
    heap_.Charge(1);
    value = EvalFilter(*expr.operands[0], input);
  } else {
    value = Eval(*expr.operands[0]);
  }
  const Args args = EvalArguments(expr.arguments);
  line_ = expr.line;
  if (expr.filter == nullptr) Fail("no filter named '{}'", *expr.text);
  return expr.filter->function(*this, value, args);
}

Args Interpreter::EvalArguments(const CallArguments& arguments) {
  Args args;
  if (arguments.empty()) return args;
  args.positional.reserve(arguments.positional.size());
  for (const Expr* expr : arguments.positional) {
    args.positional.push_back(Eval(*expr));
  }
  for (const auto& [name, expr] : arguments.named) {
    args.named.emplace_back(*name, Eval(*expr));
  }
  if (arguments.star != nullptr) {
    for (Value& value : ToVector(Eval(*arguments.star))) {
      args.positional.push_back(std::move(value));
    }
  }
  if (arguments.star_star != nullptr) {
    const Value dict = Eval(*arguments.star_star);
    if (!dict.Is(Kind::kDict)) {
      Fail("the argument after ** must be a dict, not {}", TypeName(dict));
    }
    heap_.Charge(dict.size());
    for (size_t i = 0; i < dict.size(); ++i) {
      if (!dict.KeyAt(i).Is(Kind::kString)) {
        Fail("the keys of a dict after ** must be strings");
      }
      const std::string& name = dict.KeyAt(i).text();
      for (const auto& [other, value] : arguments.named) {
        if (*other == name) Fail("argument '{}' is given twice", name);
      }
      args.named.emplace_back(name, dict.ValueAt(i));
    }
  }
  return args;
}

Value Interpreter::Call(const Value& callee, Args args) {
  switch (callee.kind()) {
    case Kind::kMacro:
      return CallMacro(callee.As<MacroObject>(), std::move(args));
    case Kind::kFunction:
      return callee.function()->function(*this, args);
    case Kind::kMethod: {
      const auto& method = callee.As<MethodObject>();
      return method.entry->function(*this, method.self, args);
    }
    case Kind::kLoop: {
      auto& loop = callee.As<LoopObject>();
      if (!loop.stmt.recursive) {
        Fail("a loop must have the 'recursive' marker to be called");
      }
      const Params params("loop", args, {"iterable"}, 1);
      return Recurse(loop, params[0]);
    }
    case Kind::kJoiner: {
      const Params params("joiner", args, {});
      auto& joiner = callee.As<JoinerObject>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return Text("");
    }
    case Kind::kUndefined:
      throw Failure(callee.UndefinedMessage());
    default:
      Fail("'{}' object is not callable", TypeName(callee));
  }
}

Value Interpreter::CallFilter(const std::string& name, const Value& value,
                              const Args& args) {
  const FilterEntry* filter = FindFilter(name);
  if (filter == nullptr) Fail("no filter named '{}'", name);
  heap_.Charge(1);
  return filter->function(*this, value, args);
}

bool Interpreter::CallTest(const std::string& name, const Value& value,
                           const Args& args) {
  const TestEntry* test = FindTest(name);
  if (test == nullptr) Fail("no test named '{}'", name);
  heap_.Charge(1);
  return test->function(*this, value, args);
}

Params::Params(std::string_view function, const Args& args,
               std::initializer_list<std::string_view> names, size_t required)
    : function_(function) {
  if (args.positional.size() > names.size()) {
    Fail("{}() takes at most {} argument(s), and {} are given", function,
         names.size(), args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    values_[i] = &args.positional[i];
  }
  for (const auto& [name, value] : args.named) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end() || name.empty()) {
      Fail("{}() has no argument '{}'", function, name);
    }
    const auto i = static_cast<size_t>(it - names.begin());
    if (values_[i] != nullptr) {
      Fail("{}() has its argument '{}' given twice", function, name);
    }
    values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      Fail("{}() lacks its argument {}", function, i + 1);
    }
  }
}

int64_t Params::Int(size_t i, int64_t otherwise) const {
  if (!Has(i)) return otherwise;
  const Value& value = *values_[i];
  if (!value.IsIntegral()) {
    if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
    Fail("{}() needs an int as argument {}, not {}", function_, i + 1,
         TypeName(value));
  }
  return value.integer();
}

const std::string& Params::Text(size_t i) const {
  const Value& value = *values_[i];
  if (!value.Is(Kind::kString)) {
    if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
    Fail("{}() needs a str as argument {}, not {}", function_, i + 1,
         TypeName(value));
  }
  return value.text();
}

}  // namespace rbln::jinja
