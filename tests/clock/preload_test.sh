#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Unmodified programs run on sennit's clocks: libc's promises still hold, reading the time a million
# times makes no system call, and ordinary programs show the right time.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

library=$SENNIT_BUILD_DIR/tools/clock-preload/libsennit-clock-preload.so
[ -e "$library" ] || fail "no $library"
[[ $library != *[[:space:]:]* ]] || skip "LD_PRELOAD cannot name a path with a space or a colon"

# Wall times are compared.
retake=$scratch/retake
"$CC" "${cflags[@]}" -o "$retake" "$SENNIT_SOURCE_DIR/tests/clock/retake.c"

variants=("")
# Where long has 32 bits, a program chooses how wide its time is.
if [ "$SENNIT_ARCH" = i386 ] || [ "$SENNIT_ARCH" = arm ]; then
	variants+=("-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64")
fi
for variant in "${variants[@]}"; do
	program=$scratch/libc_clocks
	# shellcheck disable=SC2086 # words
	"$CC" "${cflags[@]}" $variant -D_GNU_SOURCE -O2 -o "$program" \
		"$SENNIT_SOURCE_DIR/tests/clock/libc_clocks.c"
	"$retake" "$program" || fail "libc's own clocks"
	"$retake" env LD_PRELOAD="$library" "$program" || fail "sennit's clocks"

	# The dynamic linker reports that sennit's functions are called.
	LD_PRELOAD=$library LD_DEBUG=bindings "$program" >"$scratch/bindings" 2>&1 || true
	names=(gettimeofday clock_gettime clock_getres getcpu)
	# On x86_64, glibc's own time() goes straight to the vDSO.
	[ "$SENNIT_ARCH" = x86_64 ] || names+=(time)
	for name in "${names[@]}"; do
		grep -qE "$program .* to $library .*\`(__)?$name(64)?'" "$scratch/bindings" ||
			fail "$name is not ours"
	done
	# These have one name, however wide the program's time is.
	for name in __gettimeofday ftime; do
		grep -qF "symbol \`$name'" <(grep "$program .* to $library" "$scratch/bindings") ||
			fail "$name is not ours"
	done
	grep -qE "$program .* to $library .*\`(timespec_get|__timespec_get64)'" "$scratch/bindings" ||
		fail "timespec_get is not ours"
	strace -f -c -U name,calls -E "LD_PRELOAD=$library" -o "$scratch/calls" "$program" --million
	if grep -E ' (clock_.*|gettimeofday|time)$|^(clock_|gettimeofday|time)' "$scratch/calls"; then
		fail "system calls were made"
	fi
done

# Every function of libc that returns a time is replaced, except those that preload.c names.
libc=$(ldd "$scratch/libc_clocks" | awk '$1 == "libc.so.6" { print $3 }')
nm -D --defined-only "$libc" | sed 's/.* //; s/@.*//' |
	grep -xE '_*(f?time|gettimeofday|(clock_get|timespec_get)(time|res)?|getcpu)(64)?' |
	sort -u >"$scratch/theirs"
nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$scratch/ours"
[ "$SENNIT_ARCH" != x86_64 ] || echo time >>"$scratch/ours"
missing=$(comm -23 "$scratch/theirs" <(sort -u "$scratch/ours"))
[ -z "$missing" ] || fail "these stay libc's: $missing"
[ "$(wc -l <"$scratch/theirs")" -ge 8 ] || fail "found too few clocks in $libc"

# Where libc's time() is as fast as the vDSO's function, it must stay the one that is called.
if [ "$SENNIT_ARCH" = x86_64 ] && nm -D --defined-only "$library" | grep -w time; then
	fail "time() is a detour"
fi

# None of these functions reads the counter, so the library prepares none: only the loader makes
# system calls.
cat >"$scratch/nothing.c" <<'C'
int main(void)
{
	return 0;
}
C
"$CC" "${cflags[@]}" -o "$scratch/nothing" "$scratch/nothing.c"
strace -E "LD_PRELOAD=$library" -o "$scratch/start" "$scratch/nothing"
if grep -E 'clocksource|MADV|madvise|PR_GET_TSC' "$scratch/start"; then
	fail "a counter was prepared"
fi

# A library that also replaces the clocks, such as libfaketime, takes effect in either order.
cat >"$scratch/other.c" <<'C'
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#define DAYS (10 * 86400)
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
	int result = real(id, ts);
	ts->tv_sec -= DAYS;
	return result;
}
int gettimeofday(struct timeval *tv, void *zone)
{
	int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
	int result = real(tv, zone);
	tv->tv_sec -= DAYS;
	return result;
}
time_t time(time_t *seconds)
{
	time_t (*real)(time_t *) = dlsym(RTLD_NEXT, "time");
	time_t now = real(0) - DAYS;
	if (seconds)
		*seconds = now;
	return now;
}
C
cat >"$scratch/three.c" <<'C'
#include <stdio.h>
#include <sys/time.h>
#include "kernel_clock.h"
#define SECOND 1000000000
int main(void)
{
	long before = kernel_ns(CLOCK_REALTIME_COARSE) / SECOND - 10 * 86400, after, seconds;
	struct timespec ts, resolution;
	struct timeval tv;
	if (clock_gettime(CLOCK_REALTIME, &ts) || gettimeofday(&tv, NULL) ||
	    clock_getres(CLOCK_REALTIME, &resolution))
		return 1;
	seconds = time(NULL);
	after = kernel_ns(CLOCK_REALTIME) / SECOND - 10 * 86400;
	printf("%ld %ld %ld, %ld to %ld\n", seconds, (long)ts.tv_sec, (long)tv.tv_sec, before, after);
	return seconds < before || seconds > after || ts.tv_sec < before || ts.tv_sec > after ||
	       tv.tv_sec < before || tv.tv_sec > after;
}
C
"$CC" "${cflags[@]}" -w -D_GNU_SOURCE -O2 -fPIC -shared -o "$scratch/other.so" "$scratch/other.c" -ldl
"$CC" "${cflags[@]}" -O2 -I "$SENNIT_SOURCE_DIR/tests/clock" -o "$scratch/three" "$scratch/three.c"
for order in "$library:$scratch/other.so" "$scratch/other.so:$library"; do
	"$retake" env LD_PRELOAD="$order" "$scratch/three" >"$scratch/output" ||
		fail "LD_PRELOAD=$order is not ten days earlier: $(cat "$scratch/output")"
done

# If there is no source of time at all, time() fails as libc's does.
cat >"$scratch/refused.c" <<'C'
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#define REFUSE(number)                                          \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES)
int main(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		REFUSE(SYS_time),
		REFUSE(SYS_clock_gettime),
#ifdef SYS_clock_gettime64
		REFUSE(SYS_clock_gettime64),
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	time_t now = 5;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 77;
	errno = 0;
	now = time(&now);
	printf("%ld %d\n", (long)now, errno);
	return 0;
}
C
for variant in "${variants[@]}"; do
	# shellcheck disable=SC2086 # words
	"$CC" "${cflags[@]}" $variant -D_GNU_SOURCE -O2 -o "$scratch/refused" "$scratch/refused.c"
	output=$(LD_PRELOAD=$library "$SENNIT_BUILD_DIR/tests/clock/without-vdso" "$scratch/refused")
	[ "$output" = "-1 13" ] || fail "time() without a source of time $variant: $output"
done

# Ordinary programs, where they have the word size of this build.
if [ "$SENNIT_ARCH" = "$(uname -m)" ]; then
	cat >"$scratch/date" <<'SH'
before=$(date +%s%N)
during=$(LD_PRELOAD=$1 date +%s%N)
after=$(date +%s%N)
echo "date: $before $during $after"
[ "$before" -le "$during" ] && [ "$during" -le "$after" ]
SH
	"$retake" bash "$scratch/date" "$library" || fail "date"

	cat >"$scratch/clocks.py" <<'PY'
import time, datetime, threading
for clock in ("monotonic", "perf_counter", "time"):
    info = time.get_clock_info(clock)
    last = getattr(time, clock)()
    for _ in range(1000):
        now = getattr(time, clock)()
        assert now >= last, (clock, last, now)
        last = now
before = time.monotonic()
threading.Event().wait(0.05)
assert time.monotonic() - before >= 0.05
# Equal to within a microsecond, plus the rounding of a double.
before, now, after = time.time(), datetime.datetime.now().timestamp(), time.time()
assert before - 2e-6 <= now <= after + 2e-6, (before, now, after)
try:
    time.clock_gettime(1234)
except OSError as error:
    assert error.errno == 22
else:
    assert False
PY
	"$retake" env LD_PRELOAD="$library" python3 "$scratch/clocks.py" || fail "python"
fi
