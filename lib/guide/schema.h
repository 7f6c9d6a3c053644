// JSON Schema to a grammar of the JSON texts that are valid under it.
//
// What is known: type, enum, const, properties, required,
// additionalProperties, items, prefixItems, minItems, maxItems, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern,
// format (date, time, date-time, uuid, email), $ref into the same schema,
// $defs, definitions, anyOf, oneOf where its branches exclude each other, and
// allOf with one entry. Keywords that only annotate are passed over. Every
// other keyword is refused by name. Reference:
// https://json-schema.org/draft/2020-12
//
// Every text is valid under the schema; not every valid text can be written, so
// that a model cannot go astray:
// - properties come in the order of the schema, and those that the schema does
//   not name behind them;
// - where `properties` is given and additionalProperties is not, there are no
//   others; items behind prefixItems likewise;
// - a schema that says what its properties, items, length or bounds are, and no
//   type, means that type;
// - white space is, behind { [ , : and before ] }, nothing, one space, or a
//   line's end and up to 32 spaces or 8 tabs;
// - numbers have at most 18 digits before the point, 16 behind it, and two in
//   an exponent.
#pragma once

#include "base/json.h"
#include "guide/grammar.h"

namespace rbln {

// `schema` must outlive `builder`'s use here only. Adds the rules to an empty
// builder. Throws Error(kUsage), the builder's `where` and the place in the
// schema first.
void AddSchema(GrammarBuilder& builder, const OrderedJson& schema);

}  // namespace rbln
