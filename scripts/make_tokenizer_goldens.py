#!/usr/bin/env python3
"""Writes tests/data/text/tokenizers: small tokenizers and what they must answer.

Trains a few tokenizers on text made here, and records the ids and texts that
Hugging Face `tokenizers` gives for inputs that are likely to go wrong. Each
directory gets tokenizer.json, tokenizer_config.json and cases.jsonl, one case a
line:

  {"text": ..., "ids": [...], "with_special": [...]}   text to ids
  {"bytes": "hex", "ids": [...]}                       bytes that are not UTF-8
  {"decode": [...], "all": ..., "skipped": ...}        ids to text

Needs the Python packages tokenizers (0.23) and nothing else. The same version
gives the same files.
"""

import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

OUT = pathlib.Path(__file__).parent.parent / "tests/data/text/tokenizers"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

ENGLISH = """The quick brown fox jumps over the lazy dog. It's what they'll
remember: we've seen 1234 birds, I'm sure, and you'd say they're lovely.
A harbour town wakes slowly; the ferries come in at 7:45, and the baker has
been at work since three. Nobody asked where the 38 boxes had gone."""
OTHERS = """Größe, façade, naïve, señor, смысл жизни, καλημέρα κόσμε, 你好世界,
こんにちは世界, 안녕하세요 세계, مرحبا بالعالم, שלום עולם, नमस्ते दुनिया, ไทย.
👋🏽 👨‍👩‍👧‍👦 🏳️‍🌈 ✨ café cafe\u0301 ½ Ⅷ ١٢٣"""
CODE = """def add(a, b):\n    return a + b  # sum\n\nfor (int i = 0; i < n; ++i) {
\tout[i] = in[i] * 0x1F;\n}\n<div class="x">&amp;</div>\n{"key": [1, 2.5e-3]}"""


def corpus():
    rng = random.Random(7)
    words = (ENGLISH + " " + OTHERS).split()
    lines = [ENGLISH, OTHERS, CODE] * 4
    for _ in range(300):
        lines.append(" ".join(rng.choices(words, k=rng.randint(3, 14))))
    return lines


def texts(specials):
    rng = random.Random(11)
    out = ["", " ", "  ", "\n", "\t\n ", "a", " a", "a ", "  a  b  ",
           ENGLISH, OTHERS, CODE, "I'LL we'Ve 'S '\u017f DON'T",
           "1 12 123 1234 12345 1234567890", "a1b22c333", "x\u0000y\u0001\u007f",
           "e\u0301 \u1100\u1161\u11a8 \ufb01 \u212b \u0344 q\u0307\u0323",
           "\u00a0\u2003\u3000\u200b\u180e\u2028\u0085|", "▁▁a▁b ▁ c",
           "<0x41><0x0A>", "a" * 200, " " * 70 + "x" + "\n" * 40, "ab" * 100,
           "\U0001f469\u200d\U0001f52c\U0001f3fd", "\U00031350\U0001e030",
           "...!?--- ((())) __init__", "x" + "\u0301" * 20, "\r\n\r\n a\r\nb"]
    for token in specials:
        out += [token, f"a{token}b", f" {token} ", f"{token}{token}",
                f"x  {token}\n y", token[:-1], f"hi{token[1:]}"]
    pieces = [" ", "  ", "\n", "'s", "the", "é", "e\u0301", "你好", "👋🏽", "12",
              ".", "_", "▁", "Straße", "안녕", "\t", "\u00a0", *specials]
    for _ in range(60):
        out.append("".join(rng.choices(pieces, k=rng.randint(1, 12))))
    for _ in range(40):
        out.append("".join(chr(rng.choice([rng.randint(1, 0x2FF),
                                           rng.randint(0x300, 0xD7FF),
                                           rng.randint(0x1F300, 0x1FAFF)]))
                           for _ in range(rng.randint(1, 12))))
    return out


def write(name, tokenizer, specials, config=None, tweak=None):
    directory = OUT / name
    directory.mkdir(parents=True, exist_ok=True)
    root = json.loads(tokenizer.to_str())
    if tweak:
        tweak(root)
    path = directory / "tokenizer.json"
    path.write_text(json.dumps(root, ensure_ascii=False,
                               separators=(",", ":")) + "\n")
    tokenizer = Tokenizer.from_file(str(path))
    (directory / "tokenizer_config.json").write_text(
        json.dumps(config or {}, indent=1) + "\n")

    def encode(text, special=False):
        return tokenizer.encode(text, add_special_tokens=special).ids

    rng = random.Random(13)
    cases = []
    inputs = texts(specials)
    for text in inputs:
        cases.append({"text": text, "ids": encode(text),
                      "with_special": encode(text, True)})
    for _ in range(30):
        data = bytes(rng.choice([rng.randint(0, 255), *b"ab \xe4\xbd\xf0\x9f"])
                     for _ in range(rng.randint(1, 12)))
        cases.append({"bytes": data.hex(),
                      "ids": encode(data.decode("utf-8", "replace"))})
    size = tokenizer.get_vocab_size()
    sequences = [encode(text, True) for text in inputs]
    sequences += [[rng.randrange(size + 3) for _ in range(rng.randint(0, 16))]
                  for _ in range(60)]
    # Runs of the 256 single-byte tokens, wherever they lie.
    byte_ids = [i for i in range(size)
                if len(tokenizer.id_to_token(i) or "") == 1
                or (tokenizer.id_to_token(i) or "").startswith("<0x")]
    sequences += [[rng.choice(byte_ids) for _ in range(rng.randint(1, 10))]
                  for _ in range(40)]
    for ids in sequences:
        cases.append({"decode": ids,
                      "all": tokenizer.decode(ids, skip_special_tokens=False),
                      "skipped": tokenizer.decode(ids)})
    with open(directory / "cases.jsonl", "w") as out:
        for case in cases:
            out.write(json.dumps(case) + "\n")


def train(tokenizer, size, specials, byte_level):
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials, show_progress=False,
        initial_alphabet=sorted(alphabet), limit_alphabet=256))
    return tokenizer


def bos_template(tokenizer, bos, eos=None):
    specials = [(t, tokenizer.token_to_id(t)) for t in (bos, eos) if t]
    return processors.TemplateProcessing(
        single=f"{bos} $A" + (f" {eos}" if eos else ""),
        pair=f"{bos} $A {bos} $B", special_tokens=specials)


def legacy_merges(root):
    root["model"]["merges"] = [" ".join(m) for m in root["model"]["merges"]]


def byte_level():
    split = lambda pattern: pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = split(LLAMA3)
    t.decoder = decoders.ByteLevel()
    train(t, 700, ["<|begin_of_text|>", "<|end_of_text|>"], True)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        bos_template(t, "<|begin_of_text|>")])
    t.add_tokens([AddedToken("<|user|>", rstrip=True, normalized=False),
                  AddedToken("word", single_word=True, normalized=False),
                  AddedToken("<pad>", lstrip=True, normalized=False)])
    write("llama3", t, ["<|begin_of_text|>", "<|user|>", "word", "<pad>"],
          {"bos_token": "<|begin_of_text|>",
           "eos_token": {"content": "<|end_of_text|>"}})

    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = split(QWEN)
    t.decoder = decoders.ByteLevel()
    train(t, 600, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], True)
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.add_tokens([AddedToken("<tool_call>", normalized=False)])
    write("qwen", t, ["<|im_start|>", "<|im_end|>", "<tool_call>"],
          {"bos_token": None, "eos_token": "<|im_end|>"}, legacy_merges)

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    train(t, 600, ["<|endoftext|>"], True)
    t.post_processor = processors.ByteLevel()
    write("gpt2", t, ["<|endoftext|>"],
          {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    train(t, 500, ["<|endoftext|>"], True)
    write("digits", t, ["<|endoftext|>"], {"eos_token": "<|endoftext|>"})


def sentencepiece():
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]

    def model(root, bytes_left_out=()):
        """Puts the byte tokens behind <unk>, <s> and </s>, as Llama has them."""
        vocab = root["model"]["vocab"]
        order = sorted(vocab, key=vocab.get)
        order[3:3] = [b for b in byte_tokens if b not in bytes_left_out]
        root["model"]["vocab"] = {t: i for i, t in enumerate(order)}
        # The byte tokens are of the model, not added to it.
        root["added_tokens"] = [t for t in root["added_tokens"] if t["id"] < 3]

    def trained(pre_tokenizer=None):
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True,
                                 byte_fallback=True))
        t.pre_tokenizer = pre_tokenizer or pre_tokenizers.Metaspace(
            prepend_scheme="always")
        train(t, 600, ["<unk>", "<s>", "</s>"], False)
        t.post_processor = bos_template(t, "<s>")
        return t

    config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}
    strip = [decoders.Replace("▁", " "), decoders.ByteFallback(),
             decoders.Fuse(), decoders.Strip(" ", 1, 0)]

    t = trained()
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                         normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence(strip)
    write("llama2", t, ["<s>", "</s>"], config,
          lambda root: (model(root), legacy_merges(root)))

    t = trained()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first",
                                               split=False)
    t.decoder = decoders.Sequence(strip)
    t.post_processor = bos_template(t, "<s>", "</s>")
    write("metaspace", t, ["<s>", "</s>"], config, model)

    # Some bytes have no token: their characters are unknown.
    t = trained()
    t.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Lowercase(),
        normalizers.Replace(Regex(r" {2,}"), " ")])
    t.decoder = decoders.Metaspace()
    write("lowercase", t, ["<s>", "</s>"], config,
          lambda root: model(root, byte_tokens[0x80:0xE8]))


if __name__ == "__main__":
    byte_level()
    sentencepiece()
