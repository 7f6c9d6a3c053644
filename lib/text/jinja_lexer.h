// Template text to tokens, with jinja2's rules of white space: trim_blocks (the
// newline after a block tag goes), lstrip_blocks (so does the space before one
// on its line), the signs - and + that change either, and no newline at the end
// of the template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace rbln::jinja {

// A Failure of the text of the template, with its line.
class SyntaxFailure : public Failure {
 public:
  SyntaxFailure(int at, const std::string& message)
      : Failure(message), line(at) {}
  int line;
};

enum class TokenType : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type;
  int line;
  // Data, the name, the unescaped string, or the operator.
  std::string text;
  int64_t integer = 0;
  double real = 0;

  bool IsName(std::string_view name) const {
    return type == TokenType::kName && text == name;
  }
  bool IsOperator(std::string_view op) const {
    return type == TokenType::kOperator && text == op;
  }
};

// Ends with a token kEnd. Throws SyntaxFailure.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace rbln::jinja
