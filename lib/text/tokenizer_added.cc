#include "text/tokenizer_added.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer_utf8.h"

namespace rbln {

AddedTokenMatcher::AddedTokenMatcher(ErrorKind kind)
    : word_("[\\w\\u200C\\u200D]", "added_tokens", kind) {}

bool AddedTokenMatcher::Add(const AddedToken* token) {
  const std::string_view text = token->normalized_content;
  const auto at = std::lower_bound(
      patterns_.begin(), patterns_.end(), text,
      [](const Pattern& a, std::string_view b) { return a.text < b; });
  if (at != patterns_.end() && at->text == text) return false;
  patterns_.insert(at, {text, token});
  starts_[static_cast<unsigned char>(text.front())] = true;
  return true;
}

const AddedTokenMatcher::Pattern* AddedTokenMatcher::LongestAt(
    std::string_view text) const {
  // Narrows the sorted patterns down to those that begin as `text` does, byte
  // by byte; the one that ends there, if any, comes first among them.
  const Pattern* longest = nullptr;
  auto begin = patterns_.begin();
  auto end = patterns_.end();
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const auto byte_at = [depth](const Pattern& pattern) {
      return static_cast<unsigned char>(pattern.text[depth]);
    };
    const auto byte = static_cast<unsigned char>(text[depth]);
    begin = std::partition_point(begin, end, [&](const Pattern& pattern) {
      return byte_at(pattern) < byte;
    });
    end = std::partition_point(begin, end, [&](const Pattern& pattern) {
      return byte_at(pattern) == byte;
    });
    if (begin == end) break;
    if (begin->text.size() == depth + 1) {
      longest = &*begin;
      ++begin;
    }
  }
  return longest;
}

bool AddedTokenMatcher::IsWordChar(char32_t c) const {
  std::string text;
  AppendUtf8(c, &text);
  Regex::Matches matches(word_);
  matches.Start(text);
  return matches.Next().has_value();
}

void AddedTokenMatcher::Split(std::string_view text, const Piece& piece) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !patterns_.empty();) {
    if (!starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Pattern* pattern = LongestAt(text.substr(at));
    if (pattern == nullptr) {
      ++at;
      continue;
    }
    const AddedToken& token = *pattern->token;
    TextRange range{at, at + pattern->text.size()};
    at = range.end;
    if (token.single_word) {
      size_t before = range.begin;
      size_t behind = range.end;
      if (before > 0 && IsWordChar(PreviousChar(text, &before))) continue;
      if (behind < text.size() && IsWordChar(NextChar(text, &behind))) continue;
    }
    while (token.lstrip && range.begin > done) {
      size_t before = range.begin;
      if (!IsWhiteSpace(PreviousChar(text, &before))) break;
      range.begin = before;
    }
    while (token.rstrip && range.end < text.size()) {
      size_t behind = range.end;
      if (!IsWhiteSpace(NextChar(text, &behind))) break;
      range.end = behind;
    }
    if (done < range.begin) piece(nullptr, {done, range.begin});
    piece(&token, range);
    done = range.end;
  }
  if (done < text.size()) piece(nullptr, {done, text.size()});
}

AddedTokens::AddedTokens(const Json* value, const Vocabulary& vocabulary,
                         const Normalizer& normalizer, const FileContext& file)
    : raw_(file.kind), normalized_(file.kind) {
  if (value == nullptr) return;
  if (!value->is_array()) {
    file.Fail("added_tokens is not an array but {}", value->type_name());
  }
  // Hugging Face gives ids itself: those of the vocabulary, or the next ones
  // behind it. A file that says otherwise would be read differently there.
  TokenId next_id = vocabulary.count();
  tokens_.reserve(value->size());  // the maps below point into it
  for (size_t i = 0; i < value->size(); ++i) {
    const JsonFields fields((*value)[i], fmt::format("added_tokens[{}]", i),
                            file);
    AddedToken token;
    token.id = static_cast<TokenId>(fields.Integer("id", kMaxTokenId + 1));
    token.content = fields.String("content");
    token.single_word = fields.Bool("single_word");
    token.lstrip = fields.Bool("lstrip");
    token.rstrip = fields.Bool("rstrip");
    token.normalized = fields.Bool("normalized");
    token.special = fields.Bool("special");
    if (token.content.empty()) continue;
    if (by_content_.contains(token.content)) {
      fields.Fail(fmt::format("'{}' is there twice", token.content));
    }
    TokenId id = vocabulary.Find(token.content);
    if (id < 0) id = next_id++;
    if (id != token.id) {
      fields.Fail(fmt::format(
          "'{}' has id {}, where Hugging Face tokenizers gives it {}: an added "
          "token has its id in model.vocab, or the next one behind it",
          token.content, token.id, id));
    }
    token.normalized_content = token.content;
    if (token.normalized) {
      std::string buffer;
      token.normalized_content =
          std::string(normalizer.Apply(token.content, &buffer));
    }
    tokens_.push_back(std::move(token));
    const AddedToken& added = tokens_.back();
    if (!by_id_.emplace(id, &added).second) {
      fields.Fail(fmt::format("id {} is there twice", id));
    }
    by_content_.emplace(added.content, &added);
    begin_ = by_id_.size() == 1 ? id : std::min(begin_, id);
    end_ = std::max(end_, id + 1);
    if (added.normalized_content.empty()) {
      fields.Fail(
          fmt::format("the normalizer leaves nothing of '{}'", added.content));
    }
    if (!(added.normalized ? normalized_ : raw_).Add(&added)) {
      fields.Fail(
          fmt::format("the normalizer makes '{}' the same as another "
                      "added token",
                      added.content));
    }
  }
}

const AddedToken* AddedTokens::Find(TokenId id) const {
  // Asked of every token of a text, of which hardly any is an added one; these
  // mostly have their ids to themselves.
  if (id < begin_ || id >= end_) return nullptr;
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

const AddedToken* AddedTokens::Find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : found->second;
}

}  // namespace rbln
