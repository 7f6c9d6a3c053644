#!/usr/bin/env python3
"""How decode and prefill scale with tensor parallel ranks, on paper.

    python3 scripts/scaling.py CONFIG.json [--weights int4] [--rows 8] ...

A rank reads its share of the weights and of the KV cache at --memory GB/s and
computes at --compute Gop/s; the larger of the two is what it takes (attention
computes in float32, at a quarter of the integer rate). Ranks then exchange two
sums a layer, one for the embedding, and the logits. To N - 1 others a rank sends
its part of a sum; from 64 KiB on, where there are more than two ranks, each sums
a share and tells the others: two messages, and 2 (N - 1) / N of the bytes.

    step = max(bytes / memory, operations / compute)
           + messages * latency + bytes sent / bandwidth
           + barriers

The same arithmetic as `rbln-tool inspect --memory-bandwidth ...` (which knows
only the ranks that a directory was compiled for): the first term has the shares
of artifact/sharding.h, with what they round up to, and --barrier is what ranks
lose in waiting for each other, which inspect leaves out.
"""

import argparse
import json
import math

PANEL = 16  # outputs of a panel, and positions of a group of KV cache
SHARED_SUM = 64 << 10
# Bytes of 64 inputs of a panel.
PAIR_BYTES = {"int8": 1088, "int4": 576}


def panel_bytes(weights, inputs):
    if weights in PAIR_BYTES:
        return math.ceil(inputs / 64) * PAIR_BYTES[weights]
    if weights == "bfloat16":
        return math.ceil(inputs / 2) * PANEL * 4
    return inputs * PANEL * 4


def matrix_bytes(weights, outputs, inputs):
    return math.ceil(outputs / PANEL) * panel_bytes(weights, inputs)


def row_bytes(columns):
    """Of a value in float32."""
    return math.ceil(columns / PANEL) * PANEL * 4


class Model:
    def __init__(self, config):
        self.layers = config["num_hidden_layers"]
        self.hidden = config["hidden_size"]
        self.inner = config["intermediate_size"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.dim = config.get("head_dim") or self.hidden // self.heads
        self.vocab = config["vocab_size"]

    def divides(self, ranks):
        """The rules of tensor_parallel_size."""
        return ((self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0)
                and self.heads % ranks == 0
                and math.ceil(self.inner / PANEL) >= ranks
                and math.ceil(self.vocab / PANEL) >= ranks)


def largest_share(size, unit, ranks):
    units = math.ceil(size / unit)
    return min(size, math.ceil(units / ranks) * unit)


def kv_position_bytes(model, kv_format, kv_heads):
    """Of one layer: K and V, rows of V in whole vectors."""
    k = math.ceil(model.dim / 4) * 4 if kv_format == "int8" else model.dim
    elements = k + math.ceil(model.dim / PANEL) * PANEL
    element = {"float32": 4, "bfloat16": 2, "int8": 1}[kv_format]
    scales = 8 if kv_format == "int8" else 0
    return kv_heads * (elements * element + scales)


def step(model, ranks, options, network, rows, logits, keys, pairs):
    """Seconds of one step on the rank that has most to do: compute, exchange."""
    heads = model.heads // ranks
    kv_heads = max(1, model.kv_heads // ranks)
    unit = 64 if model.inner // 64 >= 8 * ranks else PANEL
    inner = largest_share(model.inner, unit, ranks)
    vocab = largest_share(model.vocab, PANEL, ranks)

    matrices = [(model.dim * (heads + 2 * kv_heads), model.hidden),  # q, k, v
                (model.hidden, model.dim * heads),
                (2 * math.ceil(inner / PANEL) * PANEL, model.hidden),
                (model.hidden, inner)]
    of_layer = sum(matrix_bytes(options.weights, o, i) for o, i in matrices)
    total = model.layers * of_layer
    ops = model.layers * sum(2 * o * i for o, i in matrices) * rows
    if logits:
        total += matrix_bytes(options.weights, vocab, model.hidden)
        ops += 2 * vocab * model.hidden * logits
    total += (model.layers * keys *
              kv_position_bytes(model, options.kv_caches, kv_heads))
    float_ops = model.layers * 4 * heads * model.dim * pairs

    slower = {"float32": 1, "bfloat16": 2}.get(options.weights, 4)
    compute = max(total / options.memory,
                  ops / options.compute + float_ops * slower / options.compute)
    if ranks == 1:
        return compute, 0.0
    exchange = 0.0
    for size, times in ((rows * row_bytes(model.hidden), 2 * model.layers + 1),
                        (logits * row_bytes(vocab), 1)):
        messages, sent = 1, size * (ranks - 1)
        if times == 1:  # logits, to rank 0 only
            sent = size
        elif ranks > 2 and size >= SHARED_SUM:
            messages, sent = 2, 2 * size * (ranks - 1) / ranks
        seconds = messages * network["latency"] + options.barrier
        if network["bandwidth"]:
            seconds += sent / network["bandwidth"]
        exchange += times * seconds
    return compute, exchange


def decode(model, ranks, options, network):
    keys = options.rows * (options.depth + 1)
    times = step(model, ranks, options, network, options.rows, options.rows,
                 keys, keys)
    return options.rows, times


def prefill(model, ranks, options, network):
    rows = options.prefill_rows
    return rows, step(model, ranks, options, network, rows, 1, rows,
                      rows * (rows + 1) / 2)


def parse_network(text):
    name, bandwidth, latency = text.rsplit(":", 2)
    return {"name": name, "bandwidth": float(bandwidth) * 1e9,
            "latency": float(latency) * 1e-6}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="config.json of a checkpoint")
    parser.add_argument("--weights", default="int4",
                        choices=("float32", "bfloat16", "int8", "int4"))
    parser.add_argument("--kv-caches", default="bfloat16",
                        choices=("float32", "bfloat16", "int8"))
    parser.add_argument("--rows", type=int, default=8, help="of the decoder")
    parser.add_argument("--depth", type=int, default=1024,
                        help="tokens of context of each sequence")
    parser.add_argument("--prefill-rows", type=int, default=512)
    parser.add_argument("--memory", type=float, default=40,
                        help="GB/s that a rank reads")
    parser.add_argument("--compute", type=float, default=1500,
                        help="Gop/s of the weights' arithmetic")
    parser.add_argument("--barrier", type=float, default=0,
                        help="us lost in waiting at each exchange")
    parser.add_argument("--network", action="append", type=parse_network,
                        metavar="NAME:GB/S:US",
                        help="bandwidth (0: no limit) and latency; may be "
                             "repeated")
    parser.add_argument("--ranks", default="1,2,4,8,16,32,64")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.memory *= 1e9
    options.compute *= 1e9
    options.barrier *= 1e-6
    networks = options.network or [
        parse_network(text) for text in
        ("shared memory:0:2", "100 GbE, RDMA:11:4", "25 GbE, TCP:2.8:25",
         "10 GbE, TCP:1.1:40")]
    with open(options.config, encoding="utf-8") as file:
        model = Model(json.load(file))

    for network in networks:
        if not options.json:
            print(f"\n{network['name']}: {network['bandwidth'] * 1e-9:g} GB/s "
                  f"(0: no limit), {network['latency'] * 1e6:g} us\n"
                  f"{'':9}{'ranks':>6}{'compute ms':>12}{'exchange ms':>12}"
                  f"{'tokens/s':>10}{'speed-up':>10}{'efficiency':>11}")
        for phase in (decode, prefill):
            tokens, times = phase(model, 1, options, network)
            alone = tokens / sum(times)
            for ranks in map(int, options.ranks.split(",")):
                if not model.divides(ranks):
                    continue
                tokens, (compute, exchange) = phase(model, ranks, options,
                                                    network)
                rate = tokens / (compute + exchange)
                line = {"network": network["name"], "phase": phase.__name__,
                        "ranks": ranks, "compute_ms": compute * 1e3,
                        "exchange_ms": exchange * 1e3, "tokens_per_s": rate,
                        "speed_up": rate / alone,
                        "efficiency": rate / alone / ranks}
                if options.json:
                    print(json.dumps(line))
                    continue
                print(f"{line['phase']:9}{ranks:6}{line['compute_ms']:12.3f}"
                      f"{line['exchange_ms']:12.3f}{rate:10.1f}"
                      f"{line['speed_up']:10.2f}{line['efficiency']:11.0%}")


if __name__ == "__main__":
    main()
