#include "guide/guide_spec.h"

#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "guide/emit.h"
#include "guide/grammar.h"
#include "guide/regex.h"
#include "guide/schema.h"

namespace rbln {
namespace {

void AddChoice(GrammarBuilder& builder, const std::string& text) {
  const Json list = ParseJson(text, builder.where(), ErrorKind::kUsage);
  if (!list.is_array() || list.empty()) {
    throw UsageError("{} must be a list of at least one string",
                     builder.where());
  }
  std::vector<std::string> choices;
  for (const Json& one : list) {
    if (!one.is_string()) {
      throw UsageError("{} must be a list of strings", builder.where());
    }
    choices.push_back(one.get<std::string>());
  }
  const int rule = builder.AddRule("the choice");
  const int end = builder.AddState();
  builder.SetEnd(end);
  builder.AddLiterals(builder.start(rule), std::move(choices), end);
}

void AddRegex(GrammarBuilder& builder, const std::string& text) {
  const CharDfa dfa = RegexDfa(text, RegexUse::kWhole, builder.where());
  const int rule = builder.AddRule("the pattern");
  const int end = builder.AddState();
  builder.SetEnd(end);
  EmitDfa(builder, dfa, TextForm::kPlain, builder.start(rule), end);
}

}  // namespace

std::unique_ptr<const Grammar> CompileGuide(const GuideSpec& spec) {
  GrammarBuilder builder(spec.name);
  switch (spec.kind) {
    case GuideSpec::Kind::kSchema:
      AddSchema(builder,
                ParseOrderedJson(spec.text, spec.name, ErrorKind::kUsage));
      break;
    case GuideSpec::Kind::kRegex:
      AddRegex(builder, spec.text);
      break;
    case GuideSpec::Kind::kChoice:
      AddChoice(builder, spec.text);
      break;
  }
  return builder.Finish();
}

}  // namespace rbln
