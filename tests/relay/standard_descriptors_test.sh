#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Started without standard descriptors, the relay opens /dev/null there, and no files of its own.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

relay=$SENNIT_BUILD_DIR/tools/relay/sennit-relay
[ -r "/proc/$$/fd/0" ] || skip "no /proc"

"${launcher[@]}" "$relay" 127.0.0.1:0 127.0.0.1:9 <&- >&- 2>&- &
pid=$!
trap 'kill "$pid" 2>/dev/null; rm -rf "$scratch"' EXIT

# When the relay listens, it has opened all files of its start.
listens() {
	ls -l "/proc/$pid/fd" 2>/dev/null | grep -q socket:
}
until listens; do
	kill -0 "$pid" 2>/dev/null || fail "the relay has ended"
	sleep 0.02
done
for number in 0 1 2; do
	file=$(readlink "/proc/$pid/fd/$number" || echo none)
	[ "$file" = /dev/null ] || fail "descriptor $number is $file"
done
