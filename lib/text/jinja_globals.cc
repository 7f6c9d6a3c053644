// The global functions of a template.
#include <ctime>

#include "text/jinja_interpreter.h"

namespace rbln::jinja {
namespace {

// The sandbox's bound on a range.
constexpr int64_t kMaxRange = 100000;

Value Range(Interpreter& interpreter, const Args& args) {
  const Params params("range", args, {"", "", ""}, 1);
  const bool only_stop = !params.Has(1);
  const int64_t start = only_stop ? 0 : params.Int(0, 0);
  const int64_t stop = params.Int(only_stop ? 0 : 1, 0);
  const int64_t step = params.Int(2, 1);
  if (step == 0) Fail("range() needs a step that is not zero");
  auto* range = new RangeObject(interpreter.heap(), start, stop, step);
  Value value = Value::Own(Kind::kRange, range);
  if (range->size() > kMaxRange) {
    Fail("range too big: the sandbox allows {} elements", kMaxRange);
  }
  return value;
}

Value Dict(Interpreter& interpreter, const Args& args) {
  if (args.positional.size() > 1) Fail("dict() takes one positional argument");
  auto* dict = new MappingObject(interpreter.heap());
  Value value = Value::Own(Kind::kDict, dict);
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.Is(Kind::kDict)) {
      for (size_t i = 0; i < source.size(); ++i) {
        dict->Set(source.KeyAt(i), source.ValueAt(i));
      }
    } else {
      for (const Value& pair : interpreter.ToVector(source)) {
        const std::vector<Value> parts = interpreter.ToVector(pair);
        if (parts.size() != 2) Fail("dict() takes pairs of keys and values");
        dict->Set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, argument] : args.named) {
    dict->Set(interpreter.Text(name), argument);
  }
  return value;
}

Value Namespace(Interpreter& interpreter, const Args& args) {
  return interpreter.MakeNamespace(args);
}

Value Cycler(Interpreter& interpreter, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) {
    Fail("cycler() takes at least one item, and no keywords");
  }
  return Value::Own(Kind::kCycler,
                    new CyclerObject(interpreter.heap(), args.positional));
}

Value Joiner(Interpreter& interpreter, const Args& args) {
  const Params params("joiner", args, {"sep"});
  return Value::Own(
      Kind::kJoiner,
      new JoinerObject(interpreter.heap(),
                       params.Has(0) ? params[0] : interpreter.Text(", ")));
}

Value Lipsum(Interpreter&, const Args&) {
  Fail("lipsum() is not supported: its text is random");
}

Value RaiseException(Interpreter& interpreter, const Args& args) {
  const Params params("raise_exception", args, {"message"}, 1);
  throw Failure(interpreter.Str(params[0]));
}

// datetime.now().strftime(format): local time, without a zone.
Value StrftimeNow(Interpreter& interpreter, const Args& args) {
  const Params params("strftime_now", args, {"format"}, 1);
  const std::string& format = params.Text(0);
  const std::time_t now = interpreter.now();
  std::tm local{};
  localtime_r(&now, &local);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char code = format[++i];
    if (code == 'z' || code == 'Z') continue;
    if (code == 'f') {
      out += "000000";
      continue;
    }
    std::string piece = {'%', code};
    // glibc's modifiers: %-d, %_d, %0d, %^a, %#a, %Ey, %Od.
    while (i + 1 < format.size() &&
           std::string_view("-_0^#EO").find(piece.back()) !=
               std::string_view::npos) {
      piece += format[++i];
    }
    char buffer[128];
    const size_t size =
        std::strftime(buffer, sizeof(buffer), piece.c_str(), &local);
    out.append(buffer, size);
  }
  return interpreter.Text(std::move(out));
}

constexpr FunctionEntry kFunctions[] = {
    {"range", Range},
    {"dict", Dict},
    {"namespace", Namespace},
    {"cycler", Cycler},
    {"joiner", Joiner},
    {"lipsum", Lipsum},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
};

}  // namespace

const FunctionEntry* FindFunction(std::string_view name) {
  for (const FunctionEntry& entry : kFunctions) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace rbln::jinja
