#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A library in a hooked task, compiled without sennit, remembers properties of its thread across
# calls that park: errno, h_errno, pthread_self(), thread-locals. This works because the task
# continues on its thread. With SENNIT_HOOKS_STAY=0 it does not work, which shows that the test
# would notice.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

compilers=("$CC")
if [ "$SENNIT_ARCH" = x86_64 ]; then
	for compiler in gcc clang-14; do
		[ "$compiler" = "$CC" ] || ! command -v "$compiler" >/dev/null || compilers+=("$compiler")
	done
fi

library=$scratch/libstay.so
for compiler in "${compilers[@]}"; do
	for level in -O2 -O3; do
		"$compiler" "$level" "${cflags[@]}" -D_GNU_SOURCE -std=gnu11 -fPIC -shared \
			"$SENNIT_SOURCE_DIR/tests/hooks/stay_library.c" -o "$library" ||
			fail "it does not compile: $compiler $level"
		# Far longer than the machine ever keeps a thread waiting.
		status=0
		said=$(SENNIT_HOOKS_STAY=600000 SENNIT_PROCS=2 "${launcher[@]}" \
			"$SENNIT_BUILD_DIR/tests/hooks/hooks-stay" "$library") || status=$?
		printf '%s %s:\n%s\n' "$compiler" "$level" "$said"
		[ "$status" = 0 ] || fail "$compiler $level: exit status $status"
	done
done

# Without staying, tasks continue on any thread.
for ((i = 0; i < 20; i++)); do
	said=$(SENNIT_HOOKS_STAY=0 SENNIT_PROCS=2 "${launcher[@]}" \
		"$SENNIT_BUILD_DIR/tests/hooks/hooks-stay" "$library") || break
done
printf 'with SENNIT_HOOKS_STAY=0:\n%s\n' "$said"
[ "$i" -lt 20 ] || fail 'with SENNIT_HOOKS_STAY=0 nothing is wrong: the test would notice nothing'
