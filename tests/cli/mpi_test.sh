#!/usr/bin/env bash
# Several processes under mpirun: the same bytes as one; errors said once; what
# becomes of a process that dies or hangs; and, where network namespaces can be
# made, the same between two machines that only TCP connects. Arguments: the
# tool, the source directory.
source "$(dirname "$0")/common.sh"
tool=$1
source=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TMPDIR=$work # of Open MPI too
cleanup() { # in place of that of common.sh
  for name in "$work"/netns-*; do
    [ -e "$name" ] && ip netns del "${name##*/netns-}"
  done
  rm -rf "$work"
}
cd "$source"

for ranks in 1 2 4; do
  "$tool" -q compile examples/rbln.yaml --output "$work/tp$ranks" \
    --tensor-parallel-size $ranks --max-seq-len 512
done
prompts=$work/prompts.jsonl
for i in $(seq 1 320); do
  echo "{\"id\": $i, \"messages\": [{\"role\": \"user\", \"content\":" \
    "\"Count from 1 to $i.\"}], \"temperature\": 0.8, \"max_tokens\": 100," \
    "\"ignore_eos\": true, \"logprobs\": 1}"
  [ $((i % 40)) != 0 ] || echo "not JSON, line $i"
done >"$prompts"
lines=$(wc -l <"$prompts")

for ranks in 1 2 4; do
  "$tool" -q generate "$prompts" --model "$work/tp$ranks" \
    -o "$work/want$ranks" || [ $? = 1 ] || fail "one process of $ranks ranks"
done

# together N RANKS ARGS...: N processes; the exit code is kept.
mpi=(mpirun --oversubscribe)
together() {
  local count=$1 ranks=$2
  shift 2
  timeout -k 5 60 "${mpi[@]}" -n "$count" "$tool" generate "$prompts" --model \
    "$work/tp$ranks" --rank-timeout 3 "$@" >"$work/log" 2>&1
}

# Whole replicas of one rank and of several, in shared memory.
for shape in "2 1" "3 1" "2 2" "4 2" "4 4"; do
  read -r count ranks <<<"$shape"
  rm -f "$work/out"
  code=0
  together "$count" "$ranks" -o "$work/out" --report "$work/report" ||
    code=$?
  [ $code = 1 ] || fail "$shape: exit $code"
  cmp "$work/out" "$work/want$ranks" || fail "$shape: other bytes"
  grep -q "\"prompts\": $lines" "$work/report" || fail "$shape: report"
  grep -q "\"replicas\": $((count / ranks))" "$work/report" ||
    fail "$shape: replicas"
done

# What cannot work is said once, with its exit code.
code=0
together 3 2 || code=$?
[ $code = 2 ] && [ "$(grep -c "not whole replicas" "$work/log")" = 1 ] ||
  fail "three processes for two ranks: exit $code"
code=0
together 2 2 --max-tokens x || code=$?
[ $code = 2 ] && [ "$(grep -c "max.tokens" "$work/log")" = 1 ] ||
  fail "bad flag: exit $code"

# The process of this test that has a rank, waited for.
pid_of_rank() {
  local pid
  for _ in $(seq 500); do
    for pid in $(pgrep -f "generate $prompts"); do
      # No pipe: where grep ends before its writer does, pipefail calls it false.
      if grep -qzx "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" 2>/dev/null
      then
        echo "$pid"
        return
      fi
    done
    sleep 0.02
  done
  fail "no process of rank $1"
}
wait_for_answers() {
  for _ in $(seq 1000); do
    [ ! -e "$work/out" ] || return 0 # all of them
    [ ! -e "$work/out.journal" ] || [ "$(wc -l <"$work/out.journal")" -lt 12 ] ||
      return 0
    sleep 0.02
  done
  fail "no answers"
}
# broken SIGNAL RANK: the job ends, says who, and what it had is not lost.
broken() {
  local code pid
  for _ in $(seq 10); do
    rm -f "$work/out" "$work/out.journal"
    together 4 2 -o "$work/out" &
    local job=$!
    code=0
    pid=$(pid_of_rank "$2")
    wait_for_answers
    kill "-$1" "$pid" || true
    wait $job || code=$?
    # Once more where it had ended, whole, before the signal came.
    [ $code = 1 ] && cmp -s "$work/out" "$work/want2" || break
  done
  [ $code != 0 ] && [ $code != 1 ] && [ $code != 124 ] ||
    fail "signal $1 to rank $2: exit $code"
  grep -q "rank $2 " "$work/log" || fail "signal $1 to rank $2: not named"
  local kept
  kept=$(($(wc -l <"$work/out.journal") - 1))
  [ $kept -gt 0 ] || fail "nothing kept"
  code=0
  together 2 2 -o "$work/out" --resume || code=$?
  [ $code = 1 ] && cmp "$work/out" "$work/want2" ||
    fail "resumed after signal $1 to rank $2: exit $code"
  grep -q "more had been answered before" "$work/log" || fail "not resumed"
}
broken KILL 1
broken KILL 2
broken STOP 1
broken STOP 2
broken STOP 3

# Two machines. One that is cut off is named too.
if ip netns add "rbln-$$-a" 2>/dev/null; then
  touch "$work/netns-rbln-$$-a"
  ip netns add "rbln-$$-b"
  touch "$work/netns-rbln-$$-b"
  ip link add "va$$" netns "rbln-$$-a" type veth peer name "vb$$" netns \
    "rbln-$$-b"
  for end in a b; do
    host=$([ $end = a ] && echo 10.77.0.1 || echo 10.77.0.2)
    ip -n "rbln-$$-$end" address add "$host/24" dev "v$end$$"
    ip -n "rbln-$$-$end" link set "v$end$$" up
    ip -n "rbln-$$-$end" link set lo up
  done
  # What mpirun starts on the other machine with.
  cat >"$work/agent" <<EOF
#!/bin/sh
shift
exec ip netns exec rbln-$$-b unshare --uts sh -c "hostname machine-b; \$*"
EOF
  chmod +x "$work/agent"
  mpi=(ip netns exec "rbln-$$-a" unshare --uts sh -c
    'hostname machine-a; exec "$@"' sh
    mpirun --oversubscribe --host 10.77.0.1:2,10.77.0.2:2 --map-by node
    --mca plm_rsh_agent "$work/agent" --mca btl tcp,self
    --mca btl_tcp_if_include 10.77.0.0/24
    --mca oob_tcp_if_include 10.77.0.0/24
    # How soon mpirun itself sees that a machine is gone; its own is minutes.
    --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1
    --mca oob_tcp_keepalive_probes 2)
  for shape in "2 2" "4 2" "4 4" "2 1"; do
    read -r count ranks <<<"$shape"
    rm -f "$work/out"
    code=0
    together "$count" "$ranks" -o "$work/out" || code=$?
    [ $code = 1 ] && cmp "$work/out" "$work/want$ranks" ||
      fail "two machines, $shape: exit $code"
  done
  rm -f "$work/out"
  together 2 2 -o "$work/out" &
  job=$!
  wait_for_answers
  ip -n "rbln-$$-b" link set "vb$$" down
  code=0
  wait $job || code=$?
  [ $code != 0 ] && [ $code != 1 ] && [ $code != 124 ] || fail "cut off: $code"
  grep -q "rank 1 (machine-b) has not answered" "$work/log" ||
    fail "cut off: not named"
  pkill -KILL -f "generate $prompts" || true
  ip -n "rbln-$$-b" link set "vb$$" up
  code=0
  together 2 2 -o "$work/out" --resume || code=$?
  [ $code = 1 ] && cmp "$work/out" "$work/want2" || fail "cut off: not resumed"
  echo "two machines: done"
else
  echo "two machines: NOT RUN, no network namespaces here"
fi
