#include "text/pretokenizer.h"

#include <algorithm>
#include <optional>

#include "text/normalizer.h"
#include "text/tokenizer_unicode.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

// What GPT-2 takes for a word.
// https://github.com/openai/gpt-2/blob/master/src/encoder.py
constexpr std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

void ReplaceAll(std::string_view text, char from, std::string_view to,
                std::string* out) {
  for (const char c : text) {
    if (c == from) {
      *out += to;
    } else {
      out->push_back(c);
    }
  }
}

}  // namespace

// Takes the stretches of a text, matches and what lies between them, and emits
// the pieces that a behavior makes of them.
class PreTokenizer::Splitter {
 public:
  Splitter(Behavior behavior, Run* run, size_t next_step, std::string_view text,
           bool at_start)
      : behavior_(behavior),
        run_(run),
        next_step_(next_step),
        text_(text),
        at_start_(at_start) {}

  void Add(TextRange range, bool is_match) {
    switch (behavior_) {
      case Behavior::kIsolated:
        return Emit(range);
      case Behavior::kRemoved:
        if (!is_match) Emit(range);
        return;
      case Behavior::kContiguous:
        return Join(range, is_match == last_, is_match);
      case Behavior::kMergedWithPrevious:
        return Join(range, is_match && !last_, is_match);
      case Behavior::kMergedWithNext:
        return Join(range, last_ && !is_match, is_match);
    }
  }

  void Finish() {
    if (held_) Emit(*held_);
  }

 private:
  // Makes `range` part of the piece that is held back, or starts another.
  void Join(TextRange range, bool same_piece, bool is_match) {
    if (held_ && same_piece) {
      held_->end = range.end;
    } else {
      if (held_) Emit(*held_);
      held_ = range;
    }
    last_ = is_match;
  }

  void Emit(TextRange range) {
    if (range.empty()) return;
    run_->RunStep(next_step_,
                  text_.substr(range.begin, range.end - range.begin),
                  at_start_ && range.begin == 0);
  }

  Behavior behavior_;
  Run* run_;
  size_t next_step_;
  std::string_view text_;
  bool at_start_;
  std::optional<TextRange> held_;
  bool last_ = false;
};

PreTokenizer::PreTokenizer(const Json& value, bool start_moves,
                           const FileContext& file) {
  Add(JsonFields(value, "pre_tokenizer", file), start_moves);
}

void PreTokenizer::AddSplit(Regex pattern, Behavior behavior, bool invert) {
  Step step{};
  step.kind = Step::kSplit;
  step.pattern = std::move(pattern);
  step.behavior = behavior;
  step.invert = invert;
  steps_.push_back(std::move(step));
}

void PreTokenizer::AddPrefix(std::string prefix) {
  Step step{};
  step.kind = Step::kPrefix;
  step.prefix = std::move(prefix);
  steps_.push_back(std::move(step));
}

PreTokenizer::Behavior PreTokenizer::ReadBehavior(const JsonFields& fields,
                                                  const std::string& name) {
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Contiguous") return Behavior::kContiguous;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  fields.Fail(fmt::format("the behavior '{}' is not supported", name));
}

void PreTokenizer::Add(const JsonFields& fields, bool start_moves) {
  const ErrorKind kind = fields.file().kind;
  const std::string where = fields.file().path + ": " + fields.path();
  const std::string type = fields.String("type");
  if (type == "Sequence") {
    const Json& list = fields.Array("pretokenizers");
    for (size_t i = 0; i < list.size(); ++i) {
      Add(JsonFields(list[i],
                     fmt::format("{}.pretokenizers[{}]", fields.path(), i),
                     fields.file()),
          start_moves);
    }
  } else if (type == "ByteLevel") {
    if (fields.Bool("add_prefix_space")) AddPrefix(" ");
    if (fields.Bool("use_regex", true)) {
      AddSplit(Regex(kGpt2Pattern, where, kind), Behavior::kIsolated, false);
    }
    Step step{};
    step.kind = Step::kByteLevel;
    steps_.push_back(std::move(step));
  } else if (type == "Split") {
    TextPattern pattern = TextPattern::Read(fields);
    AddSplit(pattern.regex ? *std::move(pattern.regex)
                           : Regex::Literal(pattern.literal, where, kind),
             ReadBehavior(fields, fields.String("behavior")),
             fields.Bool("invert"));
  } else if (type == "Digits") {
    AddSplit(Regex::Pcre2(fmt::format("[\\p{{N}}{}]", kNumericAdditions), where,
                          kind),
             fields.Bool("individual_digits") ? Behavior::kIsolated
                                              : Behavior::kContiguous,
             false);
  } else if (type == "Metaspace") {
    std::string mark = fields.String("replacement");
    size_t length = 0;
    if (!mark.empty()) NextChar(mark, &length);
    if (mark.empty() || length != mark.size()) {
      fields.Fail("replacement must be one character");
    }
    std::string scheme = fields.String("prepend_scheme", "always");
    // The older way to say "never".
    if (!fields.Bool("add_prefix_space", true)) {
      if (scheme != "never") {
        fields.Fail(
            "add_prefix_space is false, but prepend_scheme is not "
            "'never'");
      }
    }
    const bool first = scheme == "first";
    if (!first && scheme != "always" && scheme != "never") {
      fields.Fail(
          fmt::format("the prepend_scheme '{}' is not supported", scheme));
    }
    const bool text_changed =
        start_moves ||
        std::any_of(steps_.begin(), steps_.end(),
                    [](const Step& step) { return step.kind != Step::kSplit; });
    if (first && text_changed) {
      fields.Fail(
          "prepend_scheme 'first' is not supported behind a step that "
          "changes the text");
    }
    AddPrefix(mark);
    steps_.back().where = first                ? Step::kFirst
                          : scheme == "always" ? Step::kAlways
                                               : Step::kNever;
    if (fields.Bool("split", true)) {
      AddSplit(Regex::Literal(mark, where, kind), Behavior::kMergedWithNext,
               false);
    }
  } else if (type == "Whitespace") {
    // Words of Rust's regex crate, which has the joiners among them.
    const std::string word = fmt::format(
        "\\p{{Alphabetic}}\\p{{M}}\\p{{Nd}}\\p{{Pc}}\\x{{200C}}"
        "\\x{{200D}}{}",
        kWordAdditions);
    AddSplit(Regex::Pcre2(fmt::format("[{0}]+|[^{0}\\p{{White_Space}}]+", word),
                          where, kind),
             Behavior::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    AddSplit(Regex("\\s", where, kind), Behavior::kRemoved, false);
  } else if (type == "Punctuation") {
    AddSplit(
        Regex::Pcre2(fmt::format("(?![{}])[\\p{{P}}$+<=>^`|~{}]",
                                 kPunctuationExceptions, kPunctuationAdditions),
                     where, kind),
        ReadBehavior(fields, fields.String("behavior", "Isolated")), false);
  } else {
    fields.Fail(fmt::format(
        "the pre-tokenizer '{}' is not supported; supported are Sequence, "
        "ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit and "
        "Punctuation",
        type));
  }
}

PreTokenizer::Run::Run(const PreTokenizer& pre_tokenizer, const Sink& sink)
    : pre_tokenizer_(pre_tokenizer),
      sink_(sink),
      buffers_(pre_tokenizer.steps_.size()) {
  for (const Step& step : pre_tokenizer.steps_) {
    matches_.push_back(step.kind == Step::kSplit
                           ? std::make_unique<Regex::Matches>(*step.pattern)
                           : nullptr);
  }
}

void PreTokenizer::Run::Split(std::string_view text, bool at_start) {
  if (!text.empty()) RunStep(0, text, at_start);
}

void PreTokenizer::Run::RunStep(size_t index, std::string_view piece,
                                bool at_start) {
  if (index == pre_tokenizer_.steps_.size()) return sink_(piece);
  const Step& step = pre_tokenizer_.steps_[index];
  std::string& buffer = buffers_[index];
  switch (step.kind) {
    case Step::kByteLevel:
      buffer.clear();
      AppendByteLevel(piece, &buffer);
      return RunStep(index + 1, buffer, at_start);
    case Step::kPrefix: {
      // A space or its mark first in the text makes the prefix superfluous.
      const bool has_prefix =
          piece.starts_with(step.prefix) || piece.front() == ' ';
      buffer.clear();
      if (!has_prefix && (step.where == Step::kAlways ||
                          (step.where == Step::kFirst && at_start))) {
        buffer = step.prefix;
      }
      ReplaceAll(piece, ' ', step.prefix, &buffer);
      return RunStep(index + 1, buffer, at_start);
    }
    case Step::kSplit:
      break;
  }
  Splitter splitter(step.behavior, this, index + 1, piece, at_start);
  Regex::Matches& matches = *matches_[index];
  matches.Start(piece);
  size_t end = 0;
  while (const auto match = matches.Next()) {
    if (end != match->begin) splitter.Add({end, match->begin}, step.invert);
    splitter.Add(*match, !step.invert);
    end = match->end;
  }
  if (end != piece.size()) splitter.Add({end, piece.size()}, step.invert);
  splitter.Finish();
}

}  // namespace rbln
