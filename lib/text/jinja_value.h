// Values of a rendering, with Python's equality, order, truth and text.
//
// A Value is 16 bytes. Strings, lists and dicts of the context and constants of
// the template are borrowed: they outlive the rendering and are never copied.
// What a rendering makes is counted by reference (one thread renders, so the
// counts are plain integers) and its bytes are charged to the rendering's Heap.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace rbln::jinja {

// Why a rendering ends; the interpreter adds template and line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

// Bounds of one rendering. Work is counted in steps; a step is an expression,
// a statement, an element or 64 bytes of text looked at.
class Heap {
 public:
  Heap(size_t max_steps, size_t max_string_bytes)
      : steps_left_(max_steps),
        max_string_bytes_(max_string_bytes),
        // Room for a few strings of the largest size beside one another.
        bytes_left_(4 * max_string_bytes + (size_t{16} << 20)) {}

  void Charge(size_t steps) {
    if (steps > steps_left_) FailSteps();
    steps_left_ -= steps;
  }
  void ChargeBytes(size_t bytes) { Charge(bytes / 64 + 1); }
  // Throws unless a string of `bytes` may exist; call it before building one.
  void CheckString(size_t bytes) const {
    if (bytes > max_string_bytes_) FailString();
  }
  void Allocate(size_t bytes) {
    if (bytes > bytes_left_) FailBytes();
    bytes_left_ -= bytes;
  }
  void Release(size_t bytes) { bytes_left_ += bytes; }

 private:
  [[noreturn]] void FailSteps() const;
  [[noreturn]] void FailString() const;
  [[noreturn]] void FailBytes() const;

  size_t steps_left_;
  size_t max_string_bytes_;
  size_t bytes_left_;
};

enum class Kind : uint8_t {
  kMissing,  // no value at all: a parameter not given, a name not set
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,  // dict.keys(), .values(), .items()
  kIterator,
  kNamespace,
  kLoop,
  kMacro,
  kMethod,
  kFunction,
  kCycler,
  kJoiner,
};

// What a rendering allocates. `depth` bounds how deep values nest, and with it
// every recursion over them.
struct Object {
  Object(Heap& heap, size_t size) : owner(&heap), bytes(size + 64) {
    owner->Allocate(bytes);
  }
  virtual ~Object() { owner->Release(bytes); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  // Charges for growth after construction.
  void Grow(size_t more) {
    owner->Allocate(more);
    bytes += more;
  }

  Heap* owner;
  size_t bytes;
  uint32_t references = 0;
  uint32_t depth = 0;
};

struct TextObject;
struct SequenceObject;
struct MappingObject;
struct FunctionEntry;

class Value {
 public:
  Value() : integer_(0) {}  // missing
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool b) {
    Value v(Kind::kBool);
    v.integer_ = b;
    return v;
  }
  static Value Int(int64_t i) {
    Value v(Kind::kInt);
    v.integer_ = i;
    return v;
  }
  static Value Float(double d) {
    Value v(Kind::kFloat);
    v.real_ = d;
    return v;
  }
  // `text` outlives the value.
  static Value Borrow(const std::string* text) {
    Value v(Kind::kString);
    v.text_ = text;
    return v;
  }
  static Value String(Heap& heap, std::string text, bool markup = false);
  // An undefined value. `about` tells what `name` is: a variable, an attribute
  // of something, or a whole message.
  enum class About : uint8_t { kVariable, kAttribute, kHint };
  static Value Undefined(Value name, About about, Kind of = Kind::kMissing);
  static Value Hint(Heap& heap, std::string message);
  static Value Function(const FunctionEntry* entry) {
    Value v(Kind::kFunction);
    v.function_ = entry;
    return v;
  }
  // `json` outlives the value.
  static Value FromJson(const OrderedJson& json);
  // Takes a reference to an object made for this kind.
  static Value Own(Kind kind, Object* object);
  static Value List(Heap& heap, std::vector<Value> items);
  static Value Tuple(Heap& heap, std::vector<Value> items);

  Value(const Value& other) { CopyFrom(other); }
  Value(Value&& other) noexcept { MoveFrom(other); }
  Value& operator=(const Value& other) {
    if (this != &other) {
      Value copy(other);
      Drop();
      MoveFrom(copy);
    }
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    if (this != &other) {
      Value old;
      old.MoveFrom(*this);
      MoveFrom(other);
    }
    return *this;
  }
  ~Value() { Drop(); }

  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  bool IsNumber() const {  // an int, a float, or a bool as one
    return kind_ == Kind::kInt || kind_ == Kind::kFloat || kind_ == Kind::kBool;
  }
  bool IsIntegral() const {
    return kind_ == Kind::kInt || kind_ == Kind::kBool;
  }
  bool IsSequence() const {
    return kind_ == Kind::kList || kind_ == Kind::kTuple;
  }
  int64_t integer() const { return integer_; }  // of an int or a bool
  double real() const {                         // of a number
    return kind_ == Kind::kFloat ? real_ : static_cast<double>(integer_);
  }
  const std::string& text() const;  // of a string
  bool markup() const { return markup_; }
  const FunctionEntry* function() const { return function_; }
  template <typename T>
  T& As() const {
    return static_cast<T&>(*object_);
  }

  // Lists, tuples and dicts: their elements in order.
  size_t size() const;
  Value ItemAt(size_t i) const;  // of a list or tuple
  Value KeyAt(size_t i) const;   // of a dict
  Value ValueAt(size_t i) const;
  // The value under `key` in a dict; missing if there is none.
  Value Find(const Value& key) const;
  Value Find(std::string_view key) const;

  bool Truth() const;
  // Why an undefined value may not be used so.
  std::string UndefinedMessage() const;
  uint32_t depth() const;
  // Python's `is`.
  bool SameAs(const Value& other) const;

 private:
  explicit Value(Kind kind) : kind_(kind), integer_(0) {}
  void CopyFrom(const Value& other) {
    kind_ = other.kind_;
    owned_ = other.owned_;
    markup_ = other.markup_;
    about_ = other.about_;
    of_ = other.of_;
    integer_ = other.integer_;
    if (owned_) ++object_->references;
  }
  void MoveFrom(Value& other) noexcept {
    kind_ = other.kind_;
    owned_ = other.owned_;
    markup_ = other.markup_;
    about_ = other.about_;
    of_ = other.of_;
    integer_ = other.integer_;
    other.owned_ = false;
    other.kind_ = Kind::kMissing;
  }
  void Drop() {
    if (owned_ && --object_->references == 0) delete object_;
    owned_ = false;
  }

  Kind kind_ = Kind::kMissing;
  bool owned_ = false;
  bool markup_ = false;  // a string that is safe HTML
  About about_ = About::kVariable;
  Kind of_ = Kind::kMissing;  // whose attribute an undefined value is
  union {
    int64_t integer_;
    double real_;
    const std::string* text_;
    const OrderedJson* json_;
    const FunctionEntry* function_;
    Object* object_;
  };
};

struct TextObject : Object {
  TextObject(Heap& heap, std::string s)
      : Object(heap, s.size()), text(std::move(s)) {}
  std::string text;
};

// A list or a tuple; immutable.
struct SequenceObject : Object {
  SequenceObject(Heap& heap, std::vector<Value> values);
  std::vector<Value> items;
  bool group = false;  // of the groupby filter: .grouper and .list
};

// A dict; immutable once it is a value.
struct MappingObject : Object {
  explicit MappingObject(Heap& heap) : Object(heap, 0) {}
  // Sets a key, in place where it is there. Throws on keys without a hash.
  void Set(Value key, Value value);
  std::vector<std::pair<Value, Value>> items;
};

struct RangeObject : Object {
  RangeObject(Heap& heap, int64_t first, int64_t last, int64_t by)
      : Object(heap, 0), start(first), stop(last), step(by) {}
  int64_t size() const;
  int64_t start, stop, step;
};

struct ViewObject : Object {
  enum class What { kKeys, kValues, kItems };
  ViewObject(Heap& heap, Value of, What which)
      : Object(heap, 0), dict(std::move(of)), what(which) {
    depth = dict.depth() + 1;
  }
  Value At(size_t i) const;
  Value dict;
  What what;
};

// A Python generator or iterator: elements come once, when asked for.
struct IteratorObject : Object {
  using Next = std::function<bool(Value&)>;
  // `source` is what `step` holds on to.
  IteratorObject(Heap& heap, const Value& source, Next step);
  Next next;
};

struct NamespaceObject : Object {
  explicit NamespaceObject(Heap& heap) : Object(heap, 0) {}
  std::vector<std::pair<std::string, Value>> attributes;
  Value* Find(std::string_view name);
};

struct CyclerObject : Object {
  CyclerObject(Heap& heap, std::vector<Value> values);
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObject : Object {
  JoinerObject(Heap& heap, Value text)
      : Object(heap, 0), separator(std::move(text)) {
    depth = separator.depth() + 1;
  }
  Value separator;
  bool used = false;
};

// "str", "dict" and so on, as Python names the type.
const char* TypeName(const Value& value);
const char* TypeName(Kind kind);

// ==. Throws on values nested too deep.
bool Equal(const Value& a, const Value& b);
// -1, 0, 1. Throws where Python raises TypeError; `op` is named in the message.
int Compare(const Value& a, const Value& b, const char* op);

// str() and repr(), appended.
void AppendStr(Heap& heap, std::string& out, const Value& value);
void AppendRepr(Heap& heap, std::string& out, const Value& value);
std::string Str(Heap& heap, const Value& value);
std::string ReprOfText(std::string_view text);
std::string ReprOfFloat(double d);

}  // namespace rbln::jinja
