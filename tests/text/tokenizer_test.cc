#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

#include "base/json.h"
#include "test_util.h"
#include "text/bpe.h"
#include "text/tokenizer_regex.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

const char* const kTokenizers[] = {"llama3", "qwen",      "gpt2",     "digits",
                                   "llama2", "metaspace", "lowercase"};

std::string GoldenDirectory(const std::string& name) {
  return std::string(RBLN_TEST_DATA) + "/text/tokenizers/" + name;
}

std::unique_ptr<const Tokenizer> LoadGolden(const std::string& name) {
  return Tokenizer::Load(GoldenDirectory(name), ErrorKind::kUsage);
}

template <typename Line>
void ForEachLine(const std::string& path, Line line) {
  std::istringstream in(ReadTestFile(path));
  for (std::string text; std::getline(in, text);) {
    line(ParseJson(text, path, ErrorKind::kUsage));
  }
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string Streamed(const Tokenizer& tokenizer,
                     const std::vector<TokenId>& prompt,
                     const std::vector<TokenId>& ids, bool skip) {
  Detokenizer detokenizer(tokenizer, prompt, skip);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.Push(id);
    CHECK(IsUtf8(piece));
    text += piece;
  }
  return text + detokenizer.Finish();
}

TEST_CASE("small tokenizers answer as Hugging Face tokenizers") {
  for (const char* name : kTokenizers) {
    CAPTURE(name);
    const auto tokenizer = LoadGolden(name);
    int cases = 0;
    ForEachLine(GoldenDirectory(name) + "/cases.jsonl", [&](const Json& line) {
      const std::string shown = line.dump();
      CAPTURE(shown);
      ++cases;
      if (line.contains("decode")) {
        const auto ids = line["decode"].get<std::vector<TokenId>>();
        CHECK(tokenizer->Decode(ids, false) == line["all"]);
        CHECK(tokenizer->Decode(ids, true) == line["skipped"]);
        CHECK(Streamed(*tokenizer, {}, ids, false) == line["all"]);
        CHECK(Streamed(*tokenizer, {}, ids, true) == line["skipped"]);
        return;
      }
      const std::string text = line.contains("bytes")
                                   ? FromHex(line["bytes"])
                                   : line["text"].get<std::string>();
      const auto ids = line["ids"].get<std::vector<TokenId>>();
      CHECK(tokenizer->Encode(text, false) == ids);
      if (line.contains("with_special")) {
        CHECK(tokenizer->Encode(text, true) ==
              line["with_special"].get<std::vector<TokenId>>());
      }
    });
    CHECK(cases > 200);
  }
}

TEST_CASE("real tokenizers answer as their vectors say") {
  const auto root = SharedData("tokenizers");
  if (!root) {
    MESSAGE("skipped: no real tokenizers here (set RBLN_SHARED_DATA)");
    return;
  }
  int files = 0;
  for (const auto& entry : fs::directory_iterator(*root)) {
    const std::string directory = entry.path().string();
    if (!fs::exists(directory + "/vectors.jsonl")) continue;
    CAPTURE(directory);
    ++files;
    const auto tokenizer = Tokenizer::Load(directory, ErrorKind::kUsage);
    ForEachLine(directory + "/vectors.jsonl", [&](const Json& line) {
      const std::string shown = line.dump();
      CAPTURE(shown);
      CHECK(tokenizer->Encode(line["text"].get<std::string>(), false) ==
            line["ids"].get<std::vector<TokenId>>());
    });
  }
  CHECK(files > 0);
}

TEST_CASE("a byte-level tokenizer gives back the text it was given") {
  const auto tokenizer = LoadGolden("llama3");
  const std::string text =
      "Größe 你好\n\n  x\t👨‍👩‍👧 \x01 <pad";
  CHECK(tokenizer->Decode(tokenizer->Encode(text, true), true) == text);
}

TEST_CASE("tokens are found by content, and their contents by id") {
  const auto tokenizer = LoadGolden("llama3");
  const auto bos = tokenizer->Find("<|begin_of_text|>");
  REQUIRE(bos);
  CHECK(tokenizer->bos() == bos);
  CHECK(tokenizer->bos_token() == "<|begin_of_text|>");
  CHECK(tokenizer->eos() == tokenizer->Find("<|end_of_text|>"));
  CHECK(tokenizer->IsSpecial(*bos));
  CHECK(tokenizer->Content(*bos) == "<|begin_of_text|>");
  const auto pad = tokenizer->Find("<pad>");
  REQUIRE(pad);
  CHECK_FALSE(tokenizer->IsSpecial(*pad));
  CHECK(tokenizer->vocab_size() == *pad + 1);
  CHECK(tokenizer->Content(tokenizer->vocab_size()).empty());
  CHECK(tokenizer->Content(-1).empty());
  CHECK_FALSE(tokenizer->Find("no such token"));
  CHECK_FALSE(LoadGolden("qwen")->bos());
  CHECK(LoadGolden("qwen")->bos_token().empty());
}

TEST_CASE("what follows a prompt keeps its leading space") {
  const auto tokenizer = LoadGolden("llama2");
  const auto mark = tokenizer->Find("▁");
  const auto a = tokenizer->Find("a");
  REQUIRE(mark);
  REQUIRE(a);
  const std::vector<TokenId> ids{*mark, *a, *mark};
  CHECK(Streamed(*tokenizer, {}, ids, true) == "a ");
  // A skipped token is no text to follow.
  CHECK(Streamed(*tokenizer, {*tokenizer->bos()}, ids, true) == "a ");
  CHECK(Streamed(*tokenizer, {*a}, ids, true) == " a ");
}

TEST_CASE("text of the prompt is not given out with what follows") {
  const auto tokenizer = LoadGolden("llama2");
  const auto byte = [&](const char* name) { return *tokenizer->Find(name); };
  const TokenId a = *tokenizer->Find("a");
  // A character of the prompt that the decoder held back.
  CHECK(Streamed(*tokenizer, {byte("<0xE4>"), byte("<0xBD>"), byte("<0xA0>")},
                 {a}, true) == "a");
  // One that the prompt began is ended by what follows.
  CHECK(Streamed(*tokenizer, {a, byte("<0xE4>"), byte("<0xBD>")},
                 {byte("<0xA0>"), a}, true) == "你a");
}

TEST_CASE("no piece ends inside a character") {
  const auto tokenizer = LoadGolden("llama3");
  std::vector<TokenId> ids;
  for (const char byte : std::string("é\xE4\xBD")) {
    std::string content;
    AppendByteLevel(std::string_view(&byte, 1), &content);
    ids.push_back(*tokenizer->Find(content));
  }
  Detokenizer detokenizer(*tokenizer, {}, true);
  CHECK(detokenizer.Push(ids[0]).empty());
  CHECK(detokenizer.Push(ids[1]) == "é");
  CHECK(detokenizer.Push(ids[2]).empty());
  CHECK(detokenizer.Push(ids[3]).empty());
  CHECK(detokenizer.Finish() == kReplacementCharacter);
}

TEST_CASE("pieces are the rest of what prompt and answer decode to") {
  std::mt19937 random(5);
  for (const char* name : kTokenizers) {
    CAPTURE(name);
    const auto tokenizer = LoadGolden(name);
    const std::string text =
        "Größe 你好 it's  12345 x\n👨‍👩‍👧 _word_";
    const std::vector<TokenId> all = tokenizer->Encode(text, true);
    const std::string whole = tokenizer->Decode(all, true);
    for (size_t cut = 0; cut <= all.size(); ++cut) {
      const std::vector<TokenId> prompt(all.begin(), all.begin() + cut);
      const std::vector<TokenId> ids(all.begin() + cut, all.end());
      const std::string piece = Streamed(*tokenizer, prompt, ids, true);
      CHECK(whole.ends_with(piece));
    }
  }
}

// The definition of byte-pair encoding, word for word.
std::vector<TokenId> SlowMerge(const std::vector<Merge>& merges,
                               std::vector<TokenId> ids) {
  for (;;) {
    size_t best_rank = merges.size();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) {
          best_rank = rank;
          best_at = i;
        }
      }
    }
    if (best_rank == merges.size()) return ids;
    ids[best_at] = merges[best_rank].result;
    ids.erase(ids.begin() + best_at + 1);
  }
}

TEST_CASE("pieces of any length merge as the definition says") {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    Vocabulary vocabulary;
    std::vector<std::string> tokens{"a", "b", "c"};
    for (TokenId id = 0; id < 3; ++id) vocabulary.Add(tokens[id], id);
    std::vector<Merge> merges;
    while (merges.size() < 25) {
      const auto left = static_cast<TokenId>(random() % tokens.size());
      const auto right = static_cast<TokenId>(random() % tokens.size());
      const std::string merged = tokens[left] + tokens[right];
      auto found = std::find(tokens.begin(), tokens.end(), merged);
      const auto id = static_cast<TokenId>(found - tokens.begin());
      if (found == tokens.end()) {
        tokens.push_back(merged);
        vocabulary.Add(merged, id);
      }
      const bool known =
          std::any_of(merges.begin(), merges.end(), [&](const Merge& merge) {
            return merge.left == left && merge.right == right;
          });
      if (!known) merges.push_back({left, right, id});
    }
    REQUIRE(vocabulary.BuildIndex() < 0);
    const Bpe bpe(std::move(vocabulary), merges, {}, ErrorKind::kUsage);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      std::vector<TokenId> ids;
      for (size_t length = random() % 120; text.size() < length;) {
        ids.push_back(static_cast<TokenId>(random() % 3));
        text += tokens[ids.back()];
      }
      // Twice, since a token's own word is remembered.
      for (int again = 0; again < 2; ++again) {
        std::vector<TokenId> got;
        bpe.Encode(text, &got);
        CHECK(got == SlowMerge(merges, ids));
      }
    }
  }
}

TEST_CASE("a megabyte in one piece is encoded") {
  for (const char* name : {"llama3", "llama2"}) {
    const auto tokenizer = LoadGolden(name);
    const std::string text(1 << 20, 'a');
    const std::vector<TokenId> ids = tokenizer->Encode(text, false);
    CHECK(tokenizer->Decode(ids, true) == text);
    const std::string spaces(1 << 20, ' ');
    CHECK(tokenizer->Decode(tokenizer->Encode(spaces, false), true) == spaces);
  }
  // Combining marks in the wrong order are sorted on the way.
  std::string marks = "e";
  for (int i = 0; i < 50000; ++i) marks += "\xCC\x81\xCC\x96";
  CHECK_FALSE(LoadGolden("qwen")->Encode(marks, false).empty());
}

TEST_CASE("one tokenizer serves many threads") {
  const auto tokenizer = LoadGolden("llama3");
  const std::string text = "The quick brown fox, it's 1234 words. Größe 你好\n";
  const std::vector<TokenId> want = LoadGolden("llama3")->Encode(text, true);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j)
        wrong += tokenizer->Encode(text, true) != want;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

std::string LoadError(const std::string& json, const std::string& config = "") {
  const TempDir directory;
  WriteTestFile(directory / "tokenizer.json", json);
  if (!config.empty()) {
    WriteTestFile(directory / "tokenizer_config.json", config);
  }
  try {
    Tokenizer::Load(directory.path(), ErrorKind::kModel);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kModel);
    const std::string message = error.what();
    CHECK(message.starts_with(directory.path()));
    return message.substr(directory.path().size() + 1);
  }
  return "loaded";
}

// A sound file with one part of it replaced.
std::string With(const std::string& part, const std::string& value) {
  std::string json =
      R"({"version": "1.0", "truncation": null, "added_tokens": [],)"
      R"( "normalizer": null, "pre_tokenizer": null, "post_processor": null,)"
      R"( "decoder": null, "model": {"type": "BPE", "dropout": null,)"
      R"( "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";
  const std::string key = "\"" + part + "\": ";
  const size_t begin = json.find(key) + key.size();
  size_t end = begin;
  for (int depth = 0; depth > 0 || (json[end] != ',' && json[end] != '}');
       ++end) {
    if (json[end] == '{' || json[end] == '[') ++depth;
    if (json[end] == '}' || json[end] == ']') --depth;
  }
  return json.replace(begin, end - begin, value);
}

TEST_CASE("a file that cannot be used is refused with the reason") {
  CHECK(LoadError(With("version", "\"1.0\"")) == "loaded");
  struct Row {
    const char* part;
    const char* value;
    const char* message;
  };
  const Row rows[] = {
      {"version", "\"2.0\"",
       "tokenizer.json: version '2.0' is not supported, only 1.0 is"},
      {"truncation", "{}",
       "tokenizer.json: truncation is not supported; set it to null "
       "(transformers ignores it when it is not asked to truncate or pad)"},
      {"type", "\"Unigram\"",
       "tokenizer.json: model: the model type 'Unigram' is not supported, only "
       "BPE is"},
      {"dropout", "0.1",
       "tokenizer.json: model: dropout is not supported; set it to null"},
      {"vocab", "[[\"a\", 0]]",
       "tokenizer.json: model: wanted an object 'vocab' and an array 'merges'"},
      {"vocab", "{\"a\": 0, \"b\": 0}",
       "tokenizer.json: model.vocab: 'a' and 'b' have the same id 0"},
      {"vocab", "{\"a\": 0, \"a\": 1}",
       "tokenizer.json: model.vocab: 'a' is there twice, once with id 1"},
      {"vocab", "{\"a\": 16777216}",
       "tokenizer.json: model.vocab: the id of 'a' is 16777216; the largest "
       "that is accepted is 16777215"},
      {"merges", "[\"a b\", \"a c\"]",
       "tokenizer.json: model.merges[1]: 'ac' is not in model.vocab"},
      {"merges", "[[\"a\", \"\"]]",
       "tokenizer.json: model.merges[0] has an empty half"},
      {"merges", "[\"ab\"]",
       "tokenizer.json: model.merges[0] is 'ab'; wanted two tokens with a "
       "space between them"},
      {"normalizer", "{\"type\": \"Nmt\"}",
       "tokenizer.json: normalizer: the normalizer 'Nmt' is not supported; "
       "supported are Sequence, NFC, NFD, NFKC, NFKD, Prepend, Replace, "
       "Lowercase, Strip, StripAccents and ByteLevel"},
      {"normalizer", "{\"type\": \"Prepend\"}",
       "tokenizer.json: normalizer.prepend is missing; wanted a string"},
      {"pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Bert\"}]}",
       "tokenizer.json: pre_tokenizer.pretokenizers[0]: the pre-tokenizer "
       "'Bert' is not supported; supported are Sequence, ByteLevel, Split, "
       "Digits, Metaspace, Whitespace, WhitespaceSplit and Punctuation"},
      {"pre_tokenizer",
       "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a(\"}, \"behavior\": "
       "\"Isolated\", \"invert\": false}",
       "tokenizer.json: pre_tokenizer.pattern: the pattern 'a(' cannot be "
       "used: missing closing parenthesis"},
      {"pre_tokenizer",
       "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\bx\"}, "
       "\"behavior\": \"Isolated\", \"invert\": false}",
       "tokenizer.json: pre_tokenizer.pattern: the pattern '\\bx' uses '\\b', "
       "which is not supported"},
      {"post_processor", "{\"type\": \"BertProcessing\"}",
       "tokenizer.json: post_processor: the post-processor 'BertProcessing' is "
       "not supported; supported are TemplateProcessing, ByteLevel and "
       "Sequence"},
      {"decoder", "{\"type\": \"WordPiece\"}",
       "tokenizer.json: decoder: the decoder 'WordPiece' is not supported; "
       "supported are Sequence, ByteLevel, Metaspace, Replace, ByteFallback, "
       "Fuse and Strip"},
      {"added_tokens",
       "[{\"id\": 7, \"content\": \"<s>\", \"single_word\": false, \"lstrip\": "
       "false, \"rstrip\": false, \"normalized\": false, \"special\": true}]",
       "tokenizer.json: added_tokens[0]: '<s>' has id 7, where Hugging Face "
       "tokenizers gives it 3: an added token has its id in model.vocab, or "
       "the next one behind it"},
      {"added_tokens", "[{\"id\": -1}]",
       "tokenizer.json: added_tokens[0].id is number; wanted a number that is "
       "not negative"},
  };
  for (const Row& row : rows) {
    CHECK(LoadError(With(row.part, row.value)) == row.message);
  }
  CHECK(LoadError("{\"model\": {\"vocab\": {\"a\": -1}}}") ==
        "tokenizer.json: malformed JSON in line 1, column 27: the id of 'a' is "
        "not an integer in [0, 16777215]");
  CHECK(LoadError("{\"model\":\n {\"vocab\": {\"\\ud800\": 1}}}") ==
        "tokenizer.json: malformed JSON in line 2, column 20: half a surrogate "
        "pair in a string");
  CHECK(LoadError("[]") ==
        "tokenizer.json: malformed JSON in line 1, column 1: wanted an object");
  CHECK(LoadError("{\"x\": " + std::string(1000, '[') + "}") ==
        "tokenizer.json: malformed JSON in line 1, column 263: nested too "
        "deeply");
  CHECK(LoadError(With("version", "\"1.0\""),
                  "{\"split_special_tokens\": true}") ==
        "tokenizer_config.json: split_special_tokens is not supported; set it "
        "to false");
}

TEST_CASE(
    "a damaged file ends in an error or in a tokenizer, never otherwise") {
  const std::string sound =
      ReadTestFile(GoldenDirectory("llama2") + "/tokenizer.json");
  std::mt19937 random(9);
  const TempDir directory;
  for (int i = 0; i < 300; ++i) {
    std::string json = sound;
    const size_t at = random() % json.size();
    if (i % 3 == 0) {
      json.resize(at);
    } else {
      json[at] = static_cast<char>(i % 3 == 1 ? random()
                                              : "{}[],:\"\\0"[random() % 9]);
    }
    WriteTestFile(directory / "tokenizer.json", json);
    try {
      const auto tokenizer =
          Tokenizer::Load(directory.path(), ErrorKind::kModel);
      tokenizer->Decode(tokenizer->Encode("The quick 你好 <s>", true), false);
    } catch (const Error& error) {
      CHECK_FALSE(std::string(error.what()).empty());
    }
  }
}

TEST_CASE("merges may stand before the vocabulary, and text may be escaped") {
  const TempDir directory;
  WriteTestFile(directory / "tokenizer.json",
                R"({"model": {"merges": [["\u0061", "b\ud83d\ude00"]],)"
                R"( "vocab": {"a": 0, "b😀": 1, "ab😀": 2, "b": 3, "😀": 4},)"
                R"( "type": "BPE"}})");
  const auto tokenizer = Tokenizer::Load(directory.path(), ErrorKind::kModel);
  CHECK(tokenizer->Encode("a", false) == std::vector<TokenId>{0});
  CHECK(tokenizer->Encode("ab😀", false) == std::vector<TokenId>{0, 3, 4});
  CHECK(tokenizer->Decode({2, 0}, false) == "ab😀 a");
}

std::vector<std::string> MatchAll(std::string_view pattern,
                                  std::string_view text) {
  const Regex regex(pattern, "test", ErrorKind::kUsage);
  Regex::Matches matches(regex);
  matches.Start(text);
  std::vector<std::string> found;
  while (const auto match = matches.Next()) {
    found.emplace_back(text.substr(match->begin, match->end - match->begin));
  }
  return found;
}

TEST_CASE("patterns mean what they mean to Oniguruma") {
  using Strings = std::vector<std::string>;
  // U+180E is no white space; U+0085 is.
  CHECK(MatchAll("\\s", "a\u180E\u0085b") == Strings{"\u0085"});
  CHECK(MatchAll("[^\\s]+", "ab\u3000c") == Strings{"ab", "c"});
  CHECK(MatchAll("x{,2}y", "xxxy") == Strings{"xxy"});
  CHECK(MatchAll("\\p{Han}+", "一、二") == Strings{"一", "二"});
  CHECK(MatchAll("(?i:'s|'t)", "'S'T'\u017F") ==
        Strings{"'S", "'T", "'\u017F"});
  CHECK(MatchAll("a|", "ba") == Strings{"", "a"});
  CHECK(MatchAll("\\u4e00|\\x41|\\x{1F600}", "一A😀") ==
        Strings{"一", "A", "😀"});
  // Assigned since Unicode 14: a letter all the same.
  CHECK(MatchAll("\\p{L}", "\U00031350") == Strings{"\U00031350"});
  for (const char* refused : {"\\b", "(?<n>a)", "[[a]]", "[a&&b]", "a{2}+",
                              "\\p{Letter}", "\\h", "(?i)a"}) {
    CHECK_THROWS_AS(Regex(refused, "test", ErrorKind::kUsage), Error);
  }
}

TEST_CASE("ill-formed UTF-8 is mended as Python's errors='replace' does") {
  const auto mended = [](std::string_view bytes) {
    std::string out;
    AppendMendedUtf8(bytes, true, &out);
    return out;
  };
  CHECK(mended("a\xFF\xC0\x80z") == "a\uFFFD\uFFFD\uFFFDz");
  CHECK(mended("\xE4\xBD") == "\uFFFD");
  CHECK(mended("\xF0\x9F\x98|\xED\xA0\x80") == "\uFFFD|\uFFFD\uFFFD\uFFFD");
  CHECK(mended("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");
}

}  // namespace
}  // namespace rbln
