#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: musl
#
# examples/worker-pool.c finds the right numbers, with one worker and with many, and rejects bad
# input.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

pool=$SENNIT_BUILD_DIR/examples/example-worker-pool
for workers in 1 7; do
	"${launcher[@]}" "$pool" "$workers" 11 >"$scratch/said" 2>"$scratch/progress" ||
		fail "with $workers workers it exits with $?: $(cat "$scratch/progress")"
	[ "$(wc -l <"$scratch/said")" = 11 ] || fail "not 11 answers"
	grep -qx '0 primes below 0' "$scratch/said" || fail "wrong about 0"
	grep -qx '168 primes below 1000' "$scratch/said" || fail "wrong about 1000"
	grep -qx '1229 primes below 10000' "$scratch/said" || fail "wrong about 10000"
done
status=0
"${launcher[@]}" "$pool" 0 2>"$scratch/said" || status=$?
[ "$status" = 2 ] || fail "no workers: exits with $status"
grep -q 'at least 1 worker' "$scratch/said" || fail "does not say what is wrong"
