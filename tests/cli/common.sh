# Sourced by the tests of the tool: a directory of their own, $work, and checks.
set -euo pipefail
work=$(mktemp -d)
export XDG_CACHE_HOME=$work/cache
cleanup() { rm -rf "$work"; }
trap cleanup EXIT

fail() {
  echo "FAILED: $*" >&2
  [ ! -s "$work/log" ] || sed 's/^/  | /' "$work/log" >&2
  exit 1
}
# expect CODE PATTERN COMMAND...: the exit code, and a line on standard error
# (a regular expression of grep; none where it is empty). Leaves what the command
# wrote in $work/out and $work/err.
expect() {
  local code=$1 pattern=$2 got=0
  shift 2
  "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$code" ] || fail "$*: exit $got, not $code: $(cat "$work/err")"
  [ -z "$pattern" ] || grep -q -- "$pattern" "$work/err" ||
    fail "$*: no '$pattern': $(cat "$work/err")"
}
