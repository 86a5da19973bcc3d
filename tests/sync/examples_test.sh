#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: musl
#
# The examples that use channels do what they promise.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

examples=$SENNIT_BUILD_DIR/examples
run() {
	timeout 60 "${launcher[@]}" "$@"
}

for processors in 1 4; do
	export SENNIT_PROCS=$processors
	primes=$(run "$examples/example-prime-sieve" | tr '\n' ' ')
	[ "$primes" = '2 3 5 7 11 13 17 19 23 29 ' ] || fail "prime-sieve says $primes"
	last=$(run "$examples/example-prime-sieve" 200 | tail -n 1)
	[ "$last" = 1223 ] || fail "prime-sieve says that the 200th prime is $last"

	for lines in 0 1 1000; do
		for ((i = 0; i < lines; i++)); do
			printf ' a line  of five words\n'
		done >"$scratch/lines"
		words=$(run "$examples/example-pipeline" <"$scratch/lines")
		[ "$words" = $((5 * lines)) ] || fail "pipeline says $words of $lines lines"
	done

	# A stage fails, and the others end.
	{ printf 'a line\n%0300d\n' 1; } >"$scratch/lines"
	if run "$examples/example-pipeline" <"$scratch/lines" 2>"$scratch/log"; then
		fail "pipeline accepts a line that is too long"
	fi
	grep -q 'Argument list too long' "$scratch/log" || fail "pipeline says: $(cat "$scratch/log")"

	# The deadline passes while the reader is in a read, which ends with its input a second
	# later. A machine that starts the program later than that gets more time.
	for rest in 1 5 25; do
		if { printf 'a line\n'; sleep "$rest"; } |
			run "$examples/example-pipeline" 0.05 2>"$scratch/log"; then
			[ "$rest" != 25 ] || fail "pipeline ignores its deadline"
		else
			break
		fi
	done
	grep -q 'timed out' "$scratch/log" || fail "pipeline says: $(cat "$scratch/log")"
done
