#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: musl
#
# Code that includes a header of sennit accesses the errno of the thread on which its task is,
# whatever the compiler assumes (sennit/errno.h).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

compilers=("$CC")
# The library of a build for musl cannot be linked by compilers for glibc.
if [ "$SENNIT_ARCH" = x86_64 ] && [ -z "$SENNIT_SANITIZE" ] && [[ $CC != *musl* ]]; then
	for compiler in gcc clang-14; do
		[ "$compiler" = "$CC" ] || ! command -v "$compiler" >/dev/null || compilers+=("$compiler")
	done
fi

program=$scratch/errno-shapes
build() {
	"$1" "${@:2}" "${cflags[@]}" -D_GNU_SOURCE -std=gnu11 -Wall -Wextra -Werror -I "$SENNIT_SOURCE_DIR/include" \
		"$SENNIT_SOURCE_DIR/tests/sched/errno_shapes.c" -o "$program" \
		"$SENNIT_BUILD_DIR/src/libsennit.a" "${libraries[@]}" || fail "it does not compile: $*"
}

for compiler in "${compilers[@]}"; do
	for level in -O0 -O2 -O3 '-O2 -flto'; do
		read -r -a flags <<<"$level"
		build "$compiler" "${flags[@]}"
		# A loaded machine may give the second thread no time, and then no task moves.
		for ((i = 0; i < 10; i++)); do
			status=0
			said=$(SENNIT_PROCS=2 "${launcher[@]}" "$program") || status=$?
			echo "$compiler $level: $said"
			[ "$status" = 0 ] || fail "$compiler $level: exit status $status"
			[[ $said == "moved 0,"* ]] || break
		done
		[ "$i" -lt 10 ] || fail "$compiler $level: no task has changed threads"
	done
done

# Prints whether the test could have found a mistake. That is not a failure, because a machine may
# move few tasks.
build "$CC" -O2 -DSN_PLAIN_ERRNO
SENNIT_PROCS=2 "${launcher[@]}" "$program" | sed 's/^/with the C library'\''s errno: /' || true
