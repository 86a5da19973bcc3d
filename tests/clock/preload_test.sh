#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Unmodified programs run on sennit's clocks: what libc promises still holds, no system call is made
# for a million times, and programs of other people's tell the right time.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../house/lib.sh"

library=$SENNIT_BUILD_DIR/tools/clock-preload/libsennit-clock-preload.so
[ -e "$library" ] || fail "no $library"

variants=("")
# Where long has 32 bits a program chooses how wide its time is.
if [ "$SENNIT_ARCH" = i386 ] || [ "$SENNIT_ARCH" = arm ]; then
	variants+=("-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64")
fi
for variant in "${variants[@]}"; do
	program=$scratch/libc_clocks
	# shellcheck disable=SC2086 # words
	"$CC" "${cflags[@]}" $variant -D_GNU_SOURCE -O2 -o "$program" \
		"$SENNIT_SOURCE_DIR/tests/clock/libc_clocks.c"
	"$program" >"$scratch/libc"
	LD_PRELOAD=$library "$program" >"$scratch/ours" 2>&1 || fail "$(cat "$scratch/ours")"
	diff "$scratch/libc" "$scratch/ours"

	# It is our functions that are called: the dynamic linker says so.
	LD_PRELOAD=$library LD_DEBUG=bindings "$program" >"$scratch/bindings" 2>&1
	for name in time gettimeofday clock_gettime clock_getres getcpu; do
		grep -qE "$program .* to $library .*\`(__)?$name(64)?'" "$scratch/bindings" ||
			fail "$name is not ours"
	done
	strace -f -c -U name,calls -E "LD_PRELOAD=$library" -o "$scratch/calls" "$program" --million
	if grep -E ' (clock_.*|gettimeofday|time)$|^(clock_|gettimeofday|time)' "$scratch/calls"; then
		fail "system calls were made"
	fi
done

# Somebody else's programs, where they have the word size of this build.
if [ "$SENNIT_ARCH" = "$(uname -m)" ]; then
	before=$(date +%s%N)
	during=$(LD_PRELOAD=$library date +%s%N)
	after=$(date +%s%N)
	[ "$before" -le "$during" ] && [ "$during" -le "$after" ] || fail "date: $before $during $after"

	LD_PRELOAD=$library python3 - <<'PY' || fail "python"
import time, datetime, threading
for clock in ("monotonic", "perf_counter", "time"):
    info = time.get_clock_info(clock)
    last = getattr(time, clock)()
    for _ in range(10000):
        now = getattr(time, clock)()
        assert now >= last, (clock, last, now)
        last = now
before = time.monotonic()
threading.Event().wait(0.05)
assert time.monotonic() - before >= 0.05
assert abs(datetime.datetime.now().timestamp() - time.time()) < 1
try:
    time.clock_gettime(1234)
except OSError as error:
    assert error.errno == 22
else:
    assert False
PY
fi
