#!/usr/bin/env python3
"""Asks the checkpoint the questions of heldout.jsonl, and a little more.

    pip install torch transformers jinja2
    python evaluate.py [--checkpoint DIR] [--wrong]

Answers are greedy, from the bfloat16 weights as stored, computed in float32;
an answer counts when it is the expected one to the letter. Beside the held-out
wordings it asks for names told earlier in the conversation, names that were
made up for this and occur in no training text.
"""

import argparse
import json
import os
import pathlib
import random

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 64
MAX_TOKENS = 100


def memory_questions():
    """(topic, messages, answer) with names that are new."""
    text = (HERE / "conversations.jsonl").read_text(encoding="utf-8")
    rng = random.Random(3)
    while True:
        name = "".join(rng.choices(
            ["br", "st", "kl", "v", "m", "dr", "n", "gr", "p", "t"], k=1) +
            rng.choices(["a", "e", "i", "o", "u"], k=1) +
            rng.choices(["ld", "n", "rs", "m", "x", "lt"], k=1) +
            rng.choices(["a", "o", "y", "us", "ek"], k=1)).capitalize()
        if name in text:
            continue
        yield ("recall name", [f"My name is {name}.",
                               f"Nice to meet you, {name}!",
                               "What is the capital of Japan?",
                               "The capital of Japan is Tokyo.",
                               "What is my name?"], f"Your name is {name}.")
        yield ("recall pet", [f"I have a rabbit called {name}.",
                              f"{name} is a nice name for a rabbit.",
                              "What is the name of my rabbit?"],
               f"Your rabbit is called {name}.")


def questions():
    for line in open(HERE / "heldout.jsonl", encoding="utf-8"):
        line = json.loads(line)
        yield line["topic"], [line["question"]], line["answer"]
    made_up = memory_questions()
    for _ in range(80):
        yield next(made_up)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parent)
    parser.add_argument("--wrong", action="store_true",
                        help="print every wrong answer")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    tokenizer.padding_side = "left"
    model = AutoModelForCausalLM.from_pretrained(
        args.checkpoint, dtype=torch.float32)
    torch.set_num_threads(2)

    asked = sorted(questions(), key=lambda q: len(str(q[1])))
    right = {}
    for start in range(0, len(asked), BATCH):
        part = asked[start:start + BATCH]
        texts = [tokenizer.apply_chat_template(
            [{"role": ("user", "assistant")[i % 2], "content": content}
             for i, content in enumerate(turns)],
            add_generation_prompt=True, tokenize=False)
            for _, turns, _ in part]
        inputs = tokenizer(texts, add_special_tokens=False, padding=True,
                           return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            outputs = model.generate(**inputs, max_new_tokens=MAX_TOKENS,
                                     do_sample=False)
        answers = tokenizer.batch_decode(
            outputs[:, inputs["input_ids"].shape[1]:],
            skip_special_tokens=True)
        for (topic, turns, expected), answer in zip(part, answers):
            right.setdefault(topic, []).append(answer == expected)
            if args.wrong and answer != expected:
                print(f"{topic}: {turns[-1]!r}\n  {answer!r}\n  not "
                      f"{expected!r}")
    for topic, results in sorted(right.items(),
                                 key=lambda r: sum(r[1]) / len(r[1])):
        print(f"{topic:20} {sum(results):4} of {len(results):4}")
    total = [r for results in right.values() for r in results]
    print(f"{'all':20} {sum(total):4} of {len(total):4}  "
          f"{100 * sum(total) / len(total):.1f} %")


if __name__ == "__main__":
    main()
