#!/usr/bin/env bash
# Installs the tool with its completions and the library, builds examples/embed
# against that, and asks the example model a question. Arguments: the build
# directory, the source directory.
source "$(dirname "$0")/common.sh"
build=$1
source=$2
cmake --install "$build" --prefix "$work/prefix" >/dev/null
test -s "$work/prefix/share/bash-completion/completions/rbln-tool"
test -s "$work/prefix/share/zsh/site-functions/_rbln-tool"
cmake -S "$source/examples/embed" -B "$work/build" -G Ninja \
  -DCMAKE_PREFIX_PATH="$work/prefix" ${3:+-DCMAKE_CXX_FLAGS="$3"} >/dev/null
cmake --build "$work/build" >/dev/null
cd "$source"
"$work/prefix/bin/rbln-tool" compile examples/rbln.yaml --output "$work/m.rbln"
answer=$("$work/build/embed" "$work/m.rbln" "What is the capital of France?")
echo "answer: $answer"
[ "$answer" = "The capital of France is Paris." ]
