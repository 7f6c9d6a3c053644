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
# expect CODE TEXT COMMAND...: the exit code, and what standard error has to hold,
# letter by letter. Leaves what the command wrote in $work/out and $work/err.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$code" ] || fail "$*: exit $got, not $code: $(cat "$work/err")"
  [ -z "$text" ] || grep -qF -- "$text" "$work/err" ||
    fail "$*: no '$text': $(cat "$work/err")"
}
