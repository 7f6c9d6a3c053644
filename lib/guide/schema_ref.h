// References inside a schema, and which schemas exclude each other.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"

namespace rbln {

// What a $ref names: "#" or a JSON pointer behind it (RFC 6901). `*path`
// becomes the pointer in one form. Calls `fail`, which must throw, with what is
// wrong.
const OrderedJson& Resolve(const OrderedJson& root, const OrderedJson& ref,
                           std::string* path,
                           const std::function<void(std::string)>& fail);

// Whether it is certain that no value is valid under both: their types differ,
// their constants do, or a property that both require excludes it. False where
// that is not clear.
bool AreDisjoint(const OrderedJson& root, const OrderedJson& a,
                 const OrderedJson& b);

}  // namespace rbln
