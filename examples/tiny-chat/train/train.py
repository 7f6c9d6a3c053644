#!/usr/bin/env python3
"""Trains Tiny, the example chat model, on conversations.jsonl.

    pip install torch tokenizers safetensors
    python make_text.py      (only when the text is to change)
    python train.py          (about a quarter of an hour on two free cores)

Writes the checkpoint into the directory above, in the Hugging Face layout that
transformers' LlamaForCausalLM loads, a first time early on and then every
--export-every steps, so that an interrupted run leaves a usable model.
"""

import argparse
import json
import math
import pathlib
import random
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        pre_tokenizers, processors, trainers)
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 3,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 192,
    "initializer_range": 0.02,
    "intermediate_size": 448,
    "max_position_embeddings": 2048,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "pad_token_id": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 1536,
}
GENERATION_CONFIG = {
    "bos_token_id": 0,
    "do_sample": False,
    "eos_token_id": [3, 1],
    "pad_token_id": 1,
}

BOS, END, IM_START, IM_END = SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] not in ['system', 'user', 'assistant'] %}
        {{- raise_exception('Tiny knows the roles system, user and assistant, \
not ' + message['role'] + '.') }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {{- message['content'] | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
# How Llama 3 cuts text into words before merging.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# Text ----------------------------------------------------------------------


def read_conversations():
    with open(HERE / "conversations.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def roles(conversation):
    """(role, content) pairs; an empty system prompt is left out."""
    if conversation[0]:
        yield "system", conversation[0]
    for i, content in enumerate(conversation[1:]):
        yield ("user", "assistant")[i % 2], content


def train_tokenizer(conversations):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        ("\n".join(content for _, content in roles(c)) + "\nsystem\nuser\n"
         "assistant\n" for c in conversations),
        trainers.BpeTrainer(
            vocab_size=CONFIG["vocab_size"], show_progress=False,
            special_tokens=[AddedToken(t, special=True) for t in SPECIAL],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1",
            special_tokens=[(BOS, tokenizer.token_to_id(BOS))])])
    return tokenizer


def encode(tokenizer, conversation, max_length):
    """(ids, learn): `learn` marks the tokens that the assistant speaks. A
    conversation that is too long is cut after its last whole answer."""
    def ids_of(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    ids, learn = [tokenizer.token_to_id(BOS)], [0]
    whole = 1
    for role, content in roles(conversation):
        head = ids_of(f"{IM_START}{role}\n")
        body = ids_of(f"{content}{IM_END}")
        tail = ids_of("\n")
        ids += head + body + tail
        spoken = int(role == "assistant")
        learn += [0] * len(head) + [spoken] * len(body) + [0] * len(tail)
        if len(ids) > max_length:
            break
        if spoken:
            whole = len(ids)
    return ids[:whole], learn[:whole]


def batches(examples, tokens_per_batch, seed):
    """Batches (ids, learn) without end, each (count, length). A batch holds
    conversations of about one length, so that little of it is padding."""
    rng = random.Random(seed)
    while True:
        order = sorted(examples, key=lambda e: len(e[0]) + rng.uniform(0, 16))
        epoch, rows = [], []
        for i, row in enumerate(order):
            rows.append(row)
            longest = max(len(ids) for ids, _ in order[i:i + 2])
            if i + 1 == len(order) or \
                    longest * (len(rows) + 1) > tokens_per_batch:
                epoch.append(rows)
                rows = []
        rng.shuffle(epoch)
        for rows in epoch:
            length = max(len(ids) for ids, _ in rows)
            yield tuple(
                torch.tensor([row[i] + [padding] * (length - len(row[i]))
                              for row in rows])
                for i, padding in ((0, CONFIG["pad_token_id"]), (1, 0)))


# Model; parameters are named as in Hugging Face checkpoints ------------------


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight,
                          CONFIG["rms_norm_eps"])


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def attend(q, k, v):
    """Causal attention, (batch, heads, length, head_dim) each."""
    length = q.shape[2]
    if length > 256:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    # On CPUs the plain form is several times faster for short rows.
    later = torch.full((length, length), -math.inf, dtype=q.dtype).triu(1)
    scores = q / math.sqrt(q.shape[3]) @ k.transpose(2, 3) + later
    return scores.softmax(-1, dtype=q.dtype) @ v


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        hidden, dim = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.heads = CONFIG["num_attention_heads"]
        self.kv_heads = CONFIG["num_key_value_heads"]
        self.q_proj = linear(hidden, self.heads * dim)
        self.k_proj = linear(hidden, self.kv_heads * dim)
        self.v_proj = linear(hidden, self.kv_heads * dim)
        self.o_proj = linear(self.heads * dim, hidden)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape

        def split(y, heads):  # -> (batch, heads, length, head_dim)
            return y.view(batch, length, heads, -1).transpose(1, 2)

        def rotate(y):
            first, second = y.chunk(2, dim=-1)
            return y * cos + torch.cat((-second, first), dim=-1) * sin

        q = rotate(split(self.q_proj(x), self.heads))
        k = rotate(split(self.k_proj(x), self.kv_heads))
        v = split(self.v_proj(x), self.kv_heads)
        group = self.heads // self.kv_heads
        k, v = (y.repeat_interleave(group, 1) for y in (k, v))
        out = attend(q, k, v)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj = linear(hidden, inner)
        self.up_proj = linear(hidden, inner)
        self.down_proj = linear(inner, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = RMSNorm(CONFIG["hidden_size"])
        self.self_attn = Attention()
        self.post_attention_layernorm = RMSNorm(CONFIG["hidden_size"])
        self.mlp = MLP()

    def forward(self, x, *context):
        x = x + self.self_attn(self.input_layernorm(x), *context)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        hidden = CONFIG["hidden_size"]
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], hidden)
        self.layers = nn.ModuleList(
            Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = RMSNorm(hidden)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Decoder()
        dim = CONFIG["head_dim"]
        self.frequencies = CONFIG["rope_theta"] ** (
            -torch.arange(0, dim, 2).float() / dim)
        into_residual = 1 / math.sqrt(2 * CONFIG["num_hidden_layers"])
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.05 * (into_residual if last
                                                    else 1))

    def loss(self, ids, learn):
        """Mean cross entropy of the tokens to learn. Both (count, length)."""
        positions = torch.arange(ids.shape[1])
        angles = torch.outer(positions, self.frequencies).repeat(1, 2)
        x = self.model.embed_tokens(ids)
        with torch.autocast("cpu", torch.bfloat16):
            cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
            for layer in self.model.layers:
                x = layer(x, cos, sin)
            # Only the places before a token to learn need logits.
            x = x[:, :-1][learn[:, 1:] == 1]
            logits = F.linear(self.model.norm(x),
                              self.model.embed_tokens.weight)
        return F.cross_entropy(logits.float(), ids[:, 1:][learn[:, 1:] == 1])


# Output --------------------------------------------------------------------


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n",
                    encoding="utf-8")


def write_tokenizer(directory, tokenizer):
    tokenizer.save(str(directory / "tokenizer.json"))
    special = {"bos_token": BOS, "eos_token": IM_END, "pad_token": END}
    write_json(directory / "special_tokens_map.json", special)
    write_json(directory / "tokenizer_config.json", {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {
                "content": token, "lstrip": False, "normalized": False,
                "rstrip": False, "single_word": False, "special": True}
            for token in SPECIAL},
        **special,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONFIG["max_position_embeddings"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    })


def write_model(directory, model):
    write_json(directory / "config.json", CONFIG)
    write_json(directory / "generation_config.json", GENERATION_CONFIG)
    state = {name: value.detach().bfloat16().contiguous()
             for name, value in model.state_dict().items()}
    # Renamed into place, so that nobody ever reads half a file.
    partial = directory / "model.safetensors.partial"
    save_file(state, partial, {"format": "pt"})
    partial.rename(directory / "model.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=HERE.parent)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--minutes", type=float, default=math.inf,
                        help="end by then, after fewer steps if need be")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--export-every", type=int, default=500)
    parser.add_argument("--resume", action="store_true",
                        help="go on from the weights in --output")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.output.mkdir(parents=True, exist_ok=True)

    conversations = read_conversations()
    tokenizer = train_tokenizer(conversations)
    write_tokenizer(args.output, tokenizer)
    examples = [encode(tokenizer, c, 1024) for c in conversations]
    examples = [e for e in examples if any(e[1])]
    tokens = sum(len(ids) for ids, _ in examples)
    learned = sum(sum(learn) for _, learn in examples)

    model = Llama()
    if args.resume:
        model.load_state_dict(load_file(args.output / "model.safetensors"))
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{len(examples)} conversations, {tokens} tokens, {learned} of them "
          f"to learn; {parameters} parameters", flush=True)
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1},
         {"params": others, "weight_decay": 0.0}],
        betas=(0.9, 0.95), fused=True)

    stream = batches(examples, args.batch_tokens, args.seed)
    start, seen, average = time.time(), 0, None
    step, progress = 0, 0.0
    while progress < 1:
        step += 1
        progress = min(1.0, max(step / args.steps, (time.time() - start) /
                                (60 * args.minutes)))
        warm = min(1.0, step / 100)
        cosine = 0.5 + 0.5 * math.cos(math.pi * progress)
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * warm * (0.01 + 0.99 * cosine)
        batch = next(stream)
        loss = model.loss(*batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += batch[0].numel()
        average = (loss.item() if average is None
                   else 0.95 * average + 0.05 * loss.item())
        if step % 20 == 0:
            seconds = time.time() - start
            print(f"step {step} loss {average:.4f} epoch {seen / tokens:.2f} "
                  f"{seen / seconds:.0f} tokens/s {seconds:.0f} s",
                  flush=True)
        if step % args.export_every == 0 or progress == 1:
            write_model(args.output, model)


if __name__ == "__main__":
    main()
