#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>

namespace rbln::jinja {
namespace {

// Contexts nest at most kMaxJsonDepth deep; what templates build around them
// may add as much again. It bounds every recursion over values.
constexpr uint32_t kMaxValueDepth = 2 * kMaxJsonDepth;

uint32_t DepthOver(uint32_t depth) {
  if (depth + 1 > kMaxValueDepth) {
    Fail("values nested more than {} deep", kMaxValueDepth);
  }
  return depth + 1;
}

int CompareDoubles(double a, double b) { return a < b ? -1 : a > b ? 1 : 0; }

// Exact also where the integer has more digits than a double.
int CompareIntToDouble(int64_t i, double d) {
  if (d >= 9223372036854775808.0) return -1;
  if (d < -9223372036854775808.0) return 1;
  const double whole = std::floor(d);
  const auto w = static_cast<int64_t>(whole);
  if (i != w) return i < w ? -1 : 1;
  return whole < d ? -1 : 0;
}

int CompareNumbers(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  if (a.IsIntegral()) return CompareIntToDouble(a.integer(), b.real());
  if (b.IsIntegral()) return -CompareIntToDouble(b.integer(), a.real());
  return CompareDoubles(a.real(), b.real());
}

bool IsNan(const Value& v) {
  return v.Is(Kind::kFloat) && std::isnan(v.real());
}

void CheckHashable(const Value& key) {
  if (key.Is(Kind::kList) || key.Is(Kind::kDict)) {
    Fail("unhashable type: '{}'", TypeName(key));
  }
  if (key.Is(Kind::kTuple)) {
    for (size_t i = 0; i < key.size(); ++i) CheckHashable(key.ItemAt(i));
  }
}

}  // namespace

void Heap::FailSteps() const {
  Fail("the template runs for too long; it looks endless");
}
void Heap::FailString() const {
  Fail("the template makes more than {} bytes of text", max_string_bytes_);
}
void Heap::FailBytes() const {
  Fail("the template needs too much memory; its limit is {} bytes",
       4 * max_string_bytes_ + (size_t{16} << 20));
}

Value Value::String(Heap& heap, std::string text, bool markup) {
  heap.CheckString(text.size());
  heap.ChargeBytes(text.size());
  Value v = Own(Kind::kString, new TextObject(heap, std::move(text)));
  v.markup_ = markup;
  return v;
}

Value Value::Undefined(Value name, About about, Kind of) {
  // The name stays in the payload, whether it is a string or not is lost.
  Value v = std::move(name);
  if (!v.Is(Kind::kString)) v = Value();
  v.kind_ = Kind::kUndefined;
  v.about_ = about;
  v.of_ = of;
  return v;
}

Value Value::Hint(Heap& heap, std::string message) {
  return Undefined(String(heap, std::move(message)), About::kHint);
}

Value Value::Own(Kind kind, Object* object) {
  Value v(kind);
  v.object_ = object;
  v.owned_ = true;
  ++object->references;
  return v;
}

Value Value::List(Heap& heap, std::vector<Value> items) {
  return Own(Kind::kList, new SequenceObject(heap, std::move(items)));
}

Value Value::Tuple(Heap& heap, std::vector<Value> items) {
  return Own(Kind::kTuple, new SequenceObject(heap, std::move(items)));
}

Value Value::FromJson(const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return Bool(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Int(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > INT64_MAX) Fail("the integer {} is beyond 64 bits", number);
      return Int(static_cast<int64_t>(number));
    }
    case OrderedJson::value_t::number_float:
      return Float(json.get<double>());
    case OrderedJson::value_t::string:
      return Borrow(json.get_ptr<const std::string*>());
    case OrderedJson::value_t::array:
    case OrderedJson::value_t::object: {
      Value v(json.is_array() ? Kind::kList : Kind::kDict);
      v.json_ = &json;
      return v;
    }
    default:
      return None();
  }
}

const std::string& Value::text() const {
  return owned_ ? static_cast<TextObject*>(object_)->text : *text_;
}

size_t Value::size() const {
  if (!owned_) return json_->size();
  if (kind_ == Kind::kDict) return As<MappingObject>().items.size();
  return As<SequenceObject>().items.size();
}

Value Value::ItemAt(size_t i) const {
  if (!owned_) return FromJson((*json_)[i]);
  return As<SequenceObject>().items[i];
}

Value Value::KeyAt(size_t i) const {
  if (owned_) return As<MappingObject>().items[i].first;
  const auto& object = json_->get_ref<const OrderedJson::object_t&>();
  return Borrow(&object.begin()[static_cast<std::ptrdiff_t>(i)].first);
}

Value Value::ValueAt(size_t i) const {
  if (owned_) return As<MappingObject>().items[i].second;
  const auto& object = json_->get_ref<const OrderedJson::object_t&>();
  return FromJson(object.begin()[static_cast<std::ptrdiff_t>(i)].second);
}

Value Value::Find(std::string_view key) const {
  if (owned_) {
    for (const auto& [name, value] : As<MappingObject>().items) {
      if (name.Is(Kind::kString) && name.text() == key) return value;
    }
    return Value();
  }
  for (const auto& [name, value] :
       json_->get_ref<const OrderedJson::object_t&>()) {
    if (name == key) return FromJson(value);
  }
  return Value();
}

Value Value::Find(const Value& key) const {
  if (key.Is(Kind::kString)) return Find(std::string_view(key.text()));
  CheckHashable(key);
  if (!owned_) return Value();
  for (const auto& [name, value] : As<MappingObject>().items) {
    if (Equal(name, key)) return value;
  }
  return Value();
}

bool Value::Truth() const {
  switch (kind_) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return integer_ != 0;
    case Kind::kFloat:
      return real_ != 0;
    case Kind::kString:
      return !text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      return size() != 0;
    case Kind::kRange:
      return As<RangeObject>().size() != 0;
    case Kind::kView:
      return As<ViewObject>().dict.size() != 0;
    default:
      return true;
  }
}

std::string Value::UndefinedMessage() const {
  const bool named = owned_ || text_ != nullptr;
  const std::string name = named ? text() : std::string();
  switch (about_) {
    case About::kHint:
      return name;
    case About::kVariable:
      return fmt::format("'{}' is undefined", name);
    case About::kAttribute:
      break;
  }
  if (!named)
    return fmt::format("{} object has no such element", TypeName(of_));
  return fmt::format("'{} object' has no attribute '{}'", TypeName(of_), name);
}

uint32_t Value::depth() const {
  if (owned_) return object_->depth;
  return kind_ == Kind::kList || kind_ == Kind::kDict
             ? static_cast<uint32_t>(kMaxJsonDepth)
             : 0;
}

bool Value::SameAs(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::kFloat) return real_ == other.real_;
  if (kind_ == Kind::kString) {
    // CPython gives equal short strings one address as often as not.
    return text() == other.text();
  }
  return owned_ == other.owned_ && integer_ == other.integer_;
}

SequenceObject::SequenceObject(Heap& heap, std::vector<Value> values)
    : Object(heap, values.size() * sizeof(Value)), items(std::move(values)) {
  heap.Charge(items.size() / 8 + 1);
  uint32_t deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  depth = DepthOver(deepest);
}

void MappingObject::Set(Value key, Value value) {
  CheckHashable(key);
  owner->Charge(items.size() / 8 + 1);
  depth = std::max({depth, DepthOver(key.depth()), DepthOver(value.depth())});
  for (auto& [name, slot] : items) {
    if (Equal(name, key)) {
      slot = std::move(value);
      return;
    }
  }
  Grow(2 * sizeof(Value));
  items.emplace_back(std::move(key), std::move(value));
}

int64_t RangeObject::size() const {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const uint64_t span =
      step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
               : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t by = step > 0 ? static_cast<uint64_t>(step)
                               : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = (span - 1) / by + 1;
  return static_cast<int64_t>(
      std::min(count, static_cast<uint64_t>(INT64_MAX)));
}

Value ViewObject::At(size_t i) const {
  switch (what) {
    case What::kKeys:
      return dict.KeyAt(i);
    case What::kValues:
      return dict.ValueAt(i);
    case What::kItems:
      break;
  }
  return Value::Tuple(*owner, {dict.KeyAt(i), dict.ValueAt(i)});
}

IteratorObject::IteratorObject(Heap& heap, const Value& source, Next step)
    : Object(heap, sizeof(Value) * 4), next(std::move(step)) {
  depth = DepthOver(source.depth());
}

Value* NamespaceObject::Find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

CyclerObject::CyclerObject(Heap& heap, std::vector<Value> values)
    : Object(heap, values.size() * sizeof(Value)), items(std::move(values)) {
  for (const Value& item : items) depth = std::max(depth, item.depth());
  depth = DepthOver(depth);
}

const char* TypeName(Kind kind) {
  switch (kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return "dict view";
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kMethod:
      return "method";
    case Kind::kFunction:
      return "function";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

const char* TypeName(const Value& value) { return TypeName(value.kind()); }

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    return !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple: {
      if (a.size() != b.size()) return false;
      for (size_t i = 0; i < a.size(); ++i) {
        if (!Equal(a.ItemAt(i), b.ItemAt(i))) return false;
      }
      return true;
    }
    case Kind::kDict: {
      if (a.size() != b.size()) return false;
      for (size_t i = 0; i < a.size(); ++i) {
        const Value other = b.Find(a.KeyAt(i));
        if (other.Is(Kind::kMissing) || !Equal(a.ValueAt(i), other)) {
          return false;
        }
      }
      return true;
    }
    case Kind::kRange: {
      const auto& x = a.As<RangeObject>();
      const auto& y = b.As<RangeObject>();
      return x.size() == y.size() &&
             (x.size() == 0 ||
              (x.start == y.start && (x.size() == 1 || x.step == y.step)));
    }
    default:
      return a.SameAs(b);
  }
}

int Compare(const Value& a, const Value& b, const char* op) {
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(a, b);
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    // The order of UTF-8 bytes is the order of code points.
    const int order = a.text().compare(b.text());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.IsSequence() && a.kind() == b.kind()) {
    const size_t common = std::min(a.size(), b.size());
    for (size_t i = 0; i < common; ++i) {
      const Value x = a.ItemAt(i);
      const Value y = b.ItemAt(i);
      if (!Equal(x, y)) return Compare(x, y, op);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  for (const Value* v : {&a, &b}) {
    if (v->Is(Kind::kUndefined)) throw Failure(v->UndefinedMessage());
  }
  Fail("'{}' not supported between instances of '{}' and '{}'", op, TypeName(a),
       TypeName(b));
}

}  // namespace rbln::jinja
