#!/usr/bin/env bash
# Kills a run again and again, resumes it, and holds the file against that of an
# undisturbed run; shards and merge likewise. Arguments: the tool, the source
# directory. RBLN_TEST_KILLS: how often to kill (default 20).
source "$(dirname "$0")/common.sh"
tool=$1
source=$2
kills=${RBLN_TEST_KILLS:-20}
cd "$source"

dir=$work/tiny.rbln
"$tool" -q compile examples/rbln.yaml --output "$dir"
prompts=$work/prompts.jsonl
for i in $(seq 1 150); do
  echo "{\"id\": $i, \"messages\": [{\"role\": \"user\", \"content\":" \
    "\"Count from 1 to $i.\"}], \"temperature\": 0.8, \"max_tokens\": 40}"
  [ $((i % 10)) != 0 ] || echo "not JSON, line $i"
done >"$prompts"
lines=$(wc -l <"$prompts")

run() { "$tool" -q generate "$prompts" --model "$dir" "$@"; }
run -o "$work/whole" && fail "errors must show" || [ $? = 1 ] || fail "exit $?"
run >"$work/stream" || [ $? = 1 ]
cmp "$work/whole" "$work/stream"

# Kill at random moments; a run that is resumed must not answer again what the
# journal has.
out=$work/out
journal=$out.journal
killed=0
while [ "$killed" -lt "$kills" ]; do
  before=0
  [ ! -f "$journal" ] || before=$(grep -c . "$journal" || true)
  "$tool" -q generate "$prompts" --model "$dir" -o "$out" --resume &
  pid=$!
  sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
  if kill -9 "$pid" 2>/dev/null; then killed=$((killed + 1)); fi
  code=0
  wait "$pid" 2>/dev/null || code=$?
  if [ "$code" = 137 ]; then
    # Absent or whole, also where the kill fell behind the rename.
    [ ! -e "$out" ] || cmp "$work/whole" "$out"
    # Each line once: an index twice was computed twice.
    if [ -s "$journal" ]; then
      doubles=$(tail -n +2 "$journal" | cut -d' ' -f2 | sort | uniq -d | wc -l)
      [ "$doubles" = 0 ] || fail "$doubles answers computed twice"
      after=$(grep -c . "$journal")
      # A torn last line may go.
      [ "$((after + 1))" -ge "$before" ] || fail "the journal shrank"
    fi
  else
    [ "$code" = 1 ] || fail "exit $code"
    cmp "$work/whole" "$out"
    [ ! -e "$journal" ] || fail "the journal is left"
    rm -f "$out"
  fi
done
run -o "$out" --resume || [ $? = 1 ] || fail "exit $?"
cmp "$work/whole" "$out"

# SIGINT, once something is answered, keeps that, says so, and exits with 130.
code=1
rounds=0
while [ "$code" != 130 ]; do
  rounds=$((rounds + 1))
  [ "$rounds" -le 100 ] || fail "never interrupted in time"
  rm -f "$out"
  "$tool" -q generate "$prompts" --model "$dir" -o "$out" 2>"$work/err" &
  pid=$!
  # A record beyond the first line, which names the job.
  until [ -e "$journal" ] && [ "$(wc -l <"$journal")" -gt 1 ]; do
    kill -0 "$pid" 2>/dev/null || break
  done 2>/dev/null
  kill -INT "$pid" 2>/dev/null || true
  code=0
  wait "$pid" || code=$?
  # All answered by then: once more.
  [ "$code" = 130 ] || [ "$code" = 1 ] || fail "exit $code: $(cat "$work/err")"
done
grep -q -- 'go on with the same command and --resume' "$work/err" ||
  fail "$(cat "$work/err")"
code=0
run -o "$out" 2>"$work/err" || code=$?
[ "$code" = 2 ] || fail "a journal was taken for nothing: exit $code"
code=0
run -o "$out" --resume --seed 3 2>"$work/err" || code=$?
[ "$code" = 2 ] && grep -q 'the parameter seed (0 against 3) changed' "$work/err" ||
  fail "exit $code: $(cat "$work/err")"
run -o "$out" --resume || [ $? = 1 ]
cmp "$work/whole" "$out"

# Time that is over ends it early; a job goes on until it is done. Each round has
# a little more time: a busy machine answers nothing in the first ones.
rm -f "$out"
rounds=0
while [ ! -e "$out" ]; do
  rounds=$((rounds + 1))
  [ "$rounds" -le 300 ] || fail "--max-time gets nowhere"
  run -o "$out" --resume --max-time "$(printf '0.%03d' $((50 + 3 * rounds)))" \
    2>"$work/err" || code=$?
  [ "$code" = 1 ] || [ "$code" = 4 ] || fail "exit $code: $(cat "$work/err")"
done
cmp "$work/whole" "$out"
code=0
run -o "$work/errors" --max-errors 3 2>"$work/err" || code=$?
[ "$code" = 1 ] && grep -q -- '--max-errors' "$work/err" || fail "exit $code"

# Shards, merged, are the whole.
for i in 1 2 3; do
  run -o "$work/part.$i" --shard "$i/3" || [ $? = 1 ]
done
"$tool" -q merge "$work"/part.[123] -o "$work/merged"
cmp "$work/whole" "$work/merged"
# refuse PATTERN PART...: what does not make up a run is said, part by part.
refuse() {
  local pattern=$1 code=0
  shift
  "$tool" -q merge "$@" -o "$work/merged2" 2>"$work/err" || code=$?
  [ "$code" = 2 ] && grep -qF -- "$pattern" "$work/err" ||
    fail "merge $*: exit $code: $(cat "$work/err")"
  [ ! -e "$work/merged2" ] || fail "merge $* left something"
}
cd "$work"
refuse 'part.2: is shard 2/3, where 2/2 is wanted' part.1 part.2
refuse 'part.3: is shard 3/3, where 2/3 is wanted' part.1 part.3 part.2
refuse 'part.1: is shard 1/3, where 3/3 is wanted' part.1 part.2 part.1
refuse 'whole.shard, which generate --shard leaves' part.1 whole part.3
run -o seeded --shard 2/3 --seed 1 || [ $? = 1 ]
refuse 'seeded: of another run than part.1: the parameter seed (0 against 1)' \
  part.1 seeded part.3
head -n 60 "$prompts" >fewer
"$tool" -q generate fewer --model "$dir" -o foreign --shard 2/3 || [ $? = 1 ]
refuse 'foreign: of another run than part.1: the file of prompts' \
  part.1 foreign part.3
cp part.2 edited
sed -i '1s/index/Index/' edited
cp part.2.shard edited.shard
refuse 'edited: not the answers that its shard wrote' part.1 edited part.3
code=0
"$tool" -q merge part.[123] -o part.1 2>err || code=$?
[ "$code" = 2 ] && cmp <(head -n 1 part.1) <(head -n 1 whole) || fail "$code"
rm part.2
refuse 'part.2: shard 2/3 is not there' part.{1,2,3}
cd "$source"

# Answers as they finish are the same lines.
run --order completion >"$work/unordered" || [ $? = 1 ]
sort "$work/unordered" | cmp - <(sort "$work/whole")
# A reader that goes away is no error.
grep -v '^not' "$prompts" >"$work/good"
set +o pipefail
{ "$tool" -q generate "$work/good" --model "$dir" || echo "$?" >"$work/code"; } |
  head -n 1 >/dev/null
[ ! -e "$work/code" ] || fail "exit $(cat "$work/code") for a closed pipe"
[ "$(wc -l <"$work/whole")" = "$lines" ] || fail "lines"
echo "killed $killed times"
