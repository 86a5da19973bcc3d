#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# examples/directory-sizes.cc finds what find(1) finds.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"
program=$SENNIT_BUILD_DIR/examples/example-directory-sizes

mkdir -p "$scratch/top"
for ((i = 0; i < 30; i++)); do
	folder=$scratch/top/dir$((i % 6))/a$i/b$((i % 4))
	mkdir -p "$folder"
	head -c $((i * 1000 + 1)) /dev/zero >"$folder/file"
done
head -c 777 /dev/zero >"$scratch/top/plain"
ln -s /usr "$scratch/top/link" # not followed
"${launcher[@]}" "$program" "$scratch/top" >"$scratch/out"

expected=$(find "$scratch/top" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
[ "$(awk '/in total$/ { print $1 }' "$scratch/out")" = "$expected" ] ||
	fail "the sum is not $expected: $(cat "$scratch/out")"
for each in dir0 dir3 plain; do
	expected=$(find "$scratch/top/$each" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
	[ "$(awk -v name=$each '$2 == name { print $1 }' "$scratch/out")" = "$expected" ] ||
		fail "$each is not $expected: $(cat "$scratch/out")"
done
[ "$(grep -c . "$scratch/out")" = 9 ] || fail "not one line for each: $(cat "$scratch/out")"
head -n -1 "$scratch/out" | awk '{ print $1 }' | sort -rnc || fail "not the largest first"

if "${launcher[@]}" "$program" "$scratch/nowhere" 2>"$scratch/err"; then
	fail "a folder that does not exist was not an error"
fi
grep -q 'nowhere: No such file' "$scratch/err" || fail "unclear: $(cat "$scratch/err")"
