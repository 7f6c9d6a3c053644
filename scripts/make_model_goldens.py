#!/usr/bin/env python3
"""Makes the model goldens under tests/data/models.

For each model family a small random checkpoint is written from a fixed seed,
and beside it golden.json: what transformers computes from it in float32 with
eager attention. The example model gets a golden of its own, from chat prompts.

    pip install torch transformers safetensors jinja2
    python scripts/make_model_goldens.py [NAME...]     (default: all of them)

golden.json is

    {"family": "...",
     "max_seq_len": 256,           where it matters: see LONG and SHORT
     "prompts": [{"ids": [...],
                  "logits": [{"position": 6, "values": [...]}, ...],
                  "greedy": [...],        64 tokens, an EOS does not end them
                  "min_gap": 0.01}, ...]}

`logits` holds the first, a middle and the last position of each prompt.
`min_gap` is the smallest distance between the best and the second best logit
met on the greedy path, divided by the root mean square of those logits. A seed
is only taken if every gap is above MIN_GAP, so that "the same tokens" is a
fair demand of any correct float32 implementation, and if the greedy text does
not collapse into a short cycle. The seeds tried are 1, 2, 3, ...; the first
good one is taken, so a rerun ends with the same files.
"""

import json
import math
import os
import pathlib
import shutil
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "models"
EXAMPLE = ROOT / "examples" / "tiny-chat"

GREEDY_TOKENS = 64
PROMPT_LENGTHS = (1, 7, 40)
MIN_GAP = 1e-3
MIN_EXAMPLE_GAP = 1e-4  # its weights are as they are, so a bit laxer
MIN_DISTINCT = 16  # of the 64 greedy tokens

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
    "mlp_bias": False,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 200,
}


EIGHT_HEADS = {"hidden_size": 64, "intermediate_size": 136,
               "num_attention_heads": 8, "num_key_value_heads": 2,
               "vocab_size": 250}


def without(config, *keys):
    return {k: v for k, v in config.items() if k not in keys}


# The configs are written as checkpoints in the wild have them: most under the
# names of transformers 4, qwen3 under those of transformers 5
# (`rope_parameters`, `dtype`), and with keys left to their defaults here and
# there.
FAMILIES = {
    "llama-mha": LLAMA,
    "llama-gqa-tied-linear": LLAMA | {
        "hidden_size": 48, "intermediate_size": 96, "num_attention_heads": 6,
        "num_key_value_heads": 2, "tie_word_embeddings": True,
        "vocab_size": 256, "torch_dtype": "bfloat16",
        "rope_scaling": {"type": "linear", "factor": 4.0},
    },
    # Of the eight wavelengths one is kept, one is blended and six are
    # stretched.
    "llama3-rope": LLAMA | {
        "hidden_size": 64, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "torch_dtype": "bfloat16", "vocab_size": 256,
        "tie_word_embeddings": True, "eos_token_id": [2, 3, 4],
        "rope_scaling": {
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32, "rope_type": "llama3"},
    },
    "mistral-window": without(
        LLAMA, "attention_bias", "mlp_bias", "rope_scaling") | {
        "architectures": ["MistralForCausalLM"], "model_type": "mistral",
        "hidden_size": 48, "intermediate_size": 80, "num_key_value_heads": 2,
        "sliding_window": 8, "torch_dtype": "float16", "vocab_size": 220,
    },
    # The window of this one is switched off, as in the released checkpoints.
    "qwen2": without(
        LLAMA, "attention_bias", "mlp_bias", "rope_scaling",
        "bos_token_id") | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
        "hidden_size": 48, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "sliding_window": 8, "max_window_layers": 1,
        "use_sliding_window": False, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "vocab_size": 300,
    },
    "qwen3": without(
        LLAMA, "mlp_bias", "rope_scaling", "rope_theta", "torch_dtype",
        "bos_token_id") | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
        "head_dim": 16, "hidden_size": 40, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6, "use_sliding_window": False,
        "sliding_window": None, "vocab_size": 240, "dtype": "bfloat16",
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    },
    "qwen2-yarn": without(
        LLAMA, "attention_bias", "mlp_bias", "bos_token_id") | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
        "hidden_size": 64, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 128, "torch_dtype": "bfloat16",
        "rope_scaling": {
            "factor": 4.0, "original_max_position_embeddings": 64,
            "type": "yarn"},
    },
    "llama-yarn-mscale": LLAMA | {
        "hidden_size": 64, "num_key_value_heads": 2, "torch_dtype": "bfloat16",
        "rope_scaling": {
            "factor": 8.0, "original_max_position_embeddings": 32,
            "beta_fast": 16, "beta_slow": 2, "mscale": 1.5,
            "mscale_all_dim": 0.5, "truncate": False, "rope_type": "yarn"},
    },
    "llama-dynamic": LLAMA | {
        "max_position_embeddings": 128, "num_key_value_heads": 2,
        "torch_dtype": "bfloat16",
        "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
    },
    "mistral-longrope": without(
        LLAMA, "attention_bias", "mlp_bias") | {
        "architectures": ["MistralForCausalLM"], "model_type": "mistral",
        "num_key_value_heads": 2, "sliding_window": None,
        "torch_dtype": "bfloat16",
        "rope_scaling": {
            "type": "longrope", "original_max_position_embeddings": 128,
            "short_factor": [1.0, 1.1, 1.3, 1.5],
            "long_factor": [1.5, 2.5, 4.0, 6.0]},
    },
    # The last of three layers attends to all.
    "qwen2-hybrid-window": without(
        LLAMA, "attention_bias", "mlp_bias", "rope_scaling",
        "bos_token_id") | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
        "num_hidden_layers": 3, "num_key_value_heads": 2,
        "sliding_window": 8, "max_window_layers": 1,
        "use_sliding_window": True, "torch_dtype": "bfloat16",
        "layer_types": ["sliding_attention", "sliding_attention",
                        "full_attention"],
    },
    # Without layer_types: the layers from max_window_layers on slide.
    "qwen3-hybrid-window": without(
        LLAMA, "mlp_bias", "rope_scaling", "bos_token_id") | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
        "head_dim": 8, "num_key_value_heads": 2, "sliding_window": 8,
        "max_window_layers": 1, "use_sliding_window": True,
        "torch_dtype": "bfloat16",
    },
    # Enough heads for eight tensor parallel ranks, and fewer KV heads.
    "llama-8-heads": LLAMA | EIGHT_HEADS | {
        "torch_dtype": "bfloat16", "tie_word_embeddings": True},
    "mistral-8-heads": without(
        LLAMA, "attention_bias", "mlp_bias", "rope_scaling") | EIGHT_HEADS | {
        "architectures": ["MistralForCausalLM"], "model_type": "mistral",
        "sliding_window": 16, "torch_dtype": "bfloat16"},
    "qwen2-8-heads": without(
        LLAMA, "attention_bias", "mlp_bias", "rope_scaling",
        "bos_token_id") | EIGHT_HEADS | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
        "use_sliding_window": False, "torch_dtype": "bfloat16"},
    "qwen3-8-heads": without(
        LLAMA, "mlp_bias", "rope_scaling", "bos_token_id") | EIGHT_HEADS | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
        "head_dim": 16, "use_sliding_window": False, "sliding_window": None,
        "torch_dtype": "bfloat16"},
    "llama-bias": LLAMA | {
        "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1,
        "head_dim": 8, "torch_dtype": "float16",
    },
    "llama-odd-sizes": LLAMA | {
        "hidden_size": 60, "intermediate_size": 172, "num_attention_heads": 6,
        "num_key_value_heads": 3, "torch_dtype": "bfloat16",
        "tie_word_embeddings": True, "vocab_size": 301,
    },
    "llama-sharded": without(LLAMA, "rope_scaling", "rope_theta") | {
        "hidden_size": 48, "num_key_value_heads": 2, "torch_dtype": "bfloat16",
    },
}
SHARDS = {"llama-sharded": 3}
# Beside golden.json, golden-long.json for sequences of so many tokens in all,
# with a prompt that goes beyond what the model was trained for. Where the
# frequencies depend on the length, transformers is given texts filled up to it:
# what comes later changes nothing else.
LONG = {"qwen2-yarn": 256, "llama-yarn-mscale": 256, "llama-dynamic": 256,
        "mistral-longrope": 256, "llama-gqa-tied-linear": 512}
LONG_PROMPT_LENGTHS = (1, 40, 170)
# The same for golden.json, where the model's own limit would be another case.
SHORT = {"mistral-longrope": 128}

EXAMPLE_PROMPTS = [
    [{"role": "user", "content": "Hello! Who are you?"}],
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "system", "content": "Answer in one word."},
     {"role": "user", "content": "What is the opposite of hot?"}],
    [{"role": "user", "content": "Hi, my name is Anna."},
     {"role": "assistant", "content": "Nice to meet you, Anna!"},
     {"role": "user", "content": "What is my name?"}],
    [{"role": "user", "content": "Tell me a story about a fox named Max."}],
]


def random_state(config, model, seed):
    """Weights wide enough that logits vary and greedy text wanders."""
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, config.get("dtype", config.get("torch_dtype")))
    tied = config["tie_word_embeddings"]
    state = {}
    for name, value in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith("norm.weight"):
            weight = 1.0 + 0.2 * noise
        elif name.endswith(".bias"):
            weight = 0.3 * noise
        elif "embed_tokens" in name:
            weight = 0.5 * noise
        else:
            weight = 0.25 * noise
        state[name] = weight.to(dtype).contiguous()
    return state


def write_checkpoint(path, config, state, shards):
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "config.json", config)
    metadata = {"format": "pt"}
    if shards == 1:
        save_file(state, path / "model.safetensors", metadata)
        return
    names = sorted(state)
    weight_map = {}
    for i in range(shards):
        part = names[i * len(names) // shards:(i + 1) * len(names) // shards]
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        save_file({n: state[n] for n in part}, path / file, metadata)
        weight_map |= {n: file for n in part}
    total = sum(t.numel() * t.element_size() for t in state.values())
    write_json(path / "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": weight_map})


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def load(path):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager",
        output_loading_info=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[what], (path, what, info[what])
    return model.float().eval()


@torch.no_grad()
def golden_prompt(model, ids, length=0):
    """One prompt's record. The whole text is run anew for every token, so that
    no cache stands between the model and its answer; filled up to `length`."""
    def run(text):
        filled = text + [0] * (length - len(text))
        logits = model(torch.tensor([filled]), use_cache=False).logits[0]
        return logits[:len(text)]

    logits = run(ids)
    positions = sorted({0, len(ids) // 2, len(ids) - 1})
    record = {
        "ids": ids,
        "logits": [{"position": p, "values": floats(logits[p])}
                   for p in positions],
    }
    text, gaps = list(ids), []
    for _ in range(GREEDY_TOKENS):
        last = run(text)[-1]
        best = last.topk(2)
        gaps.append(float((best.values[0] - best.values[1]) /
                          last.square().mean().sqrt()))
        text.append(int(best.indices[0]))
    record["greedy"] = text[len(ids):]
    record["min_gap"] = min(gaps)
    return record


def floats(tensor):
    """The shortest decimals that read back as the same float32."""
    return [float(str(x)) for x in tensor.numpy()]


def write_golden(path, family, prompts, length=0):
    head = f'  "max_seq_len": {length},\n' if length else ""
    lines = ",\n".join(
        "    " + json.dumps(p, separators=(",", ":")) for p in prompts)
    path.write_text(f'{{\n  "family": "{family}",\n{head}  "prompts": [\n'
                    f'{lines}\n  ]\n}}\n')


def make_family(name):
    config = FAMILIES[name]
    path = DATA / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    write_json(path / "config.json", config)
    skeleton = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(path))
    for seed in range(1, 500):
        state = random_state(config, skeleton, seed)
        write_checkpoint(path, config, state, SHARDS.get(name, 1))
        model = load(path)
        generator = torch.Generator().manual_seed(seed)
        short, length = SHORT.get(name, 0), LONG.get(name, 0)
        prompts = golden_prompts(model, generator, PROMPT_LENGTHS, short)
        longer = prompts and length and golden_prompts(
            model, generator, LONG_PROMPT_LENGTHS, length)
        if prompts and (longer or not length):
            write_golden(path / "golden.json", name, prompts, short)
            if length:
                write_golden(path / "golden-long.json", name, longer, length)
            prompts += longer or []
            gaps = " ".join(f"{p['min_gap']:.1e}" for p in prompts)
            distinct = [len(set(p["greedy"])) for p in prompts]
            print(f"{name}: seed {seed}, gaps {gaps}, distinct {distinct}")
            return
    sys.exit(f"{name}: no seed below 500 gives a fair golden")


def golden_prompts(model, generator, lengths, length=0):
    """The records of random prompts, or None where one is not fair."""
    prompts = []
    for size in lengths:
        ids = torch.randint(model.config.vocab_size, (size,),
                            generator=generator).tolist()
        prompts.append(golden_prompt(model, ids, length))
        if (prompts[-1]["min_gap"] < MIN_GAP or
                len(set(prompts[-1]["greedy"])) < MIN_DISTINCT):
            return None
    return prompts


def make_example():
    model = load(EXAMPLE)
    tokenizer = transformers.AutoTokenizer.from_pretrained(EXAMPLE)
    prompts = []
    for messages in EXAMPLE_PROMPTS:
        text = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        record = golden_prompt(model, ids)
        if record["min_gap"] < MIN_EXAMPLE_GAP:
            sys.exit(f"tiny-chat: a gap of {record['min_gap']:.1e} in the "
                     f"answer to {messages[-1]['content']!r}: ask another way")
        # The logits of every position of a real vocabulary would be megabytes;
        # the last position is the one an answer starts from.
        record["logits"] = record["logits"][-1:]
        prompts.append({"messages": messages, "text": text} | record)
        answer = tokenizer.decode(record["greedy"])
        print(f"tiny-chat: gap {record['min_gap']:.1e} {answer[:60]!r}")
    write_golden(DATA / "tiny-chat.golden.json", "tiny-chat", prompts)

    # What `rbln-tool compare` reports of a text: windows of `context` tokens,
    # each on its own, of which all but the first token are predicted.
    end = tokenizer.eos_token
    text = "".join(
        p["text"] + tokenizer.decode(p["greedy"]).split(end)[0] + end + "\n"
        for p in prompts)
    (DATA / "tiny-chat.text.txt").write_text(text)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    context, losses = 64, []
    for begin in range(0, len(ids) - 1, context):
        window = torch.tensor([ids[begin:begin + context]])
        with torch.no_grad():
            logits = model(window).logits[0].double().log_softmax(-1)
        losses += [-logits[i, token].item()
                   for i, token in enumerate(window[0, 1:])]
    write_json(DATA / "tiny-chat.perplexity.json",
               {"context": context, "tokens": len(losses),
                "perplexity": math.exp(sum(losses) / len(losses))})


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name in sys.argv[1:] or [*FAMILIES, "tiny-chat"]:
        if name == "tiny-chat":
            make_example()
        else:
            make_family(name)


if __name__ == "__main__":
    main()
