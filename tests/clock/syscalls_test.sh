#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A million calls of each clock that the vDSO serves make no system call that returns a time. strace
# counts them, so a fallback cannot go unnoticed.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

# shellcheck disable=SC2206 # the launcher has words
launcher=(${SENNIT_LAUNCHER:-})
program=$SENNIT_BUILD_DIR/tests/clock/behaviour

count() {
	strace -f -c -U name,calls -o "$scratch/calls" "$@"
	awk '$1 ~ /^(clock_|gettimeofday|time$|getcpu)/ { n += $2 } END { print n + 0 }' \
		"$scratch/calls"
}

calls=$(count "${launcher[@]}" "$program" --million)
cat "$scratch/calls"
[ "$calls" -eq 0 ] || fail "$calls clock system calls in a million of each"

# Checks that strace sees such calls at all, and that this script counts them.
cat >"$scratch/count.c" <<'C'
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	long ts[4];
	for (int i = 0; i < 100; i++)
		syscall(SYS_clock_gettime, 1, ts);
	return 0;
}
C
"$CC" "${cflags[@]}" -o "$scratch/count" "$scratch/count.c"
calls=$(count "$scratch/count")
[ "$calls" -eq 100 ] || fail "counted $calls system calls where there are 100"
