#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: gate
#
# scripts/install-preload installs the clocks' preload library for 64-bit and for 32-bit programs,
# and one LD_PRELOAD with $LIB serves both, without a complaint from the dynamic linker.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

prefix=$scratch/opt
CC=$CC CXX=$CXX SENNIT_PRELOAD_DIR=$SENNIT_BUILD_DIR/preload \
	"$SENNIT_SOURCE_DIR/scripts/install-preload" "$prefix"

cat >"$scratch/program.c" <<'C'
#include <time.h>

int main(void)
{
	struct timespec now;

	return clock_gettime(CLOCK_MONOTONIC, &now);
}
C
for flags in -m64 -m32; do
	"$CC" "$flags" -idirafter /usr/include/x86_64-linux-gnu -o "$scratch/program" "$scratch/program.c"
	# shellcheck disable=SC2016 # the dynamic linker expands $LIB
	LD_PRELOAD=$prefix'/$LIB/libsennit-clock-preload.so' \
		LD_DEBUG=bindings LD_DEBUG_OUTPUT=$scratch/bindings \
		"$scratch/program" 2>"$scratch/said" || fail "the program with $flags"
	[ ! -s "$scratch/said" ] || fail "with $flags: $(cat "$scratch/said")"
	grep -q "program .* to $prefix/.*/libsennit-clock-preload.so .*\`clock_gettime'" \
		"$scratch"/bindings.* ||
		fail "clock_gettime is not ours with $flags"
	rm "$scratch"/bindings.*
done
