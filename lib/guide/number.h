// JSON numbers between bounds.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "guide/grammar.h"

namespace rbln {

// A model that has begun a number may go on with digits for ever: there is room
// for every 64-bit integer of 18 digits, and for what a double can tell apart.
inline constexpr int kMaxIntegerDigits = 18;
inline constexpr int kMaxFractionDigits = 16;

// A number written out: digits before and behind the point, without zeros that
// say nothing.
struct Decimal {
  bool negative = false;
  std::string integer = "0";
  std::string fraction;
};

struct NumberBounds {
  std::optional<Decimal> min;
  std::optional<Decimal> max;
  bool min_exclusive = false;
  bool max_exclusive = false;
  bool integer = false;  // digits only
};

// A number of JSON, exactly. nullopt where that takes more digits behind the
// point than a number may have, or is far out of range.
std::optional<Decimal> ToDecimal(const OrderedJson& number);
// Whether a is less than b (-1), equal (0) or more (1).
int Compare(const Decimal& a, const Decimal& b);

// Reads a number within the bounds. Without any bound numbers may have an
// exponent of two digits; with one they have none.
void EmitNumber(GrammarBuilder& builder, const NumberBounds& bounds, int from,
                int to);

}  // namespace rbln
