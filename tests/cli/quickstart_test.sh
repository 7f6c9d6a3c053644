#!/usr/bin/env bash
# The commands of the README on the example model: compile, inspect, generate;
# exit codes of what is refused. Arguments: the tool, the source directory.
source "$(dirname "$0")/common.sh"
tool=$1
source=$2
cd "$source"

dir=$work/tiny.rbln
expect 0 'tiny.rbln: LlamaForCausalLM' \
  "$tool" compile examples/rbln.yaml --output "$dir"
expect 0 'up to date' "$tool" compile examples/rbln.yaml --output "$dir"
expect 0 'kept 10 of 11' "$tool" compile examples/rbln.yaml --output "$dir" \
  --decoder-batch-sizes 8,4,2,1
expect 0 '' "$tool" inspect "$dir" --verify
grep -q 'every byte verified' "$work/out" || fail 'inspect --verify'
touch "$dir/notes.txt"
expect 0 'tiny.rbln/notes.txt is not part of' "$tool" inspect "$dir" --verify
rm "$dir/notes.txt"
expect 0 '' "$tool" inspect "$dir/decoder_batch_4.rbln"
grep -q 'layers.0.gate_up' "$work/out" || fail 'inspect FILE'
expect 0 '' "$tool" inspect "$dir" --graph
grep -q 'digraph' "$work/out" || fail 'inspect --graph'
expect 0 '' "$tool" inspect "$dir" --json
expect 0 '' "$tool" inspect "$dir" --json --memory-bandwidth 40 --compute 1000
grep -q '"ms_per_step"' "$work/out" || fail 'no estimate in JSON'

expect 0 'prompts answered' \
  "$tool" generate examples/prompts.jsonl --model "$dir" -o "$work/a.jsonl"
grep -q 'The capital of France is Paris.' "$work/a.jsonl" || fail 'no Paris'
[ "$(wc -l <"$work/a.jsonl")" = "$(wc -l <examples/prompts.jsonl)" ] ||
  fail 'lines'
# The same bytes, log probabilities among them, for every list of decoders,
# chunk size, number of threads and of sequences at once, sampled or greedy.
ask() {  # OUTPUT DIR FLAGS...
  local output=$1 model=$2
  shift 2
  expect 0 'prompts answered' "$tool" generate examples/prompts.jsonl \
    --model "$model" -o "$output" --logprobs 2 --temperature 0.7 "$@"
}
ask "$work/want.jsonl" "$dir"
variant=0
while read -r sizes chunk threads; do
  variant=$((variant + 1))
  "$tool" -q compile examples/rbln.yaml --output "$work/v$variant.rbln" \
    --batch-size "${sizes%%,*}" --decoder-batch-sizes "$sizes" \
    --prefill-chunk-size "$chunk"
  ask "$work/v$variant.jsonl" "$work/v$variant.rbln" --threads "$threads"
  cmp "$work/want.jsonl" "$work/v$variant.jsonl" ||
    fail "answers depend on decoders $sizes, chunk $chunk, $threads threads"
done <<'VARIANTS'
8,4,2,1 64 1
8 64 2
1 128 3
5,3 192 2
VARIANTS
# The same bytes with one sequence at a time, and on one thread.
expect 0 'threads: 1 (--threads)' "$tool" generate examples/prompts.jsonl \
  --model "$dir" -o "$work/b.jsonl" --max-num-seqs 1 --threads 1 \
  --no-prefix-caching
cmp "$work/a.jsonl" "$work/b.jsonl" || fail 'answers depend on the batch'

printf '%s\n' '{"prompt": "Hi"}' 'not json' >"$work/p.jsonl"
expect 1 '1 with an error' "$tool" generate "$work/p.jsonl" --model "$dir"
"$tool" generate --help >"$work/out"
grep -q '"messages"' "$work/out" || fail 'help shows no line'
grep -q 'Exit codes: 0 ' "$work/out" || fail 'help shows no exit codes'
expect 2 'rbln-tool compile --help' "$tool" compile --no-such-flag
for threads in 0 -1; do
  expect 2 'threads' "$tool" compile examples/rbln.yaml --output "$dir" \
    --threads $threads
done
echo 'bacth_size: 3' >"$work/bad.yaml"
expect 2 "unknown key 'bacth_size'; the nearest known one is 'batch_size'" \
  "$tool" compile "$work/bad.yaml" --model examples/tiny-chat
# Defaults for generate are checked by its rules, and named by their place.
while read -r value message; do
  printf 'sampling:\n  n: 1\n  %s\n' "${value/:/: }" >"$work/bad.yaml"
  expect 2 "bad.yaml:3: sampling: $message" \
    "$tool" compile "$work/bad.yaml" --model examples/tiny-chat
done <<'VALUES'
temperature:abc temperature must be a number, got "abc"
temperature:-1 temperature must be in [0, 2], got -1
max_tokens:0 max_tokens must be at least 1, got 0
top_k:-5 top_k must be 0 (disable), or at least 1, got -5
stop_token_ids:[99999] stop_token_ids must be token ids from 0 to 1535, got 99999
truncate_prompt_tokens:0 truncate_prompt_tokens must be at least 1, or -1, got 0
VALUES
# Every key is also a flag.
expect 2 \
  '--sampling.top-k: sampling: top_k must be 0 (disable), or at least 1, got -5' \
  "$tool" compile examples/rbln.yaml --output "$dir" --sampling.top-k -5
expect 0 '' "$tool" compile examples/rbln.yaml --output "$work/flags.rbln" \
  --sampling.max-tokens 7 --sampling.stop '[".", "!"]' --quantization.weights int8
"$tool" inspect "$work/flags.rbln" >"$work/out"
grep -q '"max_tokens":7.*"stop":\["\.","!"\]' "$work/out" || fail 'sampling flags'
grep -q 'weights  *int8' "$work/out" || fail 'quantization flags'
# An interrupted compile leaves nothing; one that was quicker leaves all.
mkdir "$work/large"
cat >"$work/large/config.json" <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
 "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 8,
 "num_attention_heads": 16, "max_position_embeddings": 2048}
CONFIG
"$tool" compile "$work/large" --load-format dummy --output "$work/large.rbln" \
  --quantization.weights int4 --target scalar 2>"$work/err" &
compile=$!
while kill -0 $compile 2>/dev/null && [ ! -d "$work/large.rbln.partial" ]; do
  sleep 0.01
done
kill -TERM $compile 2>/dev/null || true
got=0
wait $compile || got=$?
if [ "$got" != 0 ]; then
  [ "$got" = 143 ] || fail "interrupted compile: exit $got: $(cat "$work/err")"
  [ ! -e "$work/large.rbln" ] || fail 'interrupted compile left a directory'
  [ ! -e "$work/large.rbln.partial" ] || fail 'interrupted compile left its parts'
fi
rm -rf "$work"/large*
# What generate would refuse is said when the model is compiled.
cp -r examples/tiny-chat "$work/odd"
echo '{' >"$work/odd/tokenizer.json"
echo '{% if %}' >"$work/odd/chat_template.jinja"
echo '{"temperature": -1}' >"$work/odd/generation_config.json"
expect 0 '' "$tool" compile "$work/odd" --output "$work/odd.rbln"
grep -q 'odd/tokenizer.json: .*; generate will refuse the model' \
  "$work/err" || fail 'tokenizer not tried'
grep -q 'odd/chat_template.jinja: .*; generate will want --chat-template' \
  "$work/err" || fail 'chat template not tried'
grep -q 'odd/generation_config.json: temperature must be .*; generate will want --generation-config none' \
  "$work/err" || fail 'generation config not tried'
expect 3 'odd.rbln/tokenizer.json: ' \
  "$tool" generate "$work/p.jsonl" --model "$work/odd.rbln"
expect 3 'not a compiled directory' \
  "$tool" generate "$work/p.jsonl" --model examples/tiny-chat
echo "all as expected"
