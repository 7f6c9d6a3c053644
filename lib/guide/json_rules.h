// The rules of JSON itself, each added to a grammar when it is first needed.
#pragma once

#include "guide/grammar.h"

namespace rbln {

class JsonRules {
 public:
  explicit JsonRules(GrammarBuilder& builder) : builder_(builder) {}

  // White space as schema.h says; may be nothing.
  int Space();
  // One character of a string, raw or with any escape. Surrogates come in
  // pairs.
  int Char();
  int String();
  int Value();
  int Object();
  int Array();

  // [from] "open" items "close" [to], where items are read by `item`: as many
  // as there are, or none.
  void AddList(int from, char open, int item, char close, int to);

 private:
  // The rule kept in `rule`; true when it is still to be filled.
  bool IsNew(int& rule, const char* name);

  GrammarBuilder& builder_;
  int space_ = -1;
  int char_ = -1;
  int string_ = -1;
  int value_ = -1;
  int object_ = -1;
  int array_ = -1;
  int member_ = -1;
};

}  // namespace rbln
