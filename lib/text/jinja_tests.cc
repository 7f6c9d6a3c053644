// The tests behind `is`.
#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {
namespace {

template <Comparison kComparison>
bool CompareTest(Interpreter&, const Value& a, const Args& args) {
  const Params params("test", args, {""}, 1);
  const Value& b = params[0];
  const auto nan = [](const Value& v) {
    return v.Is(Kind::kFloat) && v.real() != v.real();
  };
  switch (kComparison) {
    case Comparison::kEqual:
      return Equal(a, b);
    case Comparison::kNotEqual:
      return !Equal(a, b);
    case Comparison::kLess:
      return Compare(a, b, "<") < 0 && !nan(a) && !nan(b);
    case Comparison::kLessEqual:
      return Compare(a, b, "<=") <= 0 && !nan(a) && !nan(b);
    case Comparison::kGreater:
      return Compare(a, b, ">") > 0 && !nan(a) && !nan(b);
    default:
      return Compare(a, b, ">=") >= 0 && !nan(a) && !nan(b);
  }
}

bool ModuloIs(Interpreter& interpreter, const Value& value, int64_t by,
              int64_t rest) {
  return Equal(interpreter.Arithmetic(ExprType::kModulo, value, Value::Int(by)),
               Value::Int(rest));
}

bool Odd(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("odd", args, {});
  return ModuloIs(interpreter, value, 2, 1);
}

bool Even(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("even", args, {});
  return ModuloIs(interpreter, value, 2, 0);
}

bool DivisibleBy(Interpreter& interpreter, const Value& value,
                 const Args& args) {
  const Params params("divisibleby", args, {"num"}, 1);
  return Equal(interpreter.Arithmetic(ExprType::kModulo, value, params[0]),
               Value::Int(0));
}

bool SameAs(Interpreter&, const Value& value, const Args& args) {
  const Params params("sameas", args, {"other"}, 1);
  return value.SameAs(params[0]);
}

bool In(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("in", args, {"seq"}, 1);
  return interpreter.Contains(params[0], value);
}

// Whether all cased characters are of one case, and there is one.
bool AllCased(const std::string& text, bool (*wanted)(char32_t)) {
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, pos);
    if (wanted(c)) {
      any = true;
    } else if (IsLower(c) || IsUpper(c) || IsTitle(c)) {
      return false;
    }
  }
  return any;
}

// Tests that look at the value alone.
template <bool (*kTest)(Interpreter&, const Value&)>
bool Plain(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("test", args, {});
  return kTest(interpreter, value);
}

bool Defined(Interpreter&, const Value& v) { return !v.Is(Kind::kUndefined); }
bool Undefined(Interpreter&, const Value& v) { return v.Is(Kind::kUndefined); }
bool None(Interpreter&, const Value& v) { return v.Is(Kind::kNone); }
bool Boolean(Interpreter&, const Value& v) { return v.Is(Kind::kBool); }
bool True(Interpreter&, const Value& v) {
  return v.Is(Kind::kBool) && v.Truth();
}
bool False(Interpreter&, const Value& v) {
  return v.Is(Kind::kBool) && !v.Truth();
}
bool Integer(Interpreter&, const Value& v) { return v.Is(Kind::kInt); }
bool Float(Interpreter&, const Value& v) { return v.Is(Kind::kFloat); }
bool Number(Interpreter&, const Value& v) { return v.IsNumber(); }
bool String(Interpreter&, const Value& v) { return v.Is(Kind::kString); }
bool Mapping(Interpreter&, const Value& v) { return v.Is(Kind::kDict); }
bool Iterable(Interpreter&, const Value& v) { return Cursor::IsIterable(v); }
bool Sequence(Interpreter&, const Value& v) {
  switch (v.kind()) {
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kUndefined:
      return true;
    default:
      return false;
  }
}
bool Callable(Interpreter&, const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kJoiner:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}
bool Escaped(Interpreter&, const Value& v) {
  return v.Is(Kind::kString) && v.markup();
}
bool Lower(Interpreter& interpreter, const Value& v) {
  return AllCased(interpreter.Str(v), IsLower);
}
bool Upper(Interpreter& interpreter, const Value& v) {
  return AllCased(interpreter.Str(v), IsUpper);
}
// Names are looked up in a dict, and what has no hash is no key of one.
void CheckHashable(const Value& v) {
  if (v.Is(Kind::kList) || v.Is(Kind::kDict)) {
    Fail("unhashable type: '{}'", TypeName(v));
  }
}
bool IsFilter(Interpreter&, const Value& v) {
  CheckHashable(v);
  return v.Is(Kind::kString) && FindFilter(v.text()) != nullptr;
}
bool IsTest(Interpreter&, const Value& v) {
  CheckHashable(v);
  return v.Is(Kind::kString) && FindTest(v.text()) != nullptr;
}

constexpr TestEntry kTests[] = {
    {"!=", CompareTest<Comparison::kNotEqual>},
    {"<", CompareTest<Comparison::kLess>},
    {"<=", CompareTest<Comparison::kLessEqual>},
    {"==", CompareTest<Comparison::kEqual>},
    {">", CompareTest<Comparison::kGreater>},
    {">=", CompareTest<Comparison::kGreaterEqual>},
    {"boolean", Plain<Boolean>},
    {"callable", Plain<Callable>},
    {"defined", Plain<Defined>},
    {"divisibleby", DivisibleBy},
    {"eq", CompareTest<Comparison::kEqual>},
    {"equalto", CompareTest<Comparison::kEqual>},
    {"escaped", Plain<Escaped>},
    {"even", Even},
    {"false", Plain<False>},
    {"filter", Plain<IsFilter>},
    {"float", Plain<Float>},
    {"ge", CompareTest<Comparison::kGreaterEqual>},
    {"greaterthan", CompareTest<Comparison::kGreater>},
    {"gt", CompareTest<Comparison::kGreater>},
    {"in", In},
    {"integer", Plain<Integer>},
    {"iterable", Plain<Iterable>},
    {"le", CompareTest<Comparison::kLessEqual>},
    {"lessthan", CompareTest<Comparison::kLess>},
    {"lower", Plain<Lower>},
    {"lt", CompareTest<Comparison::kLess>},
    {"mapping", Plain<Mapping>},
    {"ne", CompareTest<Comparison::kNotEqual>},
    {"none", Plain<None>},
    {"number", Plain<Number>},
    {"odd", Odd},
    {"sameas", SameAs},
    {"sequence", Plain<Sequence>},
    {"string", Plain<String>},
    {"test", Plain<IsTest>},
    {"true", Plain<True>},
    {"undefined", Plain<Undefined>},
    {"upper", Plain<Upper>},
};

}  // namespace

const TestEntry* FindTest(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace rbln::jinja
