#!/usr/bin/env bash
# What is written where: outputs that are no files, that collide, that cannot be
# written; values of flags that cannot be; a terminal. Arguments: the tool, the
# source directory. No device is ever named as an output here: a tool that
# replaced it would break the machine.
source "$(dirname "$0")/common.sh"
tool=$1
source=$2
cd "$source"

dir=$work/tiny.rbln
"$tool" -q compile examples/rbln.yaml --output "$dir"
cd "$work"
for i in 1 2 3 4 5 6; do
  echo "{\"prompt\": \"Count from 1 to $i.\", \"max_tokens\": 5}"
done >p.jsonl
run() { "$tool" -q generate p.jsonl --model "$dir" "$@"; }
run >whole

# Links are followed, FIFOs are written, what is not a file is refused.
mkdir far
ln -s far/a link
ln -s far/r report
expect 0 '' run -o link --report report
[ -L link ] && [ -L report ] && cmp whole far/a && grep -q prompts far/r ||
  fail 'links'
mkfifo fifo
cat fifo >got &
expect 0 '' run --report fifo
wait $!
[ -p fifo ] && grep -q prompts got || fail 'a report to a FIFO'
expect 2 'leave out --output to stream' run -o fifo
expect 2 'far: cannot be written: it is a directory' run -o far
expect 2 'none: No such file or directory; make it' run --report none/r
expect 2 'none: No such file or directory; make it' run --trace none/t
expect 2 'none: No such file or directory; make it' run --metrics-file none/m
expect 2 'far: cannot be written: it is a directory' run --metrics-file far

# One file is one thing.
cp p.jsonl kept
ln p.jsonl hard
expect 2 'would be written over the prompts' run -o p.jsonl
expect 2 'would be written over the prompts' run -o hard
expect 2 'would be written over the prompts' run --report ./far/../p.jsonl
expect 2 'would be written over --output' run -o x --report x
expect 2 'would be written over the journal of --output' \
  run -o x --trace x.journal
expect 2 'would be written over --report' run --report x --metrics-file x
expect 2 'lies in the compiled directory' run -o "$dir/answers"
expect 2 'lies in the compiled directory' run --report "$dir/config.json"
cmp kept p.jsonl
[ ! -e x ] && [ ! -e x.journal ] || fail 'something was written'
expect 0 'every byte verified' sh -c "'$tool' inspect '$dir' --verify >&2"

# Prompts from a FIFO are those of standard input.
cat p.jsonl >fifo &
expect 0 '' "$tool" -q generate fifo --model "$dir" -o piped
cmp whole piped
cat p.jsonl >fifo &
expect 2 'fifo cannot be read again' "$tool" -q generate fifo --model "$dir" \
  -o piped2 --resume

# A standard error that is closed or full is not the end of the work, nor a
# standard output that is full a success.
"$tool" generate p.jsonl --model "$dir" >got 2>&- || fail 'closed stderr'
cmp whole got
code=0
run >&- 2>err || code=$?
[ "$code" = 4 ] || fail "exit $code for a closed standard output"
if [ -c /dev/full ]; then
  "$tool" generate p.jsonl --model "$dir" >got 2>/dev/full || fail 'full stderr'
  cmp whole got
  for command in --help --version 'generate --help' "inspect $dir" \
    "inspect $dir --json" "inspect $dir --graph" \
    "generate p.jsonl --model $dir --dry-run" "generate p.jsonl --model $dir"; do
    code=0
    # shellcheck disable=SC2086
    "$tool" $command >/dev/full 2>err || code=$?
    [ "$code" = 4 ] && grep -q 'standard output: cannot write' err ||
      fail "$command: exit $code: $(cat err)"
  done
fi

# Time that is over ends a wait for prompts, too.
start=$SECONDS
code=0
{ head -n 1 p.jsonl; sleep 30 & echo $! >sleeper; } |
  "$tool" generate - --model "$dir" --max-time 1 >got 2>err || code=$?
[ "$code" = 4 ] && grep -q -- '--max-time is over' err || fail "exit $code"
[ $((SECONDS - start)) -lt 20 ] || fail 'it waited for its input'
kill "$(cat sleeper)" 2>/dev/null || true

# Values of flags, in words.
for value in 0 -1 1.5 x 0x10 010; do
  expect 2 "--threads: must be a whole number of at least 1, got '$value'" \
    run --threads="$value"
done
expect 2 'must be a whole number of at most 2147483647' run --threads 99999999999
expect 2 "--seed: must be a whole number of at least 0, got '-1'" run --seed=-1
expect 2 '--seed: must be a whole number of at most 18446744073709551615' \
  run --seed 18446744073709551616
expect 0 '' run --seed 18446744073709551615
expect 2 "--max-time: must be a number of at least 0, got 'nan'" \
  run --max-time nan
for value in 0x10 nan -1 8Q 0; do
  expect 2 "--memory-limit: must be a size such as 8G or 512MiB, got '$value'" \
    run --memory-limit="$value"
done
expect 2 "must be a size such as 8G or 512MiB, got ''" run --memory-limit ''
expect 2 'no flag --max-token; the nearest is --max-tokens (see' \
  run --max-token 3
expect 2 'no flag --zzz (see' run --zzz=3
expect 2 "unexpected argument 'q.jsonl'" run q.jsonl
expect 2 'no flag --colr; the nearest is --color; the commands are: compile' \
  "$tool" --colr never generate-all
expect 2 "no command 'generate-all'; the commands are: compile" \
  "$tool" --color never generate-all
expect 2 'no command; the commands are: compile' "$tool" --quiet

# Why a run ended early.
printf 'x\ny\nz\n' >bad
code=0
"$tool" generate bad --model "$dir" -o e --max-errors 1 --metrics-file m \
  2>err || code=$?
[ "$code" = 1 ] && grep -q 'more than --max-errors 1, after' err || fail "$(cat err)"
grep -qx 'rbln_job_ended 1' m && grep -qx 'rbln_sequences_running 0' m ||
  fail 'metrics'
{ yes '{"prompt": "Hi", "max_tokens": 3}' || true; } | head -n 3000 >many
{ "$tool" generate many --model "$dir" --report r.json 2>err || echo $? >code; } |
  head -n 1 >/dev/null
[ ! -e code ] || fail "exit $(cat code) for a reader that goes away"
grep -q '"ended_early": true' r.json &&
  grep -q 'the reader of standard output went away' err || fail "$(cat err)"

# On a terminal, what is said takes the place of the line of progress.
if command -v script >/dev/null; then
  head -n 300 many >few
  timeout 120 script -qec "'$tool' generate few --model '$dir' --max-tokens 1" typescript \
    </dev/null >/dev/null
  grep -q ' running, ' typescript || fail 'no progress on a terminal'
  grep -q '{"index":299,' typescript || fail 'no answers'
  ! grep -qE 'waiting[^[:cntrl:]]*(\{|rbln-tool)' typescript ||
    fail 'answers behind the line of progress'
fi
! ls ./*.tmp far/*.tmp 2>/dev/null || fail 'something is left'
echo "all as expected"
