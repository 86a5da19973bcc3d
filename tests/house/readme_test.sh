#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The README's program is examples/echo.c, to the byte, and it echoes.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

sed -n '/^```c$/,/^```$/{/^```/!p}' "$SENNIT_SOURCE_DIR/README.md" >"$scratch/echo.c"
diff -u "$SENNIT_SOURCE_DIR/examples/echo.c" "$scratch/echo.c" ||
	fail "README.md and examples/echo.c differ"

port=7000
connects() {
	(exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null
}
if connects; then
	skip "port $port is taken"
fi
# shellcheck disable=SC2086 # the launcher may be empty
$SENNIT_LAUNCHER "$SENNIT_BUILD_DIR/examples/example-echo" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT
for ((tries = 0; ; tries++)); do
	connects && break
	kill -0 "$server" 2>/dev/null || fail "example-echo ended"
	((tries < 1000)) || fail "example-echo does not listen"
	sleep 0.05
done
exec 3<>/dev/tcp/127.0.0.1/$port
printf 'hello, %s\n' "$$" >&3
read -r -t 60 said <&3 || fail "no answer"
[ "$said" = "hello, $$" ] || fail "sent \"hello, $$\", got \"$said\""
