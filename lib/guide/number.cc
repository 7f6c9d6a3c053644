#include "guide/number.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

namespace rbln {
namespace {

// Bounds of the digits, without a sign.
struct Magnitudes {
  Decimal min;
  std::optional<Decimal> max;
  bool min_exclusive = false;
  bool max_exclusive = false;
};

int CompareMagnitudes(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) {
    return a.integer.size() < b.integer.size() ? -1 : 1;
  }
  if (const int order = a.integer.compare(b.integer); order != 0) {
    return order < 0 ? -1 : 1;
  }
  const int order = a.fraction.compare(b.fraction);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

bool IsZero(const Decimal& value) {
  return value.integer == "0" && value.fraction.empty();
}

// Reads digits from the first on. As long as they are those of a bound, the
// bound decides about the next one ("tight"); once they differ it is kept,
// whatever follows.
class RangeEmitter {
 public:
  RangeEmitter(GrammarBuilder& builder, const Magnitudes& bounds, bool integer,
               int to)
      : builder_(builder), bounds_(bounds), integer_(integer), to_(to) {}

  void Emit(int from) {
    const int least = static_cast<int>(bounds_.min.integer.size());
    const int most = bounds_.max ? static_cast<int>(bounds_.max->integer.size())
                                 : kMaxIntegerDigits;
    for (int length = least; length <= std::min(most, kMaxIntegerDigits);
         ++length) {
      const bool tight_min = length == least;
      const bool tight_max = bounds_.max.has_value() && length == most;
      IntegerDigit(from, length, 0, tight_min, tight_max,
                   length > 1 ? '1' : '0');
    }
  }

 private:
  static char Digit(const std::string& digits, size_t at) {
    return at < digits.size() ? digits[at] : '0';
  }

  // From a state before digit `at` to those behind it.
  template <typename State>
  void Step(int from, char first, const std::string* min,
            const std::string* max, size_t at, const State& state) {
    const char lo = std::max(first, min != nullptr ? Digit(*min, at) : '0');
    const char hi = max != nullptr ? Digit(*max, at) : '9';
    for (char digit = lo; digit <= hi;) {
      const bool low = min != nullptr && digit == Digit(*min, at);
      const bool high = max != nullptr && digit == Digit(*max, at);
      // Digits on no bound lead to one state.
      char last = digit;
      if (!low && !high) last = max != nullptr ? hi - 1 : '9';
      builder_.AddBytes(from, digit, last, state(low, high));
      digit = static_cast<char>(last + 1);
    }
  }

  void IntegerDigit(int from, int length, size_t at, bool low, bool high,
                    char first) {
    Step(from, first, low ? &bounds_.min.integer : nullptr,
         high ? &bounds_.max->integer : nullptr, at,
         [&](bool still_low, bool still_high) {
           return at + 1 == static_cast<size_t>(length)
                      ? Integer(length, still_low, still_high)
                      : InInteger(length, static_cast<int>(at) + 1, still_low,
                                  still_high);
         });
  }

  // The state behind `at` of `length` digits.
  int InInteger(int length, int at, bool low, bool high) {
    // Where no bound matters any more, only what is left counts.
    const std::array<int, 4> key =
        low || high ? std::array{length, at, low ? 1 : 0, high ? 1 : 0}
                    : std::array{0, length - at, 0, 0};
    const auto [found, added] = states_.try_emplace(key, 0);
    if (!added) return found->second;
    const int state = found->second = builder_.AddState();
    IntegerDigit(state, length, at, low, high, '0');
    return state;
  }

  // The state behind all digits before the point.
  int Integer(int length, bool low, bool high) {
    const auto [found, added] =
        states_.try_emplace({-1, 0, low ? 1 : 0, high ? 1 : 0}, 0);
    if (!added) return found->second;
    const int state = found->second = builder_.AddState();
    EndIfWithin(state, 0, low, high);
    if (!integer_) {
      const int point = builder_.AddState();
      builder_.AddBytes(state, '.', '.', point);
      FractionDigit(point, 0, low, high);
    }
    return state;
  }

  void FractionDigit(int from, int at, bool low, bool high) {
    Step(from, '0', low ? &bounds_.min.fraction : nullptr,
         high ? &bounds_.max->fraction : nullptr, at,
         [&](bool still_low, bool still_high) {
           return Fraction(at + 1, still_low, still_high);
         });
  }

  // The state behind `count` digits behind the point.
  int Fraction(int count, bool low, bool high) {
    const auto [found, added] =
        states_.try_emplace({-2, count, low ? 1 : 0, high ? 1 : 0}, 0);
    if (!added) return found->second;
    const int state = found->second = builder_.AddState();
    EndIfWithin(state, count, low, high);
    if (count < kMaxFractionDigits) FractionDigit(state, count, low, high);
    return state;
  }

  // Behind `count` digits of the fraction: what follows counts as zeros.
  void EndIfWithin(int state, int count, bool low, bool high) {
    const auto is_equal = [&](const Decimal& bound) {
      return static_cast<int>(bound.fraction.size()) <= count;
    };
    if (low && (!is_equal(bounds_.min) || bounds_.min_exclusive)) return;
    if (high && is_equal(*bounds_.max) && bounds_.max_exclusive) return;
    builder_.AddJump(state, to_);
  }

  GrammarBuilder& builder_;
  const Magnitudes& bounds_;
  const bool integer_;
  const int to_;
  std::map<std::array<int, 4>, int> states_;
};

// Up to `count` digits, at least one.
void EmitDigits(GrammarBuilder& builder, int from, int count, int to) {
  for (int i = 0; i < count; ++i) {
    const int next = builder.AddState();
    builder.AddBytes(from, '0', '9', next);
    builder.AddJump(next, to);
    from = next;
  }
}

void EmitUnbounded(GrammarBuilder& builder, bool integer, int from, int to) {
  const int sign = builder.AddState();
  builder.AddJump(from, sign);
  builder.AddBytes(from, '-', '-', sign);
  const int digits = builder.AddState();
  const int more = builder.AddState();
  builder.AddBytes(sign, '0', '0', digits);
  builder.AddBytes(sign, '1', '9', more);
  builder.AddJump(more, digits);
  EmitDigits(builder, more, kMaxIntegerDigits - 1, digits);
  builder.AddJump(digits, to);
  if (integer) return;
  const int point = builder.AddState();
  const int fraction = builder.AddState();
  builder.AddBytes(digits, '.', '.', point);
  EmitDigits(builder, point, kMaxFractionDigits, fraction);
  builder.AddJump(fraction, to);
  const int exponent = builder.AddState();
  for (const int state : {digits, fraction}) {
    builder.AddBytes(state, 'e', 'e', exponent);
    builder.AddBytes(state, 'E', 'E', exponent);
  }
  const int exponent_digits = builder.AddState();
  builder.AddJump(exponent, exponent_digits);
  builder.AddBytes(exponent, '+', '+', exponent_digits);
  builder.AddBytes(exponent, '-', '-', exponent_digits);
  EmitDigits(builder, exponent_digits, 2, to);
}

void EmitRange(GrammarBuilder& builder, const Magnitudes& bounds, bool integer,
               int from, int to) {
  if (bounds.max) {
    const int order = CompareMagnitudes(bounds.min, *bounds.max);
    if (order > 0) return;
    if (order == 0 && (bounds.min_exclusive || bounds.max_exclusive)) return;
  }
  RangeEmitter(builder, bounds, integer, to).Emit(from);
}

}  // namespace

std::optional<Decimal> ToDecimal(const OrderedJson& number) {
  std::string text = number.dump();
  Decimal result;
  if (text[0] == '-') {
    result.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string::npos) {
    exponent = std::atoi(text.c_str() + e + 1);
    text.resize(e);
  }
  std::string digits;
  int before = static_cast<int>(text.size());  // digits before the point
  if (const size_t point = text.find('.'); point != std::string::npos) {
    before = static_cast<int>(point);
    text.erase(point, 1);
  }
  digits = text;
  before += exponent;
  if (std::abs(before) > 100) return std::nullopt;
  if (before < 0) {
    digits.insert(0, -before, '0');
    before = 0;
  }
  if (before > static_cast<int>(digits.size())) digits.resize(before, '0');
  result.integer = digits.substr(0, before);
  result.fraction = digits.substr(before);
  result.integer.erase(0, result.integer.find_first_not_of('0'));
  if (result.integer.empty()) result.integer = "0";
  const size_t last = result.fraction.find_last_not_of('0');
  result.fraction.resize(last == std::string::npos ? 0 : last + 1);
  if (static_cast<int>(result.fraction.size()) > kMaxFractionDigits) {
    return std::nullopt;
  }
  if (IsZero(result)) result.negative = false;
  return result;
}

int Compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int order = CompareMagnitudes(a, b);
  return a.negative ? -order : order;
}

void EmitNumber(GrammarBuilder& builder, const NumberBounds& bounds, int from,
                int to) {
  if (!bounds.min && !bounds.max) {
    return EmitUnbounded(builder, bounds.integer, from, to);
  }
  if (!bounds.max || !bounds.max->negative) {
    Magnitudes positive;
    if (bounds.min && !bounds.min->negative) {
      positive.min = *bounds.min;
      positive.min_exclusive = bounds.min_exclusive;
    }
    positive.max = bounds.max;
    positive.max_exclusive = bounds.max_exclusive;
    EmitRange(builder, positive, bounds.integer, from, to);
  }
  if (!bounds.min || bounds.min->negative) {
    const int sign = builder.AddState();
    builder.AddBytes(from, '-', '-', sign);
    Magnitudes negative;
    if (bounds.max && bounds.max->negative) {
      negative.min = *bounds.max;
      negative.min_exclusive = bounds.max_exclusive;
    } else {
      // Not -0, which is there without its sign.
      negative.min_exclusive = true;
    }
    negative.max = bounds.min;
    negative.max_exclusive = bounds.min_exclusive;
    EmitRange(builder, negative, bounds.integer, sign, to);
  }
}

}  // namespace rbln
