#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# An example that is given an argument which it does not understand ends, and says how it is used or
# what is wrong with the argument.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

# These ask the network for any name, and this one has no arguments.
without=' c-ares curl-multi clocks '
tried=0
for program in "$SENNIT_BUILD_DIR"/examples/example-*; do
	name=${program##*/example-}
	[ -f "$program" ] && [ -x "$program" ] && [[ $without != *" $name "* ]] || continue
	status=0
	timeout 100 "${launcher[@]}" "$program" --nonsense >"$scratch/said" 2>&1 </dev/null || status=$?
	[ "$status" = 1 ] || [ "$status" = 2 ] || fail "$name: exits with $status: $(cat "$scratch/said")"
	grep -qE -e "usage: |--nonsense|^$name: how many|^$name: at least|has no host" "$scratch/said" ||
		fail "$name says: $(cat "$scratch/said")"
	tried=$((tried + 1))
done
[ "$tried" -gt 10 ] || fail "only $tried examples were built"

# A long list of options does not say which of the arguments is wrong.
program=$SENNIT_BUILD_DIR/examples/example-http-server
[ -x "$program" ] || exit 0
for wrong in '--nonsense 1:unknown option "--nonsense"' '--connections x:no valid value of "--connections"' \
	'--listen:no valid value of "--listen"'; do
	read -r -a words <<<"${wrong%%:*}"
	"${launcher[@]}" "$program" "${words[@]}" >"$scratch/said" 2>&1 && fail "accepts ${words[*]}"
	grep -qF "http-server: ${wrong#*:}" "$scratch/said" || fail "does not say: ${wrong#*:}"
done
