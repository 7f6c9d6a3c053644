#!/usr/bin/env bash
# The completion scripts: every flag of every --help, values, files. Argument:
# the tool.
source "$(dirname "$0")/common.sh"
tool=$1
cd "$work"

"$tool" --completion bash >bash.sh
"$tool" --completion zsh >zsh.sh
source ./bash.sh

# complete_words WORD...: what the last one may become.
complete_words() {
  COMP_WORDS=(rbln-tool "$@") COMP_CWORD=$#
  _rbln_tool
  echo "${COMPREPLY[*]-}"
}
is() {  # WANTED WORD...
  local wanted=$1 got
  shift
  got=$(complete_words "$@")
  [ "$got" = "$wanted" ] || fail "$*: '$got', not '$wanted'"
}
is 'compile compare' comp
is 'auto always never' --color ''
is 'auto always never' generate --color ''
is 'input' generate --order in
is '--max-model-len' generate p.jsonl -m dir --max-mo
is '--decoder-batch-sizes' compile --dec
is '--sampling.top-k' compile --sampling.top-k
# Files are the shell's to find.
is '' generate --output ''
is '' generate pro
is '' inspect ''

commands=$(complete_words '')
for command in compile inspect generate merge bench compare; do
  [[ " $commands " == *" $command "* ]] || fail "no $command in '$commands'"
  known=" $(complete_words "$command" -) "
  flags=$("$tool" "$command" --help |
    sed -nE 's/^ +((-[a-z],)?--[a-z][a-z0-9.-]*).*/\1/p' | tr ',' '\n')
  [ -n "$flags" ] || fail "$command --help shows no flag"
  for flag in $flags --verbose; do
    [[ $known == *" $flag "* ]] || fail "$command: no $flag in '$known'"
    grep -q -- "$flag\[" zsh.sh || fail "zsh: no $flag"
  done
done
if command -v zsh >/dev/null; then
  zsh -n zsh.sh || fail 'zsh cannot read its script'
else
  echo 'zsh is not here: its script was not tried'
fi
[ "$("$tool" --help | grep -c -- --completion)" = 0 ] || fail 'not hidden'
echo "all as expected"
