#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The scripts report in one line what is wrong with their arguments.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"
cd "$SENNIT_SOURCE_DIR"

# expect STATUS TEXT COMMAND...: the command exits with STATUS, and its stderr has TEXT.
expect() {
	local status=0
	"${@:3}" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
	[ "$status" = "$1" ] || { cat "$scratch/err" >&2; fail "${*:3}: exited with $status, not $1"; }
	grep -qF -- "$2" "$scratch/err" || { cat "$scratch/err" >&2; fail "${*:3}: does not say: $2"; }
}

expect 2 'unknown group "nonsense"; expected: build, test, docs, arm, cross, nightly, demo, variants,' \
	scripts/setup nonsense
expect 2 'unknown part "nonsense"; expected: release i386 debug checked asan tsan models benches aarch64 arm riscv64 portable s390x ppc64le musl' \
	scripts/test nonsense
expect 2 "invalid choice: 'nonsense'" scripts/nightly nonsense
expect 2 'must not be negative: -1' scripts/nightly -- release -1
expect 2 'unknown argument "nonsense"' scripts/format nonsense
expect 2 'unknown variant "nonsense"; expected: debug asan tsan valgrind' scripts/install-variants / nonsense
expect 2 'needs a prefix that begins with a slash, not "somewhere"' scripts/install-variants somewhere
expect 2 'needs a prefix that begins with a slash, not ""' scripts/install-preload
expect 2 'there is no layer nonsense' scripts/mutants --layer nonsense
expect 2 'there is no src/sync/nonsense.c' scripts/mutants --files nonsense.c
expect 2 'there is no test program nonsense' scripts/mutants --tests nonsense
expect 2 "invalid int value: 'nonsense'" scripts/mutants --seed nonsense
expect 2 '--resume has the options of the last run, and takes no others' scripts/mutants --resume --fail
expect 2 'unknown preset "nonsense"; expected: release i386 debug checked asan tsan' scripts/soak nonsense 1
expect 2 'HOURS is "nonsense"; expected: a number' scripts/soak release nonsense
expect 2 'unknown preset "nonsense"; expected: release i386 debug checked asan tsan' scripts/as-preset nonsense
expect 2 'which program? expected: PRESET TARGET FOLDER' scripts/as-preset release hostile

# On a machine without apt, the packages are named.
mkdir "$scratch/bin"
for tool in bash cat sed tr dirname paste realpath; do
	ln -s "$(command -v $tool)" "$scratch/bin/$tool"
done
expect 1 'g++' env -u SENNIT_NO_SETUP PATH="$scratch/bin" bash scripts/setup build
expect 1 'ninja-build' env -u SENNIT_NO_SETUP PATH="$scratch/bin" bash scripts/setup build
# What a script needs, and which command installs it.
expect 1 'clang-14 is not installed; scripts/setup test' env PATH="$scratch/bin" bash scripts/fuzz
expect 1 'is not installed; scripts/setup test' env PATH="$scratch/bin" bash scripts/format
expect 1 'doxygen is not installed; scripts/setup docs' env PATH="$scratch/bin" bash scripts/docs
expect 1 'dpkg-buildpackage is not installed; scripts/setup deb' env PATH="$scratch/bin" bash scripts/deb

# A machine where something is missing and the user may not install it.
printf '#!/bin/sh\nexit 1\n' | tee "$scratch/bin/apt-get" >"$scratch/bin/dpkg-query"
printf '#!/bin/sh\necho 1000\n' >"$scratch/bin/id"
chmod +x "$scratch"/bin/{apt-get,dpkg-query,id}
expect 1 'there is no sudo; run as root: apt-get install g++' \
	env -u SENNIT_NO_SETUP PATH="$scratch/bin" bash scripts/setup build
