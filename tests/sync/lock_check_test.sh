#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# With tools/lock-check, debug builds report a task that parks while it holds a lock of the C
# library. The tool does not disturb other builds, or programs that keep to the rule.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

[ -z "$SENNIT_SANITIZE" ] || skip "the sanitizers replace the same functions"

cat >"$scratch/program.c" <<'C'
#include <pthread.h>
#include <sennit/sennit.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin_lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag flag = ONCE_FLAG_INIT;
static mtx_t mtx;

static void nothing(void) {}

static void park(void)
{
	sn_sleep(1000000);
}

/* argv: the kind of lock, and "unlock" to release it in time. */
static int first(void *arg)
{
	char **argv = arg;
	const int keeps = !argv[2];

	if (strcmp(argv[1], "mutex") == 0) {
		pthread_mutex_lock(&mutex);
		if (!keeps)
			pthread_mutex_unlock(&mutex);
	} else if (strcmp(argv[1], "spin") == 0) {
		pthread_spin_init(&spin_lock, PTHREAD_PROCESS_PRIVATE);
		pthread_spin_lock(&spin_lock);
		if (!keeps)
			pthread_spin_unlock(&spin_lock);
	} else if (strcmp(argv[1], "mtx") == 0) {
		mtx_init(&mtx, mtx_plain);
		mtx_lock(&mtx);
		if (!keeps)
			mtx_unlock(&mtx);
	} else if (strcmp(argv[1], "file") == 0) {
		flockfile(stdout);
		if (!keeps)
			funlockfile(stdout);
	} else if (strcmp(argv[1], "once") == 0) {
		pthread_once(&once, keeps ? park : nothing);
	} else if (strcmp(argv[1], "call_once") == 0) {
		call_once(&flag, keeps ? park : nothing);
	}
	park();
	return 0;
}

int main(int argc, char **argv)
{
	return argc < 2 ? 3 : sn_run(first, argv);
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

for kind in mutex spin mtx file once call_once; do
	run "$kind" unlock ||
		fail "a program that keeps to the rule, $kind, exits with $?: $(cat "$scratch/said")"
	if grep -q '^SENNIT_DEBUG:BOOL=ON' "$SENNIT_BUILD_DIR/CMakeCache.txt"; then
		! run "$kind" 2>/dev/null || fail "parking with a lock is not reported: $kind"
		grep -q 'sn_sleep.*() called in task [0-9]*, which holds 1 lock of its thread' \
			"$scratch/said" || fail "the report is, $kind: $(cat "$scratch/said")"
	else
		run "$kind" || fail "a release build is disturbed, $kind: $(cat "$scratch/said")"
	fi
done
