// Attributes, items, slices and arithmetic, as Python and jinja2 have them.
#include <algorithm>
#include <cmath>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {
namespace {

[[noreturn]] void FailOverflow() {
  Fail("the result is an integer beyond 64 bits");
}

const char* OperatorText(ExprType op) {
  switch (op) {
    case ExprType::kAdd:
      return "+";
    case ExprType::kSubtract:
      return "-";
    case ExprType::kMultiply:
      return "*";
    case ExprType::kDivide:
      return "/";
    case ExprType::kFloorDivide:
      return "//";
    case ExprType::kModulo:
      return "%";
    default:
      return "**";
  }
}

[[noreturn]] void FailOperands(ExprType op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b}) {
    if (v->Is(Kind::kUndefined)) throw Failure(v->UndefinedMessage());
  }
  Fail("unsupported operand types for {}: '{}' and '{}'", OperatorText(op),
       TypeName(a), TypeName(b));
}

int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) Fail("integer division or modulo by zero");
  if (b == -1) {
    if (a == INT64_MIN) FailOverflow();
    return -a;
  }
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t FloorModulo(int64_t a, int64_t b) {
  if (b == 0) Fail("integer division or modulo by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t IntPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      FailOverflow();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      FailOverflow();
    }
  }
  return result;
}

double FloatPower(double base, double exponent) {
  if (base == 0 && exponent < 0)
    Fail("zero cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent)) {
    Fail("complex numbers are not supported");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    Fail("the result is too large for a float");
  }
  return result;
}

struct FloatDivision {
  double quotient, rest;
};

// CPython's float_divmod.
FloatDivision DivideFloats(double a, double b) {
  if (b == 0) Fail("float division or modulo by zero");
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  double floor = std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1;
  return {floor, rest};
}

Value IntArithmetic(ExprType op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case ExprType::kAdd:
      if (__builtin_add_overflow(a, b, &result)) FailOverflow();
      return Value::Int(result);
    case ExprType::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) FailOverflow();
      return Value::Int(result);
    case ExprType::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) FailOverflow();
      return Value::Int(result);
    case ExprType::kDivide:
      if (b == 0) Fail("division by zero");
      // Wider than double, so that both integers are exact.
      return Value::Float(static_cast<double>(static_cast<long double>(a) /
                                              static_cast<long double>(b)));
    case ExprType::kFloorDivide:
      return Value::Int(FloorDivide(a, b));
    case ExprType::kModulo:
      return Value::Int(FloorModulo(a, b));
    default:
      if (b < 0) {
        return Value::Float(
            FloatPower(static_cast<double>(a), static_cast<double>(b)));
      }
      return Value::Int(IntPower(a, b));
  }
}

Value FloatArithmetic(ExprType op, double a, double b) {
  switch (op) {
    case ExprType::kAdd:
      return Value::Float(a + b);
    case ExprType::kSubtract:
      return Value::Float(a - b);
    case ExprType::kMultiply:
      return Value::Float(a * b);
    case ExprType::kDivide:
      if (b == 0) Fail("float division by zero");
      return Value::Float(a / b);
    case ExprType::kFloorDivide:
      return Value::Float(DivideFloats(a, b).quotient);
    case ExprType::kModulo:
      return Value::Float(DivideFloats(a, b).rest);
    default:
      return Value::Float(FloatPower(a, b));
  }
}

int64_t SliceIndex(const Value& value, int64_t otherwise) {
  if (value.Is(Kind::kNone)) return otherwise;
  if (!value.IsIntegral()) {
    if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
    Fail("slice indices must be integers or None, not {}", TypeName(value));
  }
  return value.integer();
}

// The `count` elements from `start` on, `step` apart, that a slice selects.
struct Selection {
  int64_t start, stop, step, count;
};

Selection Select(int64_t size, const Value& start, const Value& stop,
                 const Value& step_value) {
  const int64_t step = SliceIndex(step_value, 1);
  if (step == 0) Fail("slice step cannot be zero");
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto clamp = [&](const Value& value, int64_t otherwise) {
    if (value.Is(Kind::kNone)) return otherwise;
    int64_t index = SliceIndex(value, 0);
    if (index < 0) index += size;
    return std::clamp(index, low, high);
  };
  const int64_t first = clamp(start, step > 0 ? low : high);
  const int64_t last = clamp(stop, step > 0 ? high : low);
  int64_t count = 0;
  if (step > 0 && first < last) count = (last - first - 1) / step + 1;
  if (step < 0 && first > last) {
    count = step == INT64_MIN ? 1 : (first - last - 1) / -step + 1;
  }
  return {first, last, step, count};
}

std::string SliceText(std::string_view text, const Value& start,
                      const Value& stop, const Value& step) {
  const bool ascii = IsAscii(text);
  const auto size =
      static_cast<int64_t>(ascii ? text.size() : CodePointCount(text));
  const Selection s = Select(size, start, stop, step);
  const auto first = static_cast<size_t>(std::max<int64_t>(s.start, 0));
  const auto count = static_cast<size_t>(s.count);
  if (count == 0) return {};
  if (s.step == 1) {
    if (ascii) return std::string(text.substr(first, count));
    const size_t begin = OffsetOf(text, first);
    const size_t length = OffsetOf(text.substr(begin), count);
    return std::string(text.substr(begin, length));
  }
  std::vector<size_t> offsets;
  for (size_t pos = 0; pos < text.size();) {
    offsets.push_back(pos);
    NextCodePoint(text, pos);
  }
  offsets.push_back(text.size());
  std::string out;
  for (int64_t i = 0; i < s.count; ++i) {
    const auto index = static_cast<size_t>(s.start + i * s.step);
    out += text.substr(offsets[index], offsets[index + 1] - offsets[index]);
  }
  return out;
}

}  // namespace

Value Interpreter::Add(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.Is(Kind::kFloat) || b.Is(Kind::kFloat)
               ? FloatArithmetic(ExprType::kAdd, a.real(), b.real())
               : IntArithmetic(ExprType::kAdd, a.integer(), b.integer());
  }
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    if (a.markup() || b.markup()) {
      return Text(Escape(*this, a) + Escape(*this, b), true);
    }
    const size_t size = a.text().size() + b.text().size();
    heap_.CheckString(size);
    std::string text;
    text.reserve(size);
    text += a.text();
    text += b.text();
    return Text(std::move(text));
  }
  if (a.IsSequence() && a.kind() == b.kind()) {
    heap_.Charge(a.size() + b.size());
    std::vector<Value> items;
    items.reserve(a.size() + b.size());
    for (const Value* part : {&a, &b}) {
      for (size_t i = 0; i < part->size(); ++i) {
        items.push_back(part->ItemAt(i));
      }
    }
    return a.Is(Kind::kList) ? Value::List(heap_, std::move(items))
                             : Value::Tuple(heap_, std::move(items));
  }
  FailOperands(ExprType::kAdd, a, b);
}

Value Interpreter::Arithmetic(ExprType op, const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return a.Is(Kind::kFloat) || b.Is(Kind::kFloat)
               ? FloatArithmetic(op, a.real(), b.real())
               : IntArithmetic(op, a.integer(), b.integer());
  }
  if (op == ExprType::kModulo && a.Is(Kind::kString)) {
    return PercentFormat(*this, a, b);
  }
  if (op == ExprType::kMultiply) {
    if (b.IsIntegral()) {
      if (a.Is(Kind::kString) || a.IsSequence()) return Repeat(a, b);
    } else if (a.IsIntegral() && (b.Is(Kind::kString) || b.IsSequence())) {
      return Repeat(b, a);
    }
  }
  FailOperands(op, a, b);
}

Value Interpreter::Negate(const Value& value, bool negate) {
  if (value.Is(Kind::kFloat)) {
    return Value::Float(negate ? -value.real() : value.real());
  }
  if (!value.IsIntegral()) {
    if (value.Is(Kind::kUndefined)) throw Failure(value.UndefinedMessage());
    Fail("bad operand type for unary {}: '{}'", negate ? '-' : '+',
         TypeName(value));
  }
  return negate ? IntArithmetic(ExprType::kSubtract, 0, value.integer())
                : Value::Int(value.integer());
}

Value Interpreter::Repeat(const Value& sequence, const Value& count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count.integer(), 0));
  if (sequence.Is(Kind::kString)) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(sequence.text().size(), times, &bytes)) {
      bytes = SIZE_MAX;
    }
    heap_.CheckString(bytes);
    std::string text;
    text.reserve(bytes);
    if (bytes > 0) {
      for (size_t i = 0; i < times; ++i) text += sequence.text();
    }
    return Text(std::move(text), sequence.markup());
  }
  size_t size = 0;
  if (__builtin_mul_overflow(sequence.size(), times, &size)) size = SIZE_MAX;
  heap_.Charge(size);
  std::vector<Value> items;
  if (size > 0) {
    for (size_t i = 0; i < times; ++i) {
      for (size_t k = 0; k < sequence.size(); ++k) {
        items.push_back(sequence.ItemAt(k));
      }
    }
  }
  return sequence.Is(Kind::kList) ? Value::List(heap_, std::move(items))
                                  : Value::Tuple(heap_, std::move(items));
}

// --- attributes and items ---

Value Interpreter::Forbidden(const Value& object, std::string_view name) {
  return Value::Hint(
      heap_, fmt::format("access to attribute '{}' of '{}' object is unsafe",
                         name, TypeName(object)));
}

Value Interpreter::FindAttribute(const Value& object, std::string_view name) {
  if (object.Is(Kind::kNamespace)) {
    const Value* value = object.As<NamespaceObject>().Find(name);
    return value != nullptr ? *value : Value();
  }
  if (name.starts_with("__") && name.ends_with("__")) {
    return Forbidden(object, name);
  }
  if (const MethodEntry* method = FindMethod(object.kind(), name)) {
    return Value::Own(Kind::kMethod, new MethodObject(heap_, object, method));
  }
  if (IsForbiddenMethod(object.kind(), name)) return Forbidden(object, name);
  if (IsUnsupportedMethod(object.kind(), name)) {
    Fail("'{}' of {} is not supported", name, TypeName(object));
  }
  switch (object.kind()) {
    case Kind::kLoop:
      return LoopAttribute(object, name);
    case Kind::kMacro:
      return MacroAttribute(object, name);
    case Kind::kCycler: {
      const auto& cycler = object.As<CyclerObject>();
      if (name == "current") return cycler.items[cycler.position];
      return name == "items" ? Value::Tuple(heap_, cycler.items) : Value();
    }
    case Kind::kJoiner:
      if (name == "sep") return object.As<JoinerObject>().separator;
      return Value();
    case Kind::kRange: {
      const auto& range = object.As<RangeObject>();
      if (name == "start") return Value::Int(range.start);
      if (name == "stop") return Value::Int(range.stop);
      return name == "step" ? Value::Int(range.step) : Value();
    }
    case Kind::kTuple:
      if (object.size() == 2 && object.As<SequenceObject>().group) {
        if (name == "grouper") return object.ItemAt(0);
        if (name == "list") return object.ItemAt(1);
      }
      return Value();
    default:
      return Value();
  }
}

Value Interpreter::GetAttribute(const Value& object, const std::string& name) {
  if (object.Is(Kind::kUndefined)) throw Failure(object.UndefinedMessage());
  Value value = FindAttribute(object, name);
  if (!value.Is(Kind::kMissing)) return value;
  if (object.Is(Kind::kDict)) {
    heap_.Charge(object.size() / 16);
    value = object.Find(std::string_view(name));
    if (!value.Is(Kind::kMissing)) return value;
  }
  return Value::Undefined(Value::Borrow(&name), Value::About::kAttribute,
                          object.kind());
}

Value Interpreter::GetItem(const Value& object, const Value& key) {
  Value found;
  switch (object.kind()) {
    case Kind::kUndefined:
      throw Failure(object.UndefinedMessage());
    case Kind::kDict:
      heap_.Charge(object.size() / 16);
      if (!key.Is(Kind::kList) && !key.Is(Kind::kDict)) {
        found = object.Find(key);
      }
      break;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kString:
    case Kind::kRange:
      if (key.IsIntegral()) {
        const int64_t size =
            object.Is(Kind::kString)
                ? static_cast<int64_t>(CodePointCount(object.text()))
                : Length(object);
        int64_t index = key.integer();
        if (index < 0) index += size;
        if (index < 0 || index >= size) break;
        if (object.Is(Kind::kRange)) {
          const auto& range = object.As<RangeObject>();
          found = Value::Int(range.start + index * range.step);
        } else if (object.Is(Kind::kString)) {
          heap_.ChargeBytes(object.text().size());
          const std::string_view text = object.text();
          const size_t begin = OffsetOf(text, static_cast<size_t>(index));
          size_t end = begin;
          NextCodePoint(text, end);
          found = Text(std::string(text.substr(begin, end - begin)),
                       object.markup());
        } else {
          found = object.ItemAt(static_cast<size_t>(index));
        }
      }
      break;
    default:
      break;
  }
  if (!found.Is(Kind::kMissing)) return found;
  if (key.Is(Kind::kString)) {
    found = FindAttribute(object, key.text());
    if (!found.Is(Kind::kMissing)) {
      // A namespace keeps nothing whose name begins with '_'.
      return found;
    }
  }
  return Value::Undefined(key, Value::About::kAttribute, object.kind());
}

Value Interpreter::Slice(const Value& object, const Value& start,
                         const Value& stop, const Value& step) {
  switch (object.kind()) {
    case Kind::kUndefined:
      throw Failure(object.UndefinedMessage());
    case Kind::kString:
      heap_.ChargeBytes(object.text().size());
      return Text(SliceText(object.text(), start, stop, step), object.markup());
    case Kind::kRange: {
      const auto& range = object.As<RangeObject>();
      const Selection s = Select(range.size(), start, stop, step);
      const auto plus_times = [](int64_t a, int64_t b, int64_t c) {
        int64_t result = 0;
        if (__builtin_mul_overflow(b, c, &result) ||
            __builtin_add_overflow(a, result, &result)) {
          FailOverflow();
        }
        return result;
      };
      const int64_t first = plus_times(range.start, s.start, range.step);
      const int64_t by = plus_times(0, range.step, s.step);
      const int64_t last = plus_times(range.start, s.stop, range.step);
      return Value::Own(Kind::kRange, new RangeObject(heap_, first, last, by));
    }
    case Kind::kList:
    case Kind::kTuple: {
      const Selection s =
          Select(static_cast<int64_t>(object.size()), start, stop, step);
      heap_.Charge(static_cast<size_t>(s.count));
      std::vector<Value> items;
      items.reserve(static_cast<size_t>(s.count));
      for (int64_t i = 0; i < s.count; ++i) {
        items.push_back(
            object.ItemAt(static_cast<size_t>(s.start + i * s.step)));
      }
      return object.Is(Kind::kList) ? Value::List(heap_, std::move(items))
                                    : Value::Tuple(heap_, std::move(items));
    }
    default:
      Fail("'{}' object cannot be sliced", TypeName(object));
  }
}

}  // namespace rbln::jinja
