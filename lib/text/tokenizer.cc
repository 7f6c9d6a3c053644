#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

Bpe BuildBpe(const JsonFields& model, Vocabulary vocabulary,
             const std::vector<Merge>& merges, bool has_members) {
  const std::string type = model.String("type", "BPE");
  if (type != "BPE") {
    model.Fail(
        fmt::format("the model type '{}' is not supported, only BPE is", type));
  }
  if (!has_members) {
    model.Fail("wanted an object 'vocab' and an array 'merges'");
  }
  if (const Json* dropout = model.Find("dropout"); dropout != nullptr) {
    if (!dropout->is_number() || dropout->get<double>() != 0) {
      model.Fail("dropout is not supported; set it to null");
    }
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.String(name, "").empty()) {
      model.Fail(
          fmt::format("{} '{}' is not supported", name, model.String(name)));
    }
  }
  BpeOptions options;
  if (model.Find("unk_token") != nullptr) {
    options.unk_token = model.String("unk_token");
  }
  options.fuse_unk = model.Bool("fuse_unk", false);
  options.byte_fallback = model.Bool("byte_fallback", false);
  options.ignore_merges = model.Bool("ignore_merges", false);
  return Bpe(std::move(vocabulary), merges, options, model.file().kind);
}

// Adds what a post-processor puts around a text to what those before it put
// there.
void ReadPostProcessor(const JsonFields& fields, std::vector<TokenId>* prefix,
                       std::vector<TokenId>* suffix) {
  const std::string type = fields.String("type");
  if (type == "ByteLevel") return;  // It changes offsets only.
  if (type == "Sequence") {
    const Json& list = fields.Array("processors");
    for (size_t i = 0; i < list.size(); ++i) {
      ReadPostProcessor(
          JsonFields(list[i],
                     fmt::format("{}.processors[{}]", fields.path(), i),
                     fields.file()),
          prefix, suffix);
    }
    return;
  }
  if (type != "TemplateProcessing") {
    fields.Fail(
        fmt::format("the post-processor '{}' is not supported; "
                    "supported are TemplateProcessing, ByteLevel and "
                    "Sequence",
                    type));
  }
  const JsonFields special_tokens = fields.Object("special_tokens");
  const Json& single = fields.Array("single");
  std::vector<TokenId> before;
  std::vector<TokenId> behind;
  int texts = 0;
  for (size_t i = 0; i < single.size(); ++i) {
    const JsonFields piece(single[i],
                           fmt::format("{}.single[{}]", fields.path(), i),
                           fields.file());
    if (piece.Find("Sequence") != nullptr) {
      const JsonFields sequence = piece.Object("Sequence");
      if (sequence.String("id") != "A") {
        sequence.Fail("wanted id 'A', the only text there is");
      }
      ++texts;
      continue;
    }
    const std::string name = piece.Object("SpecialToken").String("id");
    const JsonFields token = special_tokens.Object(name.c_str());
    for (const Json& id : token.Array("ids")) {
      if (!id.is_number_unsigned() ||
          id.get<uint64_t>() > static_cast<uint64_t>(kMaxTokenId)) {
        token.Fail(fmt::format("wanted ids in [0, {}]", kMaxTokenId));
      }
      (texts == 0 ? before : behind).push_back(id.get<TokenId>());
    }
  }
  if (texts != 1) {
    fields.Fail(
        fmt::format("the template 'single' has the text {} times; only "
                    "once is supported",
                    texts));
  }
  prefix->insert(prefix->begin(), before.begin(), before.end());
  suffix->insert(suffix->end(), behind.begin(), behind.end());
}

// The text of a token in tokenizer_config.json: a string, or an object as it
// stands in added_tokens.
std::string ConfigToken(const JsonFields& config, const char* name) {
  const Json* value = config.Find(name);
  if (value == nullptr) return "";
  return value->is_object() ? config.Object(name).String("content")
                            : config.String(name);
}

}  // namespace

Tokenizer::Impl::Impl(std::string_view json, const FileContext& file) {
  Vocabulary vocabulary;
  std::vector<Merge> merges;
  bool has_members = false;
  const Json root =
      ReadTokenizerJson(json, file, &vocabulary, &merges, &has_members);
  const JsonFields fields(root, "the file", file);
  if (const std::string version = fields.String("version", "1.0");
      version != "1.0") {
    file.Fail("version '{}' is not supported, only 1.0 is", version);
  }
  for (const char* name : {"truncation", "padding"}) {
    if (fields.Find(name) != nullptr) {
      file.Fail(
          "{} is not supported; set it to null (transformers ignores it "
          "when it is not asked to truncate or pad)",
          name);
    }
  }
  if (const Json* value = fields.Find("normalizer"); value != nullptr) {
    normalizer = Normalizer(*value, file);
  }
  if (const Json* value = fields.Find("pre_tokenizer"); value != nullptr) {
    pre_tokenizer = PreTokenizer(*value, normalizer.MovesStart(), file);
  }
  if (const Json* value = fields.Find("post_processor"); value != nullptr) {
    ReadPostProcessor(JsonFields(*value, "post_processor", file), &prefix,
                      &suffix);
  }
  decoder.emplace(fields.Find("decoder"), file);
  const Json* model = fields.Find("model");
  if (model == nullptr) file.Fail("model is missing");
  bpe.emplace(BuildBpe(JsonFields(*model, "model", file), std::move(vocabulary),
                       merges, has_members));
  added.emplace(fields.Find("added_tokens"), bpe->vocabulary(), normalizer,
                file);
  end = std::max(bpe->vocabulary().end(), added->end());
}

void Tokenizer::Impl::ReadConfig(const Json& config, const FileContext& file) {
  const JsonFields fields(config, "the file", file);
  if (fields.Bool("split_special_tokens", false)) {
    file.Fail("split_special_tokens is not supported; set it to false");
  }
  bos_token = ConfigToken(fields, "bos_token");
  eos_token = ConfigToken(fields, "eos_token");
  if (!bos_token.empty()) bos = Find(bos_token);
  if (!eos_token.empty()) eos = Find(eos_token);
}

std::optional<TokenId> Tokenizer::Impl::Find(std::string_view content) const {
  if (const AddedToken* token = added->Find(content); token != nullptr) {
    return token->id;
  }
  const TokenId id = bpe->vocabulary().Find(content);
  return id < 0 ? std::nullopt : std::optional<TokenId>(id);
}

std::optional<std::string_view> Tokenizer::Impl::DecoderInput(
    TokenId id, bool skip_special) const {
  if (const AddedToken* token = added->Find(id); token != nullptr) {
    if (skip_special && token->special) return std::nullopt;
    return token->normalized_content;
  }
  if (!bpe->vocabulary().Has(id)) return std::nullopt;
  return bpe->vocabulary().Content(id);
}

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

std::unique_ptr<const Tokenizer> Tokenizer::Load(const std::string& directory,
                                                 ErrorKind kind) {
  const std::string path = directory + "/tokenizer.json";
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer());
  auto impl =
      std::make_unique<Impl>(ReadFile(path, kind), FileContext{kind, path});
  const std::string config = directory + "/tokenizer_config.json";
  if (FileExists(config)) {
    impl->ReadConfig(ReadJsonFile(config, kind), FileContext{kind, config});
  }
  tokenizer->impl_ = std::move(impl);
  return tokenizer;
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text,
                                       bool add_special_tokens) const {
  const Impl& impl = *impl_;
  std::string mended;
  if (!IsUtf8(text)) {
    AppendMendedUtf8(text, true, &mended);
    text = mended;
  }
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = impl.prefix;
  const PreTokenizer::Sink encode = [&](std::string_view piece) {
    impl.bpe->Encode(piece, &ids);
  };
  PreTokenizer::Run run(impl.pre_tokenizer, encode);
  std::string buffer;
  impl.added->raw().Split(text, [&](const AddedToken* token, TextRange range) {
    if (token != nullptr) return ids.push_back(token->id);
    const std::string_view normalized = impl.normalizer.Apply(
        text.substr(range.begin, range.end - range.begin), &buffer);
    impl.added->normalized().Split(
        normalized, [&](const AddedToken* inner_token, TextRange inner) {
          if (inner_token != nullptr) return ids.push_back(inner_token->id);
          run.Split(normalized.substr(inner.begin, inner.end - inner.begin),
                    range.begin == 0 && inner.begin == 0);
        });
  });
  if (add_special_tokens) {
    ids.insert(ids.end(), impl.suffix.begin(), impl.suffix.end());
  }
  return ids;
}

int Tokenizer::vocab_size() const { return impl_->end; }

std::optional<TokenId> Tokenizer::Find(std::string_view content) const {
  return impl_->Find(content);
}

std::string_view Tokenizer::Content(TokenId id) const {
  const AddedToken* token = impl_->added->Find(id);
  return token != nullptr ? std::string_view(token->content)
                          : impl_->bpe->vocabulary().Content(id);
}

bool Tokenizer::IsSpecial(TokenId id) const {
  const AddedToken* token = impl_->added->Find(id);
  return token != nullptr && token->special;
}

std::optional<TokenId> Tokenizer::bos() const { return impl_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->eos; }
const std::string& Tokenizer::bos_token() const { return impl_->bos_token; }
const std::string& Tokenizer::eos_token() const { return impl_->eos_token; }

}  // namespace rbln
