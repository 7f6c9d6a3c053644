// What can be walked, counted and searched; the `loop` variable.
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {

bool Cursor::IsIterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

Cursor::Cursor(Interpreter& interpreter, Value source)
    : interpreter_(interpreter), source_(std::move(source)) {
  switch (source_.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kString:
      size_ = source_.text().size();
      break;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      size_ = source_.size();
      break;
    case Kind::kRange:
      size_ = static_cast<size_t>(source_.As<RangeObject>().size());
      break;
    case Kind::kView:
      size_ = source_.As<ViewObject>().dict.size();
      break;
    case Kind::kIterator:
      break;
    case Kind::kLoop:
      Fail("walking over 'loop' is not supported");
    default:
      Fail("'{}' object is not iterable", TypeName(source_));
  }
}

bool Cursor::Next(Value& out) {
  if (source_.Is(Kind::kIterator)) {
    return source_.As<IteratorObject>().next(out);
  }
  if (position_ >= size_) return false;
  const size_t i = position_++;
  switch (source_.kind()) {
    case Kind::kString: {
      const std::string& text = source_.text();
      position_ = i;
      NextCodePoint(text, position_);
      out = interpreter_.Text(text.substr(i, position_ - i));
      return true;
    }
    case Kind::kDict:
      out = source_.KeyAt(i);
      return true;
    case Kind::kRange: {
      const auto& range = source_.As<RangeObject>();
      out = Value::Int(range.start + static_cast<int64_t>(i) * range.step);
      return true;
    }
    case Kind::kView:
      out = source_.As<ViewObject>().At(i);
      return true;
    default:
      out = source_.ItemAt(i);
      return true;
  }
}

bool Interpreter::HasLength(const Value& value) const {
  return Cursor::IsIterable(value) && !value.Is(Kind::kIterator);
}

int64_t Interpreter::Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      heap_.ChargeBytes(value.text().size());
      return static_cast<int64_t>(CodePointCount(value.text()));
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      return static_cast<int64_t>(value.size());
    case Kind::kRange:
      return value.As<RangeObject>().size();
    case Kind::kView:
      return static_cast<int64_t>(value.As<ViewObject>().dict.size());
    case Kind::kLoop:
      return value.As<LoopObject>().Length(*this);
    default:
      Fail("object of type '{}' has no length", TypeName(value));
  }
}

std::vector<Value> Interpreter::ToVector(const Value& iterable) {
  std::vector<Value> items;
  Cursor cursor(*this, iterable);
  for (Value item; cursor.Next(item);) {
    heap_.Charge(1);
    items.push_back(std::move(item));
  }
  return items;
}

bool Interpreter::Contains(const Value& haystack, const Value& needle) {
  switch (haystack.kind()) {
    case Kind::kString:
      if (!needle.Is(Kind::kString)) {
        if (needle.Is(Kind::kUndefined)) {
          throw Failure(needle.UndefinedMessage());
        }
        Fail("'in <string>' requires a string, not {}", TypeName(needle));
      }
      heap_.ChargeBytes(haystack.text().size());
      return haystack.text().find(needle.text()) != std::string::npos;
    case Kind::kDict:
      heap_.Charge(haystack.size() / 16);
      return !haystack.Find(needle).Is(Kind::kMissing);
    default:
      break;
  }
  Cursor cursor(*this, haystack);
  for (Value item; cursor.Next(item);) {
    heap_.Charge(1);
    if (Equal(item, needle)) return true;
  }
  return false;
}

// --- loop ---

LoopObject::LoopObject(Interpreter& interpreter, const Stmt& loop,
                       const Value& iterable, Scope* where, int64_t recursion)
    : Object(interpreter.heap(), sizeof(LoopObject)),
      stmt(loop),
      scope(where),
      depth0(recursion),
      cursor(interpreter, iterable) {
  if (loop.test == nullptr && interpreter.HasLength(iterable)) {
    length = interpreter.Length(iterable);
  }
}

bool LoopObject::Pull(Interpreter& interpreter, Value& out) {
  if (use_rest) {
    if (rest_position >= rest.size()) return false;
    out = rest[rest_position++];
    return true;
  }
  while (cursor.Next(out)) {
    if (stmt.test == nullptr || interpreter.PassesTest(stmt, scope, out)) {
      return true;
    }
    interpreter.heap().Charge(1);
  }
  return false;
}

bool LoopObject::Advance(Interpreter& interpreter) {
  Value next;
  if (!after.Is(Kind::kMissing)) {
    next = std::move(after);
    after = Value();
  } else if (!Pull(interpreter, next)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = std::move(next);
  return true;
}

bool LoopObject::HasNext(Interpreter& interpreter) {
  if (!after.Is(Kind::kMissing)) return true;
  Value next;
  if (!Pull(interpreter, next)) return false;
  after = std::move(next);
  return true;
}

int64_t LoopObject::Length(Interpreter& interpreter) {
  if (length >= 0) return length;
  std::vector<Value> items;
  for (Value item; Pull(interpreter, item);) {
    interpreter.heap().Charge(1);
    items.push_back(std::move(item));
  }
  length = static_cast<int64_t>(items.size()) + index0 + 1 +
           (after.Is(Kind::kMissing) ? 0 : 1);
  rest = std::move(items);
  rest_position = 0;
  use_rest = true;
  return length;
}

void LoopObject::Clear() {
  current = before = after = last_changed = Value();
  rest.clear();
  use_rest = true;
  rest_position = 0;
}

Value Interpreter::LoopAttribute(const Value& value, std::string_view name) {
  auto& loop = value.As<LoopObject>();
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(!loop.HasNext(*this));
  if (name == "length") return Value::Int(loop.Length(*this));
  if (name == "revindex") {
    return Value::Int(loop.Length(*this) - loop.index0);
  }
  if (name == "revindex0") {
    return Value::Int(loop.Length(*this) - loop.index0 - 1);
  }
  if (name == "depth") return Value::Int(loop.depth0 + 1);
  if (name == "depth0") return Value::Int(loop.depth0);
  if (name == "previtem") {
    if (loop.index0 == 0) {
      return Value::Hint(heap_, "there is no previous item");
    }
    return loop.before;
  }
  if (name == "nextitem") {
    if (!loop.HasNext(*this)) {
      return Value::Hint(heap_, "there is no next item");
    }
    return loop.after;
  }
  return Value();
}

std::string LoopText(const Value& value) {
  const auto& loop = value.As<LoopObject>();
  if (loop.length < 0) Fail("a filtered loop has no text");
  return fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.length);
}

// --- macros ---

std::string MacroName(const Value& macro) {
  const auto& definition = *macro.As<MacroObject>().definition;
  return definition.name != nullptr ? ReprOfText(*definition.name)
                                    : "anonymous";
}

Value Interpreter::MacroAttribute(const Value& value, std::string_view name) {
  const auto& macro = *value.As<MacroObject>().definition;
  if (name == "name") {
    return macro.name != nullptr ? Value::Borrow(macro.name) : Value::None();
  }
  if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string* parameter : macro.parameter_names) {
      names.push_back(Value::Borrow(parameter));
    }
    return Value::Tuple(heap_, std::move(names));
  }
  if (name == "catch_kwargs") return Value::Bool(macro.uses_kwargs);
  if (name == "catch_varargs") return Value::Bool(macro.uses_varargs);
  if (name == "caller") return Value::Bool(macro.uses_caller);
  return Value();
}

}  // namespace rbln::jinja
