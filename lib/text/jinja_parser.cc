#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"

namespace rbln::jinja {
namespace {

// Deepest nesting of statements, brackets and prefix operators in a template.
constexpr int kMaxParseDepth = 150;

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source)
      : tokens_(Tokenize(source)), program_(std::make_unique<Program>()) {}

  std::unique_ptr<const Program> Run() {
    program_->body = ParseBody({});
    return std::move(program_);
  }

 private:
  // A macro or call block being parsed: which special names its body may still
  // read as its own.
  struct OpenMacro {
    MacroDefinition* definition;
    bool shadowed[4] = {};
  };

  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxParseDepth) {
        parser_.Error("nested more than {} deep", kMaxParseDepth);
      }
    }
    ~Deeper() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  // Sets a variable for the time of a block.
  template <typename T>
  class Override {
   public:
    Override(T& variable, T value) : variable_(variable), old_(variable) {
      variable_ = value;
    }
    ~Override() { variable_ = old_; }

   private:
    T& variable_;
    T old_;
  };

  template <typename... Args>
  [[noreturn]] void Error(fmt::format_string<Args...> format, Args&&... args) {
    throw SyntaxFailure(Peek().line,
                        fmt::format(format, std::forward<Args>(args)...));
  }

  // --- tokens ---

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)];
  }
  const Token& Next() {
    const Token& token = Peek();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  bool AtOperator(std::string_view op) const { return Peek().IsOperator(op); }
  bool AtName(std::string_view name) const { return Peek().IsName(name); }
  bool AtAnyName(Names names) const {
    return Peek().type == TokenType::kName &&
           std::find(names.begin(), names.end(), Peek().text) != names.end();
  }
  bool SkipOperator(std::string_view op) {
    if (!AtOperator(op)) return false;
    Next();
    return true;
  }
  bool SkipName(std::string_view name) {
    if (!AtName(name)) return false;
    Next();
    return true;
  }

  static std::string Describe(const Token& token) {
    switch (token.type) {
      case TokenType::kBlockBegin:
        return "{%";
      case TokenType::kBlockEnd:
        return "%}";
      case TokenType::kVariableBegin:
        return "{{";
      case TokenType::kVariableEnd:
        return "}}";
      case TokenType::kEnd:
        return "end of template";
      case TokenType::kData:
        return "text";
      default:
        return token.text;
    }
  }

  void ExpectOperator(std::string_view op) {
    if (!SkipOperator(op)) {
      Error("expected '{}', found '{}'", op, Describe(Peek()));
    }
  }
  void ExpectName(std::string_view name) {
    if (!SkipName(name)) {
      Error("expected '{}', found '{}'", name, Describe(Peek()));
    }
  }
  const std::string& ExpectAnyName() {
    if (Peek().type != TokenType::kName) {
      Error("expected a name, found '{}'", Describe(Peek()));
    }
    return Next().text;
  }
  void ExpectType(TokenType type, std::string_view what) {
    if (Peek().type != type) {
      Error("expected '{}', found '{}'", what, Describe(Peek()));
    }
    Next();
  }

  // --- names ---

  void NoteLoad(const std::string& name) {
    const NameId id = program_->Intern(name);
    if (id == kNameLoop) {
      for (Stmt* loop : loops_) loop->uses_loop = true;
    } else if (id <= kNameKwargs) {
      for (OpenMacro& macro : macros_) {
        if (macro.shadowed[id]) continue;
        MacroDefinition& definition = *macro.definition;
        (id == kNameCaller    ? definition.uses_caller
         : id == kNameVarargs ? definition.uses_varargs
                              : definition.uses_kwargs) = true;
      }
    } else if (name == "self") {
      Error("'self' (blocks by name) is not supported");
    }
  }

  void NoteStore(const std::string& name) {
    const NameId id = program_->Intern(name);
    if (id == kNameLoop && !loops_.empty()) {
      Error("'loop' cannot be set inside of a loop");
    }
    if (id <= kNameKwargs) {
      for (OpenMacro& macro : macros_) macro.shadowed[id] = true;
    }
  }

  // --- statements ---

  Body ParseBody(Names end_names) {
    Body body;
    for (;;) {
      const Token& token = Peek();
      switch (token.type) {
        case TokenType::kEnd:
          if (end_names.size() != 0) {
            Error("the template ends, and '{}' is missing",
                  fmt::join(end_names, "' or '"));
          }
          return body;
        case TokenType::kData: {
          Stmt* stmt = program_->NewStmt(StmtType::kData, token.line);
          stmt->data = program_->Keep(token.text);
          body.push_back(stmt);
          Next();
          break;
        }
        case TokenType::kVariableBegin: {
          Next();
          Stmt* stmt = program_->NewStmt(StmtType::kPrint, Peek().line);
          stmt->expr = ParseTuple(true, {});
          ExpectType(TokenType::kVariableEnd, "}}");
          body.push_back(stmt);
          break;
        }
        default:
          Next();  // kBlockBegin
          if (AtAnyName(end_names)) return body;
          ParseStatement(body);
          ExpectType(TokenType::kBlockEnd, "%}");
      }
    }
  }

  // The body of a block tag, up to and with the name of its end tag.
  Body ParseBlockBody(Names end_names) {
    SkipOperator(":");
    ExpectType(TokenType::kBlockEnd, "%}");
    return ParseBody(end_names);
  }
  Body ParseWholeBody(std::string_view end_name) {
    Body body = ParseBlockBody({end_name});
    Next();
    return body;
  }

  void ParseStatement(Body& out) {
    const Deeper deeper(*this);
    if (Peek().type != TokenType::kName) {
      Error("expected the name of a tag, found '{}'", Describe(Peek()));
    }
    const int line = Peek().line;
    const std::string tag = Next().text;
    if (tag == "for") {
      out.push_back(ParseFor(line));
    } else if (tag == "if") {
      out.push_back(ParseIf(line));
    } else if (tag == "set") {
      out.push_back(ParseSet(line));
    } else if (tag == "macro") {
      out.push_back(ParseMacro(line));
    } else if (tag == "call") {
      out.push_back(ParseCallBlock(line));
    } else if (tag == "filter") {
      out.push_back(ParseFilterBlock(line));
    } else if (tag == "with") {
      out.push_back(ParseWith(line));
    } else if (tag == "block") {
      out.push_back(ParseBlock(line));
    } else if (tag == "print") {
      for (bool first = true; Peek().type != TokenType::kBlockEnd;
           first = false) {
        if (!first) ExpectOperator(",");
        Stmt* stmt = program_->NewStmt(StmtType::kPrint, line);
        stmt->expr = ParseExpression(true);
        out.push_back(stmt);
      }
    } else if (tag == "generation") {
      Stmt* stmt = program_->NewStmt(StmtType::kGeneration, line);
      const Override no_break(breakable_, false);
      const Override strict(soft_, false);
      stmt->body = ParseWholeBody("endgeneration");
      out.push_back(stmt);
    } else if (tag == "break" || tag == "continue") {
      if (!breakable_) Error("'{}' outside of a loop", tag);
      out.push_back(program_->NewStmt(
          tag == "break" ? StmtType::kBreak : StmtType::kContinue, line));
    } else if (tag == "include" || tag == "import" || tag == "from" ||
               tag == "extends" || tag == "autoescape") {
      Error("'{}' is not supported: a chat template is one file", tag);
    } else {
      Error("unknown tag '{}'", tag);
    }
  }

  Stmt* ParseFor(int line) {
    Stmt* stmt = program_->NewStmt(StmtType::kFor, line);
    loops_.push_back(stmt);
    stmt->target = ParseTarget(false);
    loops_.pop_back();
    ExpectName("in");
    stmt->expr = ParseTuple(false, {"recursive"});
    if (SkipName("if")) stmt->test = ParseExpression(true);
    stmt->recursive = SkipName("recursive");
    {
      const Override in_loop(breakable_, true);
      const Override strict(soft_, false);
      loops_.push_back(stmt);
      stmt->body = ParseBlockBody({"endfor", "else"});
      loops_.pop_back();
    }
    if (Next().text == "else") {
      const Override strict(soft_, false);
      stmt->otherwise = ParseWholeBody("endfor");
    }
    return stmt;
  }

  Stmt* ParseIf(int line) {
    const Override soft(soft_, true);
    Stmt* stmt = program_->NewStmt(StmtType::kIf, line);
    Stmt* branch = stmt;
    for (;;) {
      branch->expr = ParseTuple(false, {});
      branch->body = ParseBlockBody({"elif", "else", "endif"});
      const Token& end = Next();
      if (end.text == "elif") {
        Stmt* next = program_->NewStmt(StmtType::kIf, end.line);
        branch->otherwise = {next};
        branch = next;
        continue;
      }
      if (end.text == "else") branch->otherwise = ParseWholeBody("endif");
      return stmt;
    }
  }

  Stmt* ParseSet(int line) {
    Stmt* stmt = program_->NewStmt(StmtType::kSet, line);
    stmt->target = ParseTarget(true);
    if (SkipOperator("=")) {
      stmt->expr = ParseTuple(true, {});
      return stmt;
    }
    stmt->type = StmtType::kSetBlock;
    const Override strict(soft_, false);
    if (AtOperator("|")) stmt->expr = ParseFilters(nullptr, false);
    stmt->body = ParseWholeBody("endset");
    return stmt;
  }

  Stmt* ParseMacro(int line) {
    Stmt* stmt = program_->NewStmt(StmtType::kMacro, line);
    stmt->macro = std::make_unique<MacroDefinition>();
    const std::string& name = ExpectAnyName();
    CheckAssignable(name);
    NoteStore(name);
    stmt->macro->name = program_->Keep(name);
    stmt->macro->name_id = program_->Intern(name);
    ParseSignature(*stmt->macro);
    ParseMacroBody(*stmt->macro, line, "endmacro");
    return stmt;
  }

  void ParseSignature(MacroDefinition& macro) {
    const Override strict(soft_, false);
    ExpectOperator("(");
    while (!AtOperator(")")) {
      if (!macro.parameters.empty()) ExpectOperator(",");
      const std::string& name = ExpectAnyName();
      CheckAssignable(name);
      NoteStore(name);
      const NameId id = program_->Intern(name);
      if (std::find(macro.parameters.begin(), macro.parameters.end(), id) !=
          macro.parameters.end()) {
        Error("parameter '{}' is there twice", name);
      }
      macro.parameters.push_back(id);
      macro.parameter_names.push_back(&program_->Name(id));
      macro.has_caller_parameter |= id == kNameCaller;
      if (SkipOperator("=")) {
        macro.defaults.push_back(ParseExpression(true));
      } else if (!macro.defaults.empty()) {
        Error("parameter '{}' needs a default, as the one before has", name);
      }
    }
    Next();
  }

  void ParseMacroBody(MacroDefinition& macro, int line, std::string_view end) {
    macro.line = line;
    const Override no_break(breakable_, false);
    const Override strict(soft_, false);
    macros_.push_back({&macro});
    macro.body = ParseWholeBody(end);
    macros_.pop_back();
    // A special name that is a parameter is an ordinary one.
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const NameId id = macro.parameters[i];
      if (id == kNameVarargs) macro.uses_varargs = false;
      if (id == kNameKwargs) macro.uses_kwargs = false;
      if (id == kNameCaller && macro.uses_caller) {
        if (i + macro.defaults.size() < macro.parameters.size()) {
          Error("the parameter 'caller' needs a default");
        }
        macro.uses_caller = false;
      }
    }
  }

  Stmt* ParseCallBlock(int line) {
    Stmt* stmt = program_->NewStmt(StmtType::kCall, line);
    stmt->macro = std::make_unique<MacroDefinition>();
    if (AtOperator("(")) ParseSignature(*stmt->macro);
    stmt->expr = ParseExpression(true);
    if (stmt->expr->type != ExprType::kCall) {
      Error("a call block needs a call, as in {{% call f() %}}");
    }
    ParseMacroBody(*stmt->macro, line, "endcall");
    return stmt;
  }

  Stmt* ParseFilterBlock(int line) {
    Stmt* stmt = program_->NewStmt(StmtType::kFilterBlock, line);
    const Override strict(soft_, false);
    stmt->expr = ParseFilters(nullptr, true);
    stmt->body = ParseWholeBody("endfilter");
    return stmt;
  }

  Stmt* ParseWith(int line) {
    Stmt* stmt = program_->NewStmt(StmtType::kWith, line);
    while (Peek().type != TokenType::kBlockEnd) {
      if (!stmt->bindings.empty()) ExpectOperator(",");
      const Expr* target = ParseTarget(false);
      ExpectOperator("=");
      stmt->bindings.emplace_back(target, ParseExpression(true));
    }
    const Override strict(soft_, false);
    stmt->body = ParseWholeBody("endwith");
    return stmt;
  }

  Stmt* ParseBlock(int line) {
    Stmt* stmt = program_->NewStmt(StmtType::kScope, line);
    const std::string name = ExpectAnyName();
    if (!block_names_.insert(name).second) {
      Error("block '{}' is defined twice", name);
    }
    stmt->at_root = !SkipName("scoped");
    if (SkipName("required")) Error("a required block is never filled here");
    const Override no_break(breakable_, false);
    const Override strict(soft_, false);
    stmt->body = ParseWholeBody("endblock");
    SkipName(name);
    return stmt;
  }

  // --- targets ---

  void CheckAssignable(const std::string& name) {
    for (const char* constant :
         {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) Error("cannot assign to '{}'", name);
    }
  }

  const Expr* ParseTarget(bool with_namespace) {
    const Deeper deeper(*this);
    const int line = Peek().line;
    std::vector<const Expr*> items;
    bool is_tuple = false;
    for (;;) {
      if (Peek().type == TokenType::kBlockEnd || AtOperator(")") ||
          AtName("in")) {
        break;
      }
      items.push_back(ParseTargetItem(with_namespace));
      if (!SkipOperator(",")) break;
      is_tuple = true;
    }
    if (items.empty()) {
      Error("expected a name to assign to, found '{}'", Describe(Peek()));
    }
    if (!is_tuple) return items[0];
    Expr* tuple = program_->NewExpr(ExprType::kTuple, line);
    tuple->operands = std::move(items);
    return tuple;
  }

  const Expr* ParseTargetItem(bool with_namespace) {
    const int line = Peek().line;
    if (SkipOperator("(")) {
      const Expr* target = ParseTarget(false);
      ExpectOperator(")");
      return target;
    }
    if (Peek().type != TokenType::kName) {
      Error("cannot assign to '{}'", Describe(Peek()));
    }
    const std::string& name = Next().text;
    CheckAssignable(name);
    if (with_namespace && SkipOperator(".")) {
      NoteLoad(name);
      Expr* ref = program_->NewExpr(ExprType::kNamespaceRef, line);
      ref->name = program_->Intern(name);
      ref->text = program_->Keep(ExpectAnyName());
      return ref;
    }
    NoteStore(name);
    Expr* target = program_->NewExpr(ExprType::kName, line);
    target->name = program_->Intern(name);
    return target;
  }

  // --- expressions, loosest first ---

  Expr* Binary(ExprType type, int line, const Expr* left, const Expr* right) {
    Expr* expr = program_->NewExpr(type, line);
    expr->operands = {left, right};
    return expr;
  }

  const Expr* ParseTuple(bool with_conditional, Names end_names,
                         bool in_parentheses = false) {
    const int line = Peek().line;
    std::vector<const Expr*> items;
    bool is_tuple = false;
    for (;;) {
      if (Peek().type == TokenType::kVariableEnd ||
          Peek().type == TokenType::kBlockEnd || AtOperator(")") ||
          AtAnyName(end_names)) {
        break;
      }
      items.push_back(ParseExpression(with_conditional));
      if (!SkipOperator(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return items[0];
    if (!is_tuple && !in_parentheses) {
      Error("expected an expression, found '{}'", Describe(Peek()));
    }
    Expr* tuple = program_->NewExpr(ExprType::kTuple, line);
    tuple->operands = std::move(items);
    return tuple;
  }

  const Expr* ParseExpression(bool with_conditional) {
    const Deeper deeper(*this);
    const int line = Peek().line;
    ++expression_depth_;
    const Expr* expr = with_conditional ? ParseConditional() : ParseOr();
    --expression_depth_;
    if (expression_depth_ == 0 && !unknown_.empty()) {
      throw SyntaxFailure(line, unknown_[0]);
    }
    return expr;
  }

  const Expr* ParseConditional() {
    const int line = Peek().line;
    // Whether this is a conditional shows only behind its first part.
    const size_t unknown_before = unknown_.size();
    const Expr* expr = ParseOr();
    while (SkipName("if")) {
      unknown_.resize(unknown_before);
      const Override soft(soft_, true);
      const Expr* test = ParseOr();
      const Expr* otherwise = nullptr;
      if (SkipName("else")) {
        const Deeper deeper(*this);
        otherwise = ParseConditional();
      }
      Expr* conditional = program_->NewExpr(ExprType::kConditional, line);
      conditional->operands = {test, expr, otherwise};
      expr = conditional;
    }
    return expr;
  }

  const Expr* ParseOr() {
    const int line = Peek().line;
    const Expr* left = ParseAnd();
    while (SkipName("or")) {
      left = Binary(ExprType::kOr, line, left, ParseAnd());
    }
    return left;
  }

  const Expr* ParseAnd() {
    const int line = Peek().line;
    const Expr* left = ParseNot();
    while (SkipName("and")) {
      left = Binary(ExprType::kAnd, line, left, ParseNot());
    }
    return left;
  }

  const Expr* ParseNot() {
    const int line = Peek().line;
    if (!SkipName("not")) return ParseCompare();
    const Deeper deeper(*this);
    Expr* expr = program_->NewExpr(ExprType::kNot, line);
    expr->operands = {ParseNot()};
    return expr;
  }

  bool SkipComparison(Comparison& comparison) {
    static constexpr std::pair<std::string_view, Comparison> kOperators[] = {
        {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
        {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
        {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual},
    };
    for (const auto& [op, value] : kOperators) {
      if (!SkipOperator(op)) continue;
      comparison = value;
      return true;
    }
    if (SkipName("in")) {
      comparison = Comparison::kIn;
      return true;
    }
    if (AtName("not") && Peek(1).IsName("in")) {
      Next();
      Next();
      comparison = Comparison::kNotIn;
      return true;
    }
    return false;
  }

  const Expr* ParseCompare() {
    const int line = Peek().line;
    const Expr* first = ParseSum();
    Comparison comparison;
    if (!SkipComparison(comparison)) return first;
    Expr* expr = program_->NewExpr(ExprType::kCompare, line);
    expr->operands.push_back(first);
    do {
      expr->comparisons.push_back(comparison);
      expr->operands.push_back(ParseSum());
    } while (SkipComparison(comparison));
    return expr;
  }

  const Expr* ParseSum() {
    const int line = Peek().line;
    const Expr* left = ParseConcat();
    for (;;) {
      if (SkipOperator("+")) {
        left = Binary(ExprType::kAdd, line, left, ParseConcat());
      } else if (SkipOperator("-")) {
        left = Binary(ExprType::kSubtract, line, left, ParseConcat());
      } else {
        return left;
      }
    }
  }

  const Expr* ParseConcat() {
    const int line = Peek().line;
    const Expr* first = ParseProduct();
    if (!AtOperator("~")) return first;
    Expr* expr = program_->NewExpr(ExprType::kConcat, line);
    expr->operands.push_back(first);
    while (SkipOperator("~")) expr->operands.push_back(ParseProduct());
    return expr;
  }

  const Expr* ParseProduct() {
    const int line = Peek().line;
    const Expr* left = ParsePower();
    for (;;) {
      if (SkipOperator("*")) {
        left = Binary(ExprType::kMultiply, line, left, ParsePower());
      } else if (SkipOperator("/")) {
        left = Binary(ExprType::kDivide, line, left, ParsePower());
      } else if (SkipOperator("//")) {
        left = Binary(ExprType::kFloorDivide, line, left, ParsePower());
      } else if (SkipOperator("%")) {
        left = Binary(ExprType::kModulo, line, left, ParsePower());
      } else {
        return left;
      }
    }
  }

  const Expr* ParsePower() {
    const int line = Peek().line;
    const Expr* left = ParseUnary(true);
    while (SkipOperator("**")) {
      left = Binary(ExprType::kPower, line, left, ParseUnary(true));
    }
    return left;
  }

  const Expr* ParseUnary(bool with_filter) {
    const int line = Peek().line;
    const Expr* expr = nullptr;
    if (AtOperator("-") || AtOperator("+")) {
      const Deeper deeper(*this);
      const bool negate = Next().text == "-";
      Expr* unary =
          program_->NewExpr(negate ? ExprType::kNegate : ExprType::kPlus, line);
      unary->operands = {ParseUnary(false)};
      expr = unary;
    } else {
      expr = ParsePrimary();
    }
    expr = ParsePostfix(expr);
    return with_filter ? ParseFilterExpression(expr) : expr;
  }

  Expr* Constant(Value value, int line) {
    Expr* expr = program_->NewExpr(ExprType::kConstant, line);
    expr->constant = std::move(value);
    return expr;
  }

  const Expr* ParsePrimary() {
    const Token& token = Peek();
    const int line = token.line;
    switch (token.type) {
      case TokenType::kName: {
        Next();
        if (token.text == "true" || token.text == "True") {
          return Constant(Value::Bool(true), line);
        }
        if (token.text == "false" || token.text == "False") {
          return Constant(Value::Bool(false), line);
        }
        if (token.text == "none" || token.text == "None") {
          return Constant(Value::None(), line);
        }
        NoteLoad(token.text);
        Expr* expr = program_->NewExpr(ExprType::kName, line);
        expr->name = program_->Intern(token.text);
        return expr;
      }
      case TokenType::kString: {
        std::string text;
        while (Peek().type == TokenType::kString) text += Next().text;
        return Constant(Value::Borrow(program_->Keep(std::move(text))), line);
      }
      case TokenType::kInteger:
        return Constant(Value::Int(Next().integer), line);
      case TokenType::kFloat:
        return Constant(Value::Float(Next().real), line);
      default:
        break;
    }
    if (SkipOperator("(")) {
      const Deeper deeper(*this);
      const Expr* expr = ParseTuple(true, {}, true);
      ExpectOperator(")");
      return expr;
    }
    if (SkipOperator("[")) return ParseElements(ExprType::kList, "]", line);
    if (SkipOperator("{")) return ParseElements(ExprType::kDict, "}", line);
    Error("unexpected '{}'", Describe(token));
  }

  const Expr* ParseElements(ExprType type, std::string_view close, int line) {
    Expr* expr = program_->NewExpr(type, line);
    while (!SkipOperator(close)) {
      if (!expr->operands.empty()) {
        ExpectOperator(",");
        if (SkipOperator(close)) break;
      }
      expr->operands.push_back(ParseExpression(true));
      if (type == ExprType::kDict) {
        ExpectOperator(":");
        expr->operands.push_back(ParseExpression(true));
      }
    }
    return expr;
  }

  const Expr* ParsePostfix(const Expr* expr) {
    for (;;) {
      if (AtOperator(".")) {
        expr = ParseAttribute(expr);
      } else if (AtOperator("[")) {
        expr = ParseSubscript(expr);
      } else if (AtOperator("(")) {
        expr = ParseCall(expr);
      } else {
        return expr;
      }
    }
  }

  const Expr* ParseFilterExpression(const Expr* expr) {
    for (;;) {
      if (AtOperator("|")) {
        expr = ParseFilters(expr, false);
      } else if (AtName("is")) {
        expr = ParseTest(expr);
      } else if (AtOperator("(")) {
        expr = ParseCall(expr);
      } else {
        return expr;
      }
    }
  }

  const Expr* ParseAttribute(const Expr* object) {
    const int line = Next().line;
    const Token& token = Next();
    if (token.type == TokenType::kName) {
      Expr* expr = program_->NewExpr(ExprType::kAttribute, line);
      expr->text = program_->Keep(token.text);
      expr->operands = {object};
      return expr;
    }
    if (token.type != TokenType::kInteger) {
      Error("expected a name or a number after '.'");
    }
    return Binary(ExprType::kItem, line, object,
                  Constant(Value::Int(token.integer), line));
  }

  const Expr* ParseSubscript(const Expr* object) {
    const int line = Next().line;
    const Expr* start = nullptr;
    if (!AtOperator(":")) start = ParseTupleInBrackets();
    if (!AtOperator(":")) {
      ExpectOperator("]");
      return Binary(ExprType::kItem, line, object, start);
    }
    Expr* slice = program_->NewExpr(ExprType::kSlice, line);
    slice->operands = {object, start, nullptr, nullptr};
    for (size_t part = 2; part < 4 && SkipOperator(":"); ++part) {
      if (!AtOperator(":") && !AtOperator("]")) {
        slice->operands[part] = ParseExpression(true);
      }
    }
    ExpectOperator("]");
    return slice;
  }

  // a[1, 2] has a tuple as its key.
  const Expr* ParseTupleInBrackets() {
    const int line = Peek().line;
    std::vector<const Expr*> items;
    if (!AtOperator("]")) items.push_back(ParseExpression(true));
    if (items.size() == 1 && !AtOperator(",")) return items[0];
    while (SkipOperator(",")) items.push_back(ParseExpression(true));
    Expr* tuple = program_->NewExpr(ExprType::kTuple, line);
    tuple->operands = std::move(items);
    return tuple;
  }

  const Expr* ParseCall(const Expr* callee) {
    Expr* expr = program_->NewExpr(ExprType::kCall, Peek().line);
    expr->operands = {callee};
    ParseArguments(expr->arguments);
    return expr;
  }

  void ParseArguments(CallArguments& arguments) {
    const Deeper deeper(*this);
    ExpectOperator("(");
    bool first = true;
    while (!SkipOperator(")")) {
      if (!first) {
        ExpectOperator(",");
        if (SkipOperator(")")) break;
      }
      first = false;
      if (SkipOperator("*")) {
        if (arguments.star || arguments.star_star) ErrorOrder();
        arguments.star = ParseExpression(true);
      } else if (SkipOperator("**")) {
        if (arguments.star_star) ErrorOrder();
        arguments.star_star = ParseExpression(true);
      } else if (Peek().type == TokenType::kName && Peek(1).IsOperator("=")) {
        if (arguments.star_star) ErrorOrder();
        const std::string& name = Next().text;
        for (const auto& [other, value] : arguments.named) {
          if (*other == name) Error("argument '{}' is given twice", name);
        }
        Next();
        arguments.named.emplace_back(program_->Keep(name),
                                     ParseExpression(true));
      } else {
        if (arguments.star || arguments.star_star || !arguments.named.empty()) {
          ErrorOrder();
        }
        arguments.positional.push_back(ParseExpression(true));
      }
    }
  }

  [[noreturn]] void ErrorOrder() {
    Error("the arguments of a call stand in the wrong order");
  }

  std::string ParseDottedName() {
    std::string name = ExpectAnyName();
    while (SkipOperator(".")) name += "." + ExpectAnyName();
    return name;
  }

  const Expr* ParseFilters(const Expr* expr, bool first_is_bare) {
    while (first_is_bare || SkipOperator("|")) {
      first_is_bare = false;
      Expr* filter = program_->NewExpr(ExprType::kFilter, Peek().line);
      filter->text = program_->Keep(ParseDottedName());
      filter->filter = FindFilter(*filter->text);
      if (filter->filter == nullptr) NoteUnknown("filter", *filter->text);
      filter->operands = {expr};
      if (AtOperator("(")) ParseArguments(filter->arguments);
      expr = filter;
    }
    return expr;
  }

  const Expr* ParseTest(const Expr* value) {
    const int line = Next().line;
    const bool negated = SkipName("not");
    Expr* test = program_->NewExpr(ExprType::kTest, line);
    test->text = program_->Keep(ParseDottedName());
    test->test = FindTest(*test->text);
    if (test->test == nullptr) NoteUnknown("test", *test->text);
    test->operands = {value};
    if (AtOperator("(")) {
      ParseArguments(test->arguments);
    } else if (AtTestArgument()) {
      if (AtName("is")) Error("tests with 'is' cannot be chained");
      const Deeper deeper(*this);
      test->arguments.positional = {ParsePostfix(ParsePrimary())};
    }
    if (!negated) return test;
    Expr* expr = program_->NewExpr(ExprType::kNot, line);
    expr->operands = {test};
    return expr;
  }

  bool AtTestArgument() const {
    switch (Peek().type) {
      case TokenType::kName:
        return !AtAnyName({"else", "or", "and"});
      case TokenType::kString:
      case TokenType::kInteger:
      case TokenType::kFloat:
        return true;
      default:
        return AtOperator("[") || AtOperator("{");
    }
  }

  // A filter or test that does not exist is an error at once, but inside of an
  // `if` or a conditional only when it is reached, as in jinja2.
  void NoteUnknown(const char* what, const std::string& name) {
    if (soft_) return;
    if (expression_depth_ == 0) Error("no {} named '{}'", what, name);
    unknown_.push_back(fmt::format("no {} named '{}'", what, name));
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int depth_ = 0;
  std::unique_ptr<Program> program_;
  std::vector<Stmt*> loops_;
  std::vector<OpenMacro> macros_;
  std::set<std::string> block_names_;
  std::vector<std::string> unknown_;  // of the expression being parsed
  int expression_depth_ = 0;
  bool breakable_ = false;  // a loop is around, in the same function
  bool soft_ = false;       // inside of an `if` or a conditional
};

}  // namespace

std::unique_ptr<const Program> ParseProgram(std::string_view source) {
  return Parser(source).Run();
}

}  // namespace rbln::jinja
