// Filters over sequences, and the lookup of all filters.
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_unicode.h"

namespace rbln::jinja {

std::vector<size_t> SortedOrder(Interpreter& interpreter,
                                const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<size_t> merged(order.size());
  // A merge sort of our own: it stays within its arrays also where NaNs make
  // the order no order at all.
  const auto goes_first = [&](size_t a, size_t b) {
    interpreter.heap().Charge(1);
    const int less = Compare(keys[a], keys[b], "<");
    return reverse ? less > 0 : less < 0;
  };
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool take_right =
            left == middle ||
            (right < end && goes_first(order[right], order[left]));
        merged[out] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  return order;
}

namespace {

Value IgnoreCase(Interpreter& interpreter, const Value& value) {
  if (!value.Is(Kind::kString)) return value;
  return interpreter.Text(ToLower(value.text()));
}

// A path of attributes and indices: "address.city", "0.name", or an integer.
class AttributePath {
 public:
  AttributePath(Interpreter& interpreter, const Value& attribute)
      : interpreter_(&interpreter) {
    if (attribute.Is(Kind::kMissing) || attribute.Is(Kind::kNone)) return;
    if (!attribute.Is(Kind::kString)) {
      parts_.push_back(attribute);
      return;
    }
    AddParts(attribute.text());
  }
  AttributePath(Interpreter& interpreter, std::string_view path)
      : interpreter_(&interpreter) {
    AddParts(path);
  }

  Value Get(const Value& item, const Value& otherwise = Value()) const {
    Value value = item;
    for (const Value& part : parts_) {
      value = interpreter_->GetItem(value, part);
      if (!otherwise.Is(Kind::kMissing) && !otherwise.Is(Kind::kNone) &&
          value.Is(Kind::kUndefined)) {
        value = otherwise;
      }
    }
    return value;
  }

 private:
  void AddParts(std::string_view path) {
    for (;;) {
      const size_t dot = path.find('.');
      const std::string part(path.substr(0, dot));
      int64_t number = 0;
      const bool digits =
          !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
            return c >= '0' && c <= '9';
          });
      if (digits && ParsePythonInt(part, 10, number)) {
        parts_.push_back(Value::Int(number));
      } else {
        parts_.push_back(interpreter_->Text(part));
      }
      if (dot == std::string_view::npos) return;
      path.remove_prefix(dot + 1);
    }
  }

  Interpreter* interpreter_;
  std::vector<Value> parts_;
};

Value Optional(const Params& params, size_t i) {
  return params.Has(i) ? params[i] : Value();
}

Value List(Interpreter& interpreter, std::vector<Value> items) {
  return Value::List(interpreter.heap(), std::move(items));
}

Value Length(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("length", args, {});
  return Value::Int(interpreter.Length(value));
}

Value ToList(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("list", args, {});
  return List(interpreter, interpreter.ToVector(value));
}

Value First(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("first", args, {});
  Cursor cursor(interpreter, value);
  Value item;
  if (cursor.Next(item)) return item;
  return Value::Hint(interpreter.heap(), "No first item, sequence was empty.");
}

// reversed(): refuses what cannot be walked backwards.
std::vector<Value> Reversed(Interpreter& interpreter, const Value& value) {
  if (value.Is(Kind::kIterator)) {
    Fail("'{}' object is not reversible", TypeName(value));
  }
  std::vector<Value> items = interpreter.ToVector(value);
  std::reverse(items.begin(), items.end());
  return items;
}

Value Last(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("last", args, {});
  if (value.IsSequence() && value.size() > 0) {
    return value.ItemAt(value.size() - 1);
  }
  const std::vector<Value> items = Reversed(interpreter, value);
  if (!items.empty()) return items[0];
  return Value::Hint(interpreter.heap(), "No last item, sequence was empty.");
}

IteratorObject::Next Walk(std::vector<Value> items) {
  return [items = std::move(items), i = size_t{0}](Value& out) mutable {
    if (i == items.size()) return false;
    out = items[i++];
    return true;
  };
}

Value Reverse(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("reverse", args, {});
  if (value.Is(Kind::kString)) {
    const std::string& text = value.text();
    std::string out;
    for (size_t pos = text.size(); pos > 0;) {
      const size_t begin = PreviousOffset(text, pos);
      out += text.substr(begin, pos - begin);
      pos = begin;
    }
    return interpreter.Text(std::move(out));
  }
  if (value.Is(Kind::kIterator)) {
    std::vector<Value> items = interpreter.ToVector(value);
    std::reverse(items.begin(), items.end());
    return List(interpreter, std::move(items));
  }
  return interpreter.MakeIterator(value, Walk(Reversed(interpreter, value)));
}

Value Join(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("join", args, {"d", "attribute"});
  const std::string separator =
      params.Has(0) ? interpreter.Str(params[0]) : std::string();
  const AttributePath path(interpreter, Optional(params, 1));
  std::string out;
  Cursor cursor(interpreter, value);
  bool first = true;
  for (Value item; cursor.Next(item); first = false) {
    if (!first) out += separator;
    AppendStr(interpreter.heap(), out,
              params.HasValue(1) ? path.Get(item) : item);
    interpreter.heap().Charge(1);
    interpreter.heap().CheckString(out.size());
  }
  return interpreter.Text(std::move(out));
}

Value Items(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("items", args, {});
  if (value.Is(Kind::kUndefined)) {
    return interpreter.MakeIterator(value, Walk({}));
  }
  return interpreter.MakeIterator(value, [&interpreter, value,
                                          i = size_t{0}](Value& out) mutable {
    if (!value.Is(Kind::kDict)) {
      Fail("items: can only get item pairs from a mapping");
    }
    if (i == value.size()) return false;
    out = Value::Tuple(interpreter.heap(), {value.KeyAt(i), value.ValueAt(i)});
    ++i;
    return true;
  });
}

Value DictSort(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("dictsort", args, {"case_sensitive", "by", "reverse"});
  const bool case_sensitive = params.Truth(0, false);
  const std::string by = params.Has(1) ? params.Text(1) : "key";
  if (by != "key" && by != "value") {
    Fail("dictsort can only sort by \"key\" or \"value\"");
  }
  if (!value.Is(Kind::kDict)) Fail("dictsort needs a dict");
  std::vector<Value> keys;
  for (size_t i = 0; i < value.size(); ++i) {
    const Value key = by == "key" ? value.KeyAt(i) : value.ValueAt(i);
    keys.push_back(case_sensitive ? key : IgnoreCase(interpreter, key));
  }
  std::vector<Value> items;
  for (const size_t i : SortedOrder(interpreter, keys, params.Int(2, 0) != 0)) {
    items.push_back(
        Value::Tuple(interpreter.heap(), {value.KeyAt(i), value.ValueAt(i)}));
  }
  return List(interpreter, std::move(items));
}

Value Sort(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = params.Truth(1, false);
  std::vector<AttributePath> paths;
  if (params.Has(2) && params[2].Is(Kind::kString)) {
    std::string_view rest = params[2].text();
    for (;;) {
      const size_t comma = rest.find(',');
      paths.emplace_back(interpreter, rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(interpreter, Optional(params, 2));
  }
  const std::vector<Value> items = interpreter.ToVector(value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.Get(item);
      key.push_back(case_sensitive ? part : IgnoreCase(interpreter, part));
    }
    keys.push_back(List(interpreter, std::move(key)));
  }
  std::vector<Value> sorted;
  for (const size_t i : SortedOrder(interpreter, keys, params.Int(0, 0) != 0)) {
    sorted.push_back(items[i]);
  }
  return List(interpreter, std::move(sorted));
}

Value Unique(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("unique", args, {"case_sensitive", "attribute"});
  const bool case_sensitive = params.Truth(0, false);
  const AttributePath path(interpreter, Optional(params, 1));
  auto cursor = std::make_shared<Cursor>(interpreter, value);
  auto seen = std::make_shared<std::vector<Value>>();
  return interpreter.MakeIterator(
      value, [&interpreter, case_sensitive, path, cursor, seen](Value& out) {
        while (cursor->Next(out)) {
          Value key = path.Get(out);
          if (!case_sensitive) key = IgnoreCase(interpreter, key);
          if (key.Is(Kind::kList) || key.Is(Kind::kDict)) {
            Fail("unhashable type: '{}'", TypeName(key));
          }
          interpreter.heap().Charge(seen->size() + 1);
          const bool known =
              std::any_of(seen->begin(), seen->end(),
                          [&](const Value& v) { return Equal(v, key); });
          if (known) continue;
          seen->push_back(key);
          return true;
        }
        return false;
      });
}

Value Extreme(Interpreter& interpreter, const Value& value, const Args& args,
              const char* name, bool largest) {
  const Params params(name, args, {"case_sensitive", "attribute"});
  const bool case_sensitive = params.Truth(0, false);
  const AttributePath path(interpreter, Optional(params, 1));
  Cursor cursor(interpreter, value);
  Value best;
  Value best_key;
  for (Value item; cursor.Next(item);) {
    interpreter.heap().Charge(1);
    Value key = path.Get(item);
    if (!case_sensitive) key = IgnoreCase(interpreter, key);
    if (!best.Is(Kind::kMissing)) {
      const int order =
          largest ? -Compare(key, best_key, ">") : Compare(key, best_key, "<");
      if (order >= 0) continue;
    }
    best = item;
    best_key = std::move(key);
  }
  if (!best.Is(Kind::kMissing)) return best;
  return Value::Hint(interpreter.heap(),
                     "No aggregated item, sequence was empty.");
}

Value Min(Interpreter& interpreter, const Value& value, const Args& args) {
  return Extreme(interpreter, value, args, "min", false);
}

Value Max(Interpreter& interpreter, const Value& value, const Args& args) {
  return Extreme(interpreter, value, args, "max", true);
}

Value Sum(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("sum", args, {"attribute", "start"});
  const AttributePath path(interpreter, Optional(params, 0));
  Value total = params.Has(1) ? params[1] : Value::Int(0);
  if (total.Is(Kind::kString)) Fail("sum() cannot sum strings");
  Cursor cursor(interpreter, value);
  for (Value item; cursor.Next(item);) {
    interpreter.heap().Charge(1);
    total = interpreter.Add(total, path.Get(item));
  }
  return total;
}

Value Batch(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("batch", args, {"linecount", "fill_with"}, 1);
  const Value fill = Optional(params, 1);
  const Value count = params[0];
  std::vector<Value> rows;
  std::vector<Value> row;
  for (Value& item : interpreter.ToVector(value)) {
    if (Equal(Value::Int(static_cast<int64_t>(row.size())), count)) {
      rows.push_back(List(interpreter, std::move(row)));
      row.clear();
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (params.HasValue(1)) {
      const int64_t width = params.Int(0, 0);
      while (static_cast<int64_t>(row.size()) < width) {
        interpreter.heap().Charge(1);
        row.push_back(fill);
      }
    }
    rows.push_back(List(interpreter, std::move(row)));
  }
  return interpreter.MakeIterator(List(interpreter, rows), Walk(rows));
}

Value SliceFilter(Interpreter& interpreter, const Value& value,
                  const Args& args) {
  const Params params("slice", args, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = interpreter.ToVector(value);
  const int64_t slices = params.Int(0, 0);
  if (slices == 0) Fail("slice: the number of slices is zero");
  std::vector<Value> columns;
  if (slices > 0) {
    interpreter.heap().Charge(static_cast<size_t>(slices));
    const auto count = static_cast<size_t>(slices);
    const size_t each = items.size() / count;
    const size_t extra = items.size() % count;
    size_t begin = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t end = begin + each + (i < extra ? 1 : 0);
      std::vector<Value> column(
          items.begin() + static_cast<std::ptrdiff_t>(begin),
          items.begin() + static_cast<std::ptrdiff_t>(end));
      if (params.HasValue(1) && i >= extra) column.push_back(params[1]);
      columns.push_back(List(interpreter, std::move(column)));
      begin = end;
    }
  }
  return interpreter.MakeIterator(List(interpreter, columns), Walk(columns));
}

Value GroupBy(Interpreter& interpreter, const Value& value, const Args& args) {
  const Params params("groupby", args,
                      {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(interpreter, params[0]);
  const Value otherwise = Optional(params, 1);
  const bool case_sensitive = params.Truth(2, false);
  const std::vector<Value> items = interpreter.ToVector(value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value key = path.Get(item, otherwise);
    keys.push_back(case_sensitive ? key : IgnoreCase(interpreter, key));
  }
  std::vector<Value> groups;
  const std::vector<size_t> order = SortedOrder(interpreter, keys, false);
  for (size_t i = 0; i < order.size();) {
    const size_t first = order[i];
    std::vector<Value> members;
    for (; i < order.size() && Equal(keys[order[i]], keys[first]); ++i) {
      members.push_back(items[order[i]]);
    }
    if (members.empty()) {  // NaN equals nothing, itself included
      members.push_back(items[order[i++]]);
    }
    const Value grouper = path.Get(members[0], otherwise);
    const Value group = Value::Tuple(
        interpreter.heap(), {grouper, List(interpreter, std::move(members))});
    group.As<SequenceObject>().group = true;
    groups.push_back(group);
  }
  return List(interpreter, std::move(groups));
}

Args Rest(const Args& args, size_t from) {
  Args rest;
  rest.positional.assign(
      args.positional.begin() +
          static_cast<std::ptrdiff_t>(std::min(from, args.positional.size())),
      args.positional.end());
  rest.named = args.named;
  return rest;
}

const std::string& NameArgument(const Value& value, const char* filter) {
  if (!value.Is(Kind::kString)) Fail("{}: a name must be a str", filter);
  return value.text();
}

Value Map(Interpreter& interpreter, const Value& value, const Args& args) {
  if (!value.Truth()) return interpreter.MakeIterator(value, Walk({}));
  auto cursor = std::make_shared<std::unique_ptr<Cursor>>();
  const auto start = [&interpreter, value, cursor] {
    if (*cursor == nullptr) {
      *cursor = std::make_unique<Cursor>(interpreter, value);
    }
  };
  if (args.positional.empty() &&
      std::any_of(args.named.begin(), args.named.end(),
                  [](const auto& a) { return a.first == "attribute"; })) {
    const Params params("map", args, {"attribute", "default"});
    const AttributePath path(interpreter, params[0]);
    const Value otherwise = Optional(params, 1);
    return interpreter.MakeIterator(
        value, [&interpreter, cursor, start, path, otherwise](Value& out) {
          start();
          interpreter.heap().Charge(1);
          if (!(*cursor)->Next(out)) return false;
          out = path.Get(out, otherwise);
          return true;
        });
  }
  return interpreter.MakeIterator(
      value, [&interpreter, cursor, start, args](Value& out) {
        if (args.positional.empty()) Fail("map requires a filter argument");
        start();
        interpreter.heap().Charge(1);
        if (!(*cursor)->Next(out)) return false;
        out = interpreter.CallFilter(NameArgument(args.positional[0], "map"),
                                     out, Rest(args, 1));
        return true;
      });
}

Value SelectWhere(Interpreter& interpreter, const Value& value,
                  const Args& args, bool by_attribute, bool wanted) {
  if (!value.Truth()) return interpreter.MakeIterator(value, Walk({}));
  auto cursor = std::make_shared<std::unique_ptr<Cursor>>();
  const size_t offset = by_attribute ? 1 : 0;
  return interpreter.MakeIterator(
      value, [&interpreter, value, args, cursor, offset, wanted](Value& out) {
        if (args.positional.size() < offset) {
          Fail("missing parameter for attribute name");
        }
        const AttributePath path(interpreter,
                                 offset == 1 ? args.positional[0] : Value());
        if (*cursor == nullptr) {
          *cursor = std::make_unique<Cursor>(interpreter, value);
        }
        while ((*cursor)->Next(out)) {
          interpreter.heap().Charge(1);
          const Value subject = offset == 1 ? path.Get(out) : out;
          const bool passes =
              args.positional.size() > offset
                  ? interpreter.CallTest(
                        NameArgument(args.positional[offset], "select"),
                        subject, Rest(args, offset + 1))
                  : subject.Truth();
          if (passes == wanted) return true;
        }
        return false;
      });
}

Value Select(Interpreter& i, const Value& value, const Args& args) {
  return SelectWhere(i, value, args, false, true);
}
Value Reject(Interpreter& i, const Value& value, const Args& args) {
  return SelectWhere(i, value, args, false, false);
}
Value SelectAttr(Interpreter& i, const Value& value, const Args& args) {
  return SelectWhere(i, value, args, true, true);
}
Value RejectAttr(Interpreter& i, const Value& value, const Args& args) {
  return SelectWhere(i, value, args, true, false);
}

Value Random(Interpreter&, const Value&, const Args&) {
  Fail("the filter 'random' is not supported: equal prompts must render alike");
}

}  // namespace

const std::vector<FilterEntry>& SequenceFilters() {
  static const std::vector<FilterEntry> kFilters = {
      {"batch", Batch},
      {"count", Length},
      {"dictsort", DictSort},
      {"first", First},
      {"groupby", GroupBy},
      {"items", Items},
      {"join", Join},
      {"last", Last},
      {"length", Length},
      {"list", ToList},
      {"map", Map},
      {"max", Max},
      {"min", Min},
      {"random", Random},
      {"reject", Reject},
      {"rejectattr", RejectAttr},
      {"reverse", Reverse},
      {"select", Select},
      {"selectattr", SelectAttr},
      {"slice", SliceFilter},
      {"sort", Sort},
      {"sum", Sum},
      {"tojson", ToJsonFilter},
      {"unique", Unique},
  };
  return kFilters;
}

const FilterEntry* FindFilter(std::string_view name) {
  for (const auto* filters : {&SequenceFilters(), &TextFilters()}) {
    for (const FilterEntry& entry : *filters) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

}  // namespace rbln::jinja
