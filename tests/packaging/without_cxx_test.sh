#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: gate
#
# SENNIT_CXX=OFF needs no C++ compiler, also with tests: where there are programs of GoogleTest, the
# rest of the build must not refer to them. (The nightly's musl builds and runs what is left.)
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

CXX=/nonexistent cmake -G Ninja -S "$SENNIT_SOURCE_DIR" -B "$scratch/build" -DSENNIT_CXX=OFF \
	-DCMAKE_C_COMPILER="$CC" >"$scratch/log" 2>&1 ||
	{ cat "$scratch/log" >&2; fail "configuring without a C++ compiler"; }
targets=$(cmake --build "$scratch/build" --target help)
grep -q 'libsennit\.a' <<<"$targets" || fail "the library is not built: $targets"
if grep -q 'timer-test' <<<"$targets"; then
	fail "a test in C++ is built"
fi
