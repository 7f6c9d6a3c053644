// Tokens to a Program, by jinja2's grammar.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja_ast.h"

namespace rbln::jinja {

// Throws SyntaxFailure on text that jinja2 refuses, and on what is not
// supported here (include, import, extends, autoescape).
std::unique_ptr<const Program> ParseProgram(std::string_view source);

}  // namespace rbln::jinja
