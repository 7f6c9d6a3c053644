#include <algorithm>

#include "text/tokenizer_decoder.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

// The byte that "<0xHH>" stands for; -1 for other tokens.
int FallbackByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
    return -1;
  }
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    value <<= 4;
    if (c >= '0' && c <= '9') {
      value += c - '0';
    } else if (c >= 'A' && c <= 'F') {
      value += c - 'A' + 10;
    } else if (c >= 'a' && c <= 'f') {
      value += c - 'a' + 10;
    } else if (c == '+' && value == 0) {
      // Rust's number parser takes a sign.
    } else {
      return -1;
    }
  }
  return value;
}

}  // namespace

Decoder::Decoder(const Json* value, const FileContext& file) {
  if (value == nullptr) {
    stages_.emplace_back().kind = Stage::kJoin;
    return;
  }
  Add(JsonFields(*value, "decoder", file));
}

bool Decoder::fused() const {
  return std::any_of(stages_.begin(), stages_.end(), [](const Stage& stage) {
    return stage.kind == Stage::kFuse || stage.kind == Stage::kByteLevel;
  });
}

void Decoder::Add(const JsonFields& fields) {
  const std::string type = fields.String("type");
  Stage stage{};
  stage.fused = fused();
  const auto refuse_fused = [&] {
    fields.Fail(
        fmt::format("the decoder '{}' is not supported behind Fuse or "
                    "ByteLevel",
                    type));
  };
  if (type == "Sequence") {
    const Json& list = fields.Array("decoders");
    for (size_t i = 0; i < list.size(); ++i) {
      Add(JsonFields(list[i], fmt::format("{}.decoders[{}]", fields.path(), i),
                     fields.file()));
    }
    return;
  } else if (type == "ByteLevel") {
    if (stage.fused) refuse_fused();
    stage.kind = Stage::kByteLevel;
  } else if (type == "Metaspace") {
    if (stage.fused) refuse_fused();
    stage.kind = Stage::kMetaspace;
    std::string& mark = stage.pattern.literal;
    mark = fields.String("replacement");
    size_t length = 0;
    if (!mark.empty()) NextChar(mark, &length);
    if (mark.empty() || length != mark.size()) {
      fields.Fail("replacement must be one character");
    }
    const std::string scheme = fields.String("prepend_scheme", "always");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      fields.Fail(
          fmt::format("the prepend_scheme '{}' is not supported", scheme));
    }
    stage.strip_first = scheme != "never";
    if (!fields.Bool("add_prefix_space", true) && stage.strip_first) {
      fields.Fail(
          "add_prefix_space is false, but prepend_scheme is not 'never'");
    }
  } else if (type == "Replace") {
    if (stage.fused) refuse_fused();
    stage.kind = Stage::kReplace;
    stage.content = fields.String("content");
    stage.pattern = TextPattern::Read(fields);
  } else if (type == "ByteFallback") {
    if (stage.fused) refuse_fused();
    stage.kind = Stage::kByteFallback;
  } else if (type == "Fuse") {
    stage.kind = Stage::kFuse;
  } else if (type == "Strip") {
    stage.kind = Stage::kStrip;
    stage.content = fields.String("content");
    size_t length = 0;
    if (!stage.content.empty()) NextChar(stage.content, &length);
    if (stage.content.empty() || length != stage.content.size()) {
      fields.Fail("content must be one character");
    }
    constexpr int64_t kLimit = 1 << 20;
    stage.start = static_cast<size_t>(fields.Integer("start", kLimit));
    stage.stop = static_cast<size_t>(fields.Integer("stop", kLimit));
  } else {
    fields.Fail(fmt::format(
        "the decoder '{}' is not supported; supported are Sequence, ByteLevel, "
        "Metaspace, Replace, ByteFallback, Fuse and Strip",
        type));
  }
  stages_.push_back(std::move(stage));
}

std::string Decoder::Bytes(std::string_view token, bool first) const {
  std::string bytes(token);
  bool is_byte = false;
  for (const Stage& stage : stages_) {
    std::string text;
    const bool mapped = stage.kind != Stage::kFuse &&
                        stage.kind != Stage::kJoin &&
                        !(stage.kind == Stage::kStrip && stage.fused);
    // A run of bytes is only text once it has ended.
    if (is_byte && mapped) {
      throw UsageError(
          "the tokenizer's decoder has a stage behind ByteFallback that is not "
          "Fuse, or Strip behind it; its tokens have no bytes of their own");
    }
    switch (stage.kind) {
      case Stage::kJoin:
        if (!first) bytes.insert(0, " ");
        break;
      case Stage::kFuse:
        break;
      case Stage::kByteLevel:
        AppendByteLevelBytes(bytes, &text);
        bytes = std::move(text);
        break;
      case Stage::kMetaspace:
        stage.pattern.AppendReplaced(
            bytes, first && stage.strip_first ? "" : " ", &text);
        bytes = std::move(text);
        break;
      case Stage::kReplace:
        stage.pattern.AppendReplaced(bytes, stage.content, &text);
        bytes = std::move(text);
        break;
      case Stage::kByteFallback:
        if (const int byte = FallbackByte(bytes); byte >= 0) {
          bytes.assign(1, static_cast<char>(byte));
          is_byte = true;
        }
        break;
      case Stage::kStrip:
        if (stage.fused && (stage.start > 1 || stage.stop > 0)) {
          throw UsageError(
              "the tokenizer's decoder strips more than one character from the "
              "start of a text, or some from its end; its tokens have no bytes "
              "of their own");
        }
        for (size_t i = 0; i < stage.start && (first || !stage.fused) &&
                           bytes.starts_with(stage.content);
             ++i) {
          bytes.erase(0, stage.content.size());
        }
        for (size_t i = 0; i < stage.stop && bytes.ends_with(stage.content);
             ++i) {
          bytes.resize(bytes.size() - stage.content.size());
        }
        break;
    }
  }
  return bytes;
}

Decoder::Stream::Stream(const Decoder& decoder)
    : decoder_(&decoder), states_(decoder.stages_.size()) {
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].to_strip = decoder.stages_[i].start;
  }
}

void Decoder::Stream::Push(std::string_view token, std::string* out) {
  any_ = true;
  PushTo(0, token, out);
}

void Decoder::Stream::PushTo(size_t index, std::string_view token,
                             std::string* out) {
  if (index == states_.size()) {
    *out += token;
    return;
  }
  const Stage& stage = decoder_->stages_[index];
  State& state = states_[index];
  const bool first = !state.any;
  state.any = true;
  switch (stage.kind) {
    case Stage::kJoin:
      if (!first) PushTo(index + 1, " ", out);
      return PushTo(index + 1, token, out);
    case Stage::kFuse:
      return PushTo(index + 1, token, out);
    case Stage::kByteLevel: {
      AppendByteLevelBytes(token, &state.pending);
      std::string text;
      state.pending.erase(0, AppendMendedUtf8(state.pending, false, &text));
      return PushTo(index + 1, text, out);
    }
    case Stage::kMetaspace: {
      std::string text;
      stage.pattern.AppendReplaced(token, first && stage.strip_first ? "" : " ",
                                   &text);
      return PushTo(index + 1, text, out);
    }
    case Stage::kReplace: {
      std::string text;
      stage.pattern.AppendReplaced(token, stage.content, &text);
      return PushTo(index + 1, text, out);
    }
    case Stage::kByteFallback: {
      const int byte = FallbackByte(token);
      if (byte >= 0) {
        state.pending.push_back(static_cast<char>(byte));
        return;
      }
      EndByteRun(index, out);
      return PushTo(index + 1, token, out);
    }
    case Stage::kStrip: {
      const std::string& content = stage.content;
      size_t to_strip = stage.fused ? state.to_strip : stage.start;
      while (to_strip > 0 && token.starts_with(content)) {
        token.remove_prefix(content.size());
        --to_strip;
      }
      if (!stage.fused) {
        for (size_t i = 0; i < stage.stop && token.ends_with(content); ++i) {
          token.remove_suffix(content.size());
        }
        return PushTo(index + 1, token, out);
      }
      if (token.empty()) {
        state.to_strip = to_strip;
        return;
      }
      state.to_strip = 0;
      // Of what may yet prove to be the end, as much as would be stripped is
      // held back.
      size_t tail = 0;
      std::string_view body = token;
      while (tail < stage.stop && body.ends_with(content)) {
        body.remove_suffix(content.size());
        ++tail;
      }
      const size_t held_before =
          body.empty() ? std::min(state.held, stage.stop - tail) : 0;
      std::string text;
      for (size_t i = held_before; i < state.held; ++i) text += content;
      text += body;
      state.held = held_before + tail;
      return PushTo(index + 1, text, out);
    }
  }
}

void Decoder::Stream::EndByteRun(size_t index, std::string* out) {
  std::string& pending = states_[index].pending;
  if (pending.empty()) return;
  if (IsUtf8(pending)) {
    PushTo(index + 1, pending, out);
  } else {
    // One byte that does not fit spoils its whole run.
    for (size_t i = 0; i < pending.size(); ++i) {
      PushTo(index + 1, kReplacementCharacter, out);
    }
  }
  pending.clear();
}

void Decoder::Stream::Settle(std::string* out) {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (decoder_->stages_[i].kind != Stage::kByteFallback) continue;
    const size_t valid = ValidUtf8Length(states_[i].pending);
    std::string tail = states_[i].pending.substr(valid);
    if (!tail.empty() && ClassifyUtf8(tail).kind != Utf8Prefix::kIncomplete) {
      tail.clear();
    } else {
      states_[i].pending.resize(valid);
    }
    EndByteRun(i, out);
    states_[i].pending = std::move(tail);
  }
}

void Decoder::Stream::DropIncomplete() {
  for (State& state : states_) state.pending.clear();
}

void Decoder::Stream::Finish(std::string* out) {
  for (size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    if (decoder_->stages_[i].kind == Stage::kByteFallback) EndByteRun(i, out);
    if (decoder_->stages_[i].kind == Stage::kByteLevel) {
      std::string text;
      AppendMendedUtf8(state.pending, true, &text);
      state.pending.clear();
      if (!text.empty()) PushTo(i + 1, text, out);
    }
    state.held = 0;
  }
}

struct Detokenizer::State {
  const Tokenizer::Impl* tokenizer;
  bool skip_special_tokens;
  Decoder::Stream stream;
};

Detokenizer::Detokenizer(const Tokenizer& tokenizer,
                         const std::vector<TokenId>& prompt,
                         bool skip_special_tokens)
    : state_(std::make_unique<State>(
          State{tokenizer.impl_.get(), skip_special_tokens,
                Decoder::Stream(*tokenizer.impl_->decoder)})) {
  for (const TokenId id : prompt) Push(id);
  // What the prompt ends with is the prompt's, even where the decoder would
  // have waited for more.
  std::string prompt_text;
  state_->stream.Settle(&prompt_text);
}

Detokenizer::~Detokenizer() = default;
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;

std::string Detokenizer::Push(TokenId id) {
  std::string text;
  const std::optional<std::string_view> token =
      state_->tokenizer->DecoderInput(id, state_->skip_special_tokens);
  if (token) state_->stream.Push(*token, &text);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text;
  state_->stream.Finish(&text);
  return text;
}

void Detokenizer::DropIncomplete() { state_->stream.DropIncomplete(); }

bool Detokenizer::at_start() const { return state_->stream.at_start(); }

std::optional<std::string> Tokenizer::Bytes(TokenId id, bool first) const {
  const auto token = impl_->DecoderInput(id, /*skip_special=*/false);
  if (!token) return std::nullopt;
  return impl_->decoder->Bytes(*token, first);
}

std::string Tokenizer::Decode(const std::vector<TokenId>& ids,
                              bool skip_special_tokens) const {
  std::string text;
  Decoder::Stream stream(*impl_->decoder);
  for (const TokenId id : ids) {
    const auto token = impl_->DecoderInput(id, skip_special_tokens);
    if (token) stream.Push(*token, &text);
  }
  stream.Finish(&text);
  return text;
}

}  // namespace rbln
