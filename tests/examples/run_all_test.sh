#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: musl
#
# examples/run-all.c runs every command, prints the output of each in one piece, and reports which
# failed.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"
program=$SENNIT_BUILD_DIR/examples/example-run-all

commands=()
for ((i = 0; i < 20; i++)); do
	commands+=("echo begin $i; sleep 0.0$((i % 5)); echo end $i")
done
"${launcher[@]}" "$program" 4 "${commands[@]}" >"$scratch/out"
for ((i = 0; i < 20; i++)); do
	grep -qFx -A1 "begin $i" "$scratch/out" || fail "command $i has written nothing"
	[ "$(grep -Fx -A1 "begin $i" "$scratch/out" | tail -n1)" = "end $i" ] ||
		fail "the output of command $i is not in one piece: $(cat "$scratch/out")"
done

status=0
"${launcher[@]}" "$program" 2 'exit 3' 'kill -9 $$' 'echo wrong >&2' >"$scratch/out" || status=$?
[ "$status" = 1 ] || fail "the status is $status although commands have failed"
for line in '(exit status 3)' '(signal 9)' wrong; do
	grep -qFx "$line" "$scratch/out" || fail "no line \"$line\": $(cat "$scratch/out")"
done

# Ctrl-C ends all commands once they have begun.
mkfifo "$scratch/begun"
"${launcher[@]}" "$program" 2 "echo >'$scratch/begun'; exec sleep 1000" 2>"$scratch/err" &
pid=$!
read -r _ <"$scratch/begun"
kill -INT "$pid"
status=0
wait "$pid" || status=$?
[ "$status" = 1 ] || fail "the status after Ctrl-C is $status: $(cat "$scratch/err")"
grep -q canceled "$scratch/err" || fail "unclear: $(cat "$scratch/err")"
