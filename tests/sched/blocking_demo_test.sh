#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: gate
#
# The demo of blocking calls, without PostgreSQL. With leases the heartbeat continues. Without them
# it stops. The bounds are the demo's (--check), wide enough for a busy machine.
set -eu

case ${SENNIT_LAUNCHER:-} in
*qemu*)
	echo 'a heartbeat of a thousand tasks is more than an emulator keeps up with'
	exit 77
	;;
esac
demo=$SENNIT_BUILD_DIR/bench/blocking/bench-blocking-demo
if [ -n "$SENNIT_SANITIZE" ] || [ ! -x "$demo" ]; then
	echo 'the demo is not built, or with a sanitizer that the C library is not instrumented for'
	exit 77
fi
# On a machine that stalls for most of two seconds, the heartbeat stops, too. The demo is then run
# again.
for what in blocking hogs; do
	for ((tries = 1; ; tries++)); do
		# shellcheck disable=SC2086 # the launcher may be empty
		$SENNIT_LAUNCHER "$demo" --check "$what" 2 && break
		((tries < 5)) || exit 1
	done
done
