#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# With tools/lock-check, debug builds report a task that parks with a pthread mutex. The tool does
# not disturb other builds, or programs that keep to the rule.
# shellcheck source-path=SCRIPTDIR/../house
source "$(dirname "$0")/../house/lib.sh"

[ -z "$SENNIT_SANITIZE" ] || skip "the sanitizers replace the same functions"

cat >"$scratch/program.c" <<'C'
#include <pthread.h>
#include <sennit/sennit.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int first(void *arg)
{
	char **argv = arg;

	pthread_mutex_lock(&lock);
	if (argv[1] && strcmp(argv[1], "unlock") == 0)
		pthread_mutex_unlock(&lock);
	sn_sleep(1000000);
	return 0;
}

int main(int argc, char **argv)
{
	return argc > 2 ? 3 : sn_run(first, argv);
}
C
"$CC" "${cflags[@]}" -I "$SENNIT_SOURCE_DIR/include" -o "$scratch/program" "$scratch/program.c" \
	-L "$SENNIT_BUILD_DIR/src" -lsennit -pthread
export LD_LIBRARY_PATH=$SENNIT_BUILD_DIR/src

preload=LD_PRELOAD=$SENNIT_BUILD_DIR/tools/lock-check/libsennit-lock-check.so
case ${launcher[*]} in
*qemu*) run=("${launcher[@]}" -E "$preload") ;;
*) run=("${launcher[@]}" env "$preload") ;;
esac
run() {
	"${run[@]}" "$scratch/program" "$@" 2>"$scratch/said"
}

run unlock || fail "a program that keeps to the rule exits with $?: $(cat "$scratch/said")"
if grep -q '^SENNIT_DEBUG:BOOL=ON' "$SENNIT_BUILD_DIR/CMakeCache.txt"; then
	! run 2>/dev/null || fail "parking with a pthread mutex is not reported"
	grep -q 'sn_sleep.*() called in task [0-9]*, which holds 1 lock of its thread' "$scratch/said" ||
		fail "the report is: $(cat "$scratch/said")"
else
	run || fail "a release build is disturbed: $(cat "$scratch/said")"
fi
