#include "text/tokenizer_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

// A token as it may stand in a message, whatever its length.
std::string Quote(std::string_view token) {
  if (token.size() <= 64) return fmt::format("'{}'", token);
  size_t end = 64;
  while ((static_cast<unsigned char>(token[end]) & 0xC0) == 0x80) --end;
  return fmt::format("'{}...'", token.substr(0, end));
}

// Walks through the text once. Only as strict as it has to be for the members
// that it reads itself: the rest is parsed again, and fully checked, as Json.
class Scanner {
 public:
  Scanner(std::string_view text, const FileContext& file)
      : text_(text), file_(file) {}

  size_t at() const { return at_; }

  // The next character that is not blank; '\0' at the end.
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                  text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  void Expect(char c) {
    if (Peek() != c) Malformed(fmt::format("wanted '{}'", c));
    ++at_;
  }

  // Calls `element` before each element of an array or member of an object,
  // whose opening bracket is next.
  template <typename Element>
  void ForEach(char open, char close, Element element) {
    Expect(open);
    if (Peek() == close) {
      ++at_;
      return;
    }
    for (;;) {
      element();
      if (Peek() == close) break;
      Expect(',');
    }
    ++at_;
  }

  // A string, valid until the next call with the same `scratch`.
  std::string_view String(std::string* scratch) {
    Expect('"');
    const size_t begin = at_;
    bool ascii = true;
    for (; at_ < text_.size(); ++at_) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        const std::string_view value = text_.substr(begin, at_ - begin);
        if (!ascii && !IsUtf8(value)) Malformed("a string is not UTF-8");
        ++at_;
        return value;
      }
      if (c == '\\') break;
      if (c < 0x20) Malformed("a control character in a string");
      ascii = ascii && c < 0x80;
    }
    return EscapedString(begin, scratch);
  }

  int64_t Integer(std::string_view owner) {
    Peek();
    const size_t begin = at_;
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' &&
           at_ - begin < 18) {
      value = 10 * value + (text_[at_] - '0');
      ++at_;
    }
    const char next = at_ < text_.size() ? text_[at_] : '\0';
    if (at_ == begin ||
        std::strchr("0123456789.eE+-", next == '\0' ? ' ' : next) != nullptr) {
      Malformed(fmt::format("the id of {} is not an integer in [0, {}]",
                            Quote(owner), kMaxTokenId));
    }
    return value;
  }

  void SkipValue() {
    Peek();
    std::vector<char> open;
    do {
      const char c = Peek();
      if (c == '"') {
        SkipString();
      } else if (c == '{' || c == '[') {
        if (open.size() == kMaxJsonDepth) Malformed("nested too deeply");
        open.push_back(c == '{' ? '}' : ']');
        ++at_;
        continue;
      } else if (c == '}' || c == ']') {
        if (open.empty() || open.back() != c) {
          Malformed(fmt::format("an unexpected '{}'", c));
        }
        open.pop_back();
        ++at_;
      } else if (c == ',' || c == ':') {
        if (open.empty()) Malformed(fmt::format("an unexpected '{}'", c));
        ++at_;
      } else if (c == '\0') {
        Malformed("it ends too early");
      } else {
        while (at_ < text_.size() &&
               std::strchr(" \n\t\r,:{}[]\"", text_[at_]) == nullptr) {
          ++at_;
        }
      }
    } while (!open.empty());
  }

  [[noreturn]] void Malformed(const std::string& what) const {
    const size_t end = std::min(at_, text_.size());
    const auto line = std::count(text_.begin(), text_.begin() + end, '\n') + 1;
    const size_t start = text_.substr(0, end).rfind('\n');
    file_.Fail("malformed JSON in line {}, column {}: {}", line,
               start == std::string_view::npos ? end + 1 : end - start, what);
  }

 private:
  void SkipString() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return;
      }
    }
    Malformed("a string has no end");
  }

  std::string_view EscapedString(size_t begin, std::string* scratch) {
    scratch->assign(text_, begin, at_ - begin);
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') {
        if (!IsUtf8(*scratch)) Malformed("a string is not UTF-8");
        return *scratch;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        Malformed("a control character in a string");
      }
      if (c != '\\') {
        scratch->push_back(c);
        continue;
      }
      const char escape = at_ < text_.size() ? text_[at_++] : '\0';
      switch (escape) {
        case '"':
        case '\\':
        case '/':
          scratch->push_back(escape);
          break;
        case 'b':
          scratch->push_back('\b');
          break;
        case 'f':
          scratch->push_back('\f');
          break;
        case 'n':
          scratch->push_back('\n');
          break;
        case 'r':
          scratch->push_back('\r');
          break;
        case 't':
          scratch->push_back('\t');
          break;
        case 'u':
          AppendUtf8(EscapedChar(), scratch);
          break;
        default:
          Malformed("an unknown escape in a string");
      }
    }
    Malformed("a string has no end");
  }

  char32_t FourHex() {
    char32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      int digit;
      if (c >= '0' && c <= '9') {
        digit = c - '0';
      } else if (c >= 'a' && c <= 'f') {
        digit = c - 'a' + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = c - 'A' + 10;
      } else {
        Malformed("wanted four hexadecimal digits after \\u");
      }
      value = value << 4 | static_cast<char32_t>(digit);
    }
    return value;
  }

  char32_t EscapedChar() {
    const char32_t first = FourHex();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const char32_t second = FourHex();
      if (second >= 0xDC00 && second <= 0xDFFF) {
        return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
      }
    }
    Malformed("half a surrogate pair in a string");
  }

  std::string_view text_;
  const FileContext& file_;
  size_t at_ = 0;
};

void ReadVocabulary(Scanner* scanner, const FileContext& file,
                    Vocabulary* vocabulary) {
  std::string scratch;
  scanner->ForEach('{', '}', [&] {
    const std::string_view token = scanner->String(&scratch);
    scanner->Expect(':');
    const int64_t id = scanner->Integer(token);
    if (id > kMaxTokenId) {
      file.Fail(
          "model.vocab: the id of {} is {}; the largest that is accepted "
          "is {}",
          Quote(token), id, kMaxTokenId);
    }
    if (!vocabulary->Add(token, static_cast<TokenId>(id))) {
      file.Fail("model.vocab: {} and {} have the same id {}",
                Quote(vocabulary->Content(static_cast<TokenId>(id))),
                Quote(token), id);
    }
  });
  const TokenId twice = vocabulary->BuildIndex();
  if (twice >= 0) {
    file.Fail("model.vocab: {} is there twice, once with id {}",
              Quote(vocabulary->Content(twice)), twice);
  }
}

class MergeReader {
 public:
  MergeReader(const FileContext& file, const Vocabulary& vocabulary,
              std::vector<Merge>* merges)
      : file_(file), vocabulary_(vocabulary), merges_(merges) {}

  void Read(Scanner* scanner) {
    scanner->ForEach('[', ']', [&] {
      if (scanner->Peek() == '"') {
        const std::string_view line = scanner->String(&left_scratch_);
        if (line.starts_with("#version")) return;
        const size_t space = line.find(' ');
        if (space == std::string_view::npos ||
            line.find(' ', space + 1) != std::string_view::npos) {
          file_.Fail(
              "model.merges[{}] is {}; wanted two tokens with a space "
              "between them",
              merges_->size() + halves_.size() / 2, Quote(line));
        }
        Add(line.substr(0, space), line.substr(space + 1));
        return;
      }
      scanner->Expect('[');
      const std::string_view left = scanner->String(&left_scratch_);
      scanner->Expect(',');
      const std::string_view right = scanner->String(&right_scratch_);
      scanner->Expect(']');
      Add(left, right);
    });
    AddWaiting();
  }

 private:
  static constexpr size_t kTogether = 128;  // merges

  // Looked up later, many at once.
  void Add(std::string_view left, std::string_view right) {
    if (left.empty() || right.empty()) {
      file_.Fail("model.merges[{}] has an empty half",
                 merges_->size() + halves_.size() / 2);
    }
    for (const std::string_view half : {left, right}) {
      waiting_ += half;
      halves_.push_back(half.size());
    }
    if (halves_.size() == 2 * kTogether) AddWaiting();
  }

  void AddWaiting() {
    std::string_view rest = waiting_;
    std::vector<std::string_view> tokens;
    for (const size_t size : halves_) {
      tokens.push_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    std::vector<TokenId> ids(tokens.size());
    vocabulary_.FindAll(tokens, ids);
    for (size_t i = 0; i < tokens.size(); i += 2) {
      // The halves stand side by side.
      const std::string_view merged(tokens[i].data(),
                                    halves_[i] + halves_[i + 1]);
      // Merges mostly stand in the order of their results.
      TokenId result = last_result_ + 1;
      if (vocabulary_.Content(result) != merged) {
        result = vocabulary_.Content(last_result_) == merged
                     ? last_result_
                     : vocabulary_.Find(merged);
      }
      last_result_ = result;
      Require(result, merged);
      Require(ids[i], tokens[i]);
      Require(ids[i + 1], tokens[i + 1]);
      merges_->push_back({ids[i], ids[i + 1], result});
    }
    waiting_.clear();
    halves_.clear();
  }

  void Require(TokenId id, std::string_view token) const {
    if (id < 0) {
      file_.Fail("model.merges[{}]: {} is not in model.vocab", merges_->size(),
                 Quote(token));
    }
  }

  const FileContext& file_;
  const Vocabulary& vocabulary_;
  std::vector<Merge>* merges_;
  std::string left_scratch_;
  std::string right_scratch_;
  std::string waiting_;         // halves of merges, one behind another
  std::vector<size_t> halves_;  // their sizes
  TokenId last_result_ = -1;
};

}  // namespace

Json ReadTokenizerJson(std::string_view text, const FileContext& file,
                       Vocabulary* vocabulary, std::vector<Merge>* merges,
                       bool* has_both) {
  Scanner scanner(text, file);
  std::string key_scratch;
  // The members read here, cut out of what is parsed as Json: begin and end.
  std::vector<std::pair<size_t, size_t>> cuts;
  bool has_vocabulary = false;
  bool has_merges = false;
  // Merges that came before the vocabulary they speak of.
  std::optional<Scanner> early_merges;
  if (scanner.Peek() != '{') scanner.Malformed("wanted an object");
  scanner.ForEach('{', '}', [&] {
    const bool is_model = scanner.String(&key_scratch) == "model";
    scanner.Expect(':');
    if (!is_model || scanner.Peek() != '{') return scanner.SkipValue();
    scanner.ForEach('{', '}', [&] {
      const std::string_view key = scanner.String(&key_scratch);
      const bool is_vocabulary = key == "vocab";
      const bool is_merges = key == "merges";
      scanner.Expect(':');
      const char next = scanner.Peek();
      const size_t begin = scanner.at();
      if (is_vocabulary && next == '{') {
        if (has_vocabulary) scanner.Malformed("model.vocab is there twice");
        has_vocabulary = true;
        ReadVocabulary(&scanner, file, vocabulary);
      } else if (is_merges && next == '[') {
        if (has_merges) scanner.Malformed("model.merges is there twice");
        has_merges = true;
        if (has_vocabulary) {
          MergeReader(file, *vocabulary, merges).Read(&scanner);
        } else {
          early_merges.emplace(scanner);
          scanner.SkipValue();
        }
      } else {
        return scanner.SkipValue();
      }
      cuts.emplace_back(begin, scanner.at());
    });
  });
  if (scanner.Peek() != '\0' || scanner.at() != text.size()) {
    scanner.Malformed("something follows the end of the object");
  }
  if (early_merges && has_vocabulary) {
    MergeReader(file, *vocabulary, merges).Read(&*early_merges);
  }
  // An index is needed in any case.
  if (!has_vocabulary) vocabulary->BuildIndex();
  *has_both = has_vocabulary && has_merges;

  std::string rest;
  size_t copied = 0;
  for (const auto& [begin, end] : cuts) {
    rest.append(text, copied, begin - copied);
    rest += "null";
    copied = end;
  }
  rest.append(text, copied);
  return ParseJson(rest, file.path + " (without model.vocab and model.merges)",
                   file.kind);
}

JsonFields::JsonFields(const Json& value, std::string path,
                       const FileContext& file)
    : value_(&value), path_(std::move(path)), file_(&file) {
  if (!value.is_object()) {
    file.Fail("{} is not an object but {}", path_, value.type_name());
  }
}

const Json* JsonFields::Find(const char* name) const {
  const auto found = value_->find(name);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonFields::Get(const char* name, const char* wanted,
                            bool (Json::*is)() const noexcept) const {
  const Json* value = Find(name);
  if (value == nullptr) {
    file_->Fail("{}.{} is missing; wanted {}", path_, name, wanted);
  }
  if (!(value->*is)()) {
    file_->Fail("{}.{} is {}; wanted {}", path_, name, value->type_name(),
                wanted);
  }
  return *value;
}

bool JsonFields::Bool(const char* name) const {
  return Get(name, "true or false", &Json::is_boolean).get<bool>();
}

std::string JsonFields::String(const char* name) const {
  return Get(name, "a string", &Json::is_string).get<std::string>();
}

int64_t JsonFields::Integer(const char* name, int64_t limit) const {
  const Json& value =
      Get(name, "a number that is not negative", &Json::is_number_unsigned);
  const auto number = value.get<uint64_t>();
  if (number >= static_cast<uint64_t>(limit)) {
    file_->Fail("{}.{} is {}; wanted a number below {}", path_, name, number,
                limit);
  }
  return static_cast<int64_t>(number);
}

const Json& JsonFields::Array(const char* name) const {
  return Get(name, "an array", &Json::is_array);
}

JsonFields JsonFields::Object(const char* name) const {
  return JsonFields(Get(name, "an object", &Json::is_object),
                    path_ + "." + name, *file_);
}

bool JsonFields::Bool(const char* name, bool otherwise) const {
  return Find(name) == nullptr ? otherwise : Bool(name);
}

std::string JsonFields::String(const char* name,
                               const std::string& otherwise) const {
  return Find(name) == nullptr ? otherwise : String(name);
}

void JsonFields::Fail(const std::string& message) const {
  file_->Fail("{}: {}", path_, message);
}

}  // namespace rbln
