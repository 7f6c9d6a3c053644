#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/tokenizer_unicode.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

constexpr int kNfd = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
constexpr int kNfkd = kNfd | UTF8PROC_COMPAT;
constexpr int kNfc = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
constexpr int kNfkc = kNfc | UTF8PROC_COMPAT;

template <size_t kCount>
bool IsIn(char32_t c, const CharRange (&ranges)[kCount]) {
  const CharRange* found = std::partition_point(
      ranges, ranges + kCount, [c](const CharRange& r) { return r.last < c; });
  return found != ranges + kCount && found->first <= c;
}

// Characters below it are the same in every form that `form` may be.
char32_t FirstChanging(int form) { return form == kNfc ? 0x300 : 0x80; }

// Whether `text` has only characters that no form changes.
bool IsInForm(std::string_view text, int form) {
  const char32_t first_changing = FirstChanging(form);
  for (size_t at = 0; at < text.size();) {
    if (NextChar(text, &at) >= first_changing) return false;
  }
  return true;
}

// Normalizes text without any of kNotNormalized.
void AppendKnownUnicodeForm(std::string_view text, int form, std::string* out) {
  // As utf8proc_map, but for the ordering of combining marks, which there takes
  // quadratic time.
  std::vector<utf8proc_int32_t> chars;
  chars.reserve(text.size());
  const int decompose = (form & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE;
  int boundary = UTF8PROC_BOUNDCLASS_START;
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<utf8proc_int32_t>(NextChar(text, &at));
    utf8proc_int32_t parts[32];  // the longest decomposition has 18
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        c, parts, 32, static_cast<utf8proc_option_t>(decompose), &boundary);
    chars.insert(chars.end(), parts,
                 parts + std::clamp<utf8proc_ssize_t>(count, 0, 32));
  }
  const auto combining_class = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  for (auto at = chars.begin(); at != chars.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, chars.end(), [&](utf8proc_int32_t c) {
      return combining_class(c) == 0;
    });
    std::stable_sort(at, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    at = end;
  }
  auto length = static_cast<utf8proc_ssize_t>(chars.size());
  if ((form & UTF8PROC_COMPOSE) != 0) {
    length = utf8proc_normalize_utf32(chars.data(), length,
                                      static_cast<utf8proc_option_t>(form));
  }
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    AppendUtf8(static_cast<char32_t>(chars[i]), out);
  }
}

void AppendUnicodeForm(std::string_view text, int form, std::string* out) {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!IsIn(NextChar(text, &at), kNotNormalized)) continue;
    AppendKnownUnicodeForm(text.substr(done, begin - done), form, out);
    *out += text.substr(begin, at - begin);
    done = at;
  }
  AppendKnownUnicodeForm(text.substr(done), form, out);
}

char32_t Lowercase(char32_t c) {
  for (const LowercaseRange& range : kLowercaseAdditions) {
    if (c >= range.first && c <= range.last) {
      return c - range.first + range.lower_first;
    }
  }
  return static_cast<char32_t>(
      utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void AppendLowercase(std::string_view text, std::string* out) {
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextChar(text, &at);
    if (c == 0x130) {
      // The one character whose lower case is two.
      *out += "i\xCC\x87";
    } else {
      AppendUtf8(Lowercase(c), out);
    }
  }
}

bool IsMark(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool is_mark = category == UTF8PROC_CATEGORY_MN ||
                       category == UTF8PROC_CATEGORY_MC ||
                       category == UTF8PROC_CATEGORY_ME;
  return is_mark != IsIn(c, kMarkExceptions);
}

std::string_view Strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    size_t at = 0;
    if (!IsWhiteSpace(NextChar(text, &at))) break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    size_t at = text.size();
    if (!IsWhiteSpace(PreviousChar(text, &at))) break;
    text = text.substr(0, at);
  }
  return text;
}

}  // namespace

TextPattern TextPattern::Read(const JsonFields& fields) {
  const JsonFields pattern = fields.Object("pattern");
  TextPattern result;
  if (pattern.Find("Regex") != nullptr) {
    result.regex.emplace(pattern.String("Regex"),
                         fields.file().path + ": " + pattern.path(),
                         fields.file().kind);
    return result;
  }
  result.literal = pattern.String("String");
  if (result.literal.empty()) pattern.Fail("an empty String is not supported");
  return result;
}

void TextPattern::AppendReplaced(std::string_view text,
                                 std::string_view content,
                                 std::string* out) const {
  size_t copied = 0;
  if (!regex) {
    for (size_t at; (at = text.find(literal, copied)) != text.npos;) {
      *out += text.substr(copied, at - copied);
      *out += content;
      copied = at + literal.size();
    }
  } else {
    Regex::Matches matches(*regex);
    matches.Start(text);
    while (const auto match = matches.Next()) {
      *out += text.substr(copied, match->begin - copied);
      *out += content;
      copied = match->end;
    }
  }
  *out += text.substr(copied);
}

Normalizer::Normalizer(const Json& value, const FileContext& file) {
  Add(JsonFields(value, "normalizer", file));
}

void Normalizer::Add(const JsonFields& fields) {
  const std::string type = fields.String("type");
  Step step{};
  if (type == "Sequence") {
    const Json& list = fields.Array("normalizers");
    for (size_t i = 0; i < list.size(); ++i) {
      Add(JsonFields(list[i],
                     fmt::format("{}.normalizers[{}]", fields.path(), i),
                     fields.file()));
    }
    return;
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" ||
             type == "NFKD") {
    step.kind = Kind::kUnicodeForm;
    step.form = type == "NFC"    ? kNfc
                : type == "NFD"  ? kNfd
                : type == "NFKC" ? kNfkc
                                 : kNfkd;
  } else if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    step.content = fields.String("prepend");
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    step.content = fields.String("content");
    step.pattern = TextPattern::Read(fields);
  } else if (type == "Lowercase") {
    step.kind = Kind::kLowercase;
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    step.left = fields.Bool("strip_left");
    step.right = fields.Bool("strip_right");
  } else if (type == "StripAccents") {
    step.kind = Kind::kStripAccents;
  } else if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
  } else {
    fields.Fail(fmt::format(
        "the normalizer '{}' is not supported; supported are Sequence, NFC, "
        "NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip, StripAccents and "
        "ByteLevel",
        type));
  }
  steps_.push_back(std::move(step));
}

bool Normalizer::MovesStart() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.kind != Kind::kUnicodeForm && step.kind != Kind::kLowercase;
  });
}

std::string_view Normalizer::Apply(std::string_view text,
                                   std::string* buffer) const {
  std::string next;
  for (const Step& step : steps_) {
    // Empty text stays empty: nothing is put before it.
    if (text.empty()) return text;
    if (step.kind == Kind::kStrip) {
      text = Strip(text, step.left, step.right);
      continue;
    }
    if (step.kind == Kind::kUnicodeForm && IsInForm(text, step.form)) continue;
    next.clear();
    Run(step, text, &next);
    std::swap(*buffer, next);
    text = *buffer;
  }
  return text;
}

void Normalizer::Run(const Step& step, std::string_view text,
                     std::string* out) {
  switch (step.kind) {
    case Kind::kUnicodeForm:
      AppendUnicodeForm(text, step.form, out);
      break;
    case Kind::kPrepend:
      *out += step.content;
      *out += text;
      break;
    case Kind::kReplace:
      step.pattern.AppendReplaced(text, step.content, out);
      break;
    case Kind::kLowercase:
      AppendLowercase(text, out);
      break;
    case Kind::kStrip:
      break;  // A view will do; see Apply.
    case Kind::kStripAccents:
      for (size_t at = 0; at < text.size();) {
        const char32_t c = NextChar(text, &at);
        if (!IsMark(c)) AppendUtf8(c, out);
      }
      break;
    case Kind::kByteLevel:
      AppendByteLevel(text, out);
      break;
  }
}

}  // namespace rbln
