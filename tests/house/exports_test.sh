#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The shared library exports what the public headers declare, and nothing else.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

library=$SENNIT_BUILD_DIR/src/libsennit.so

nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort >"$scratch/exported"
cat "$SENNIT_SOURCE_DIR"/include/sennit/*.h | tr '\n' ' ' |
	grep -oE 'SN_API [^;(]*\(' | sed -nE 's/^.*[^a-z0-9_](sn_[a-z0-9_]+)\($/\1/p' |
	cat - <(grep -hoE '^extern SN_API [^;]*\bsn_[a-z0-9_]+' "$SENNIT_SOURCE_DIR"/include/sennit/*.h |
		grep -oE 'sn_[a-z0-9_]+$') | sort -u >"$scratch/declared"

grep -q '^sn_version$' "$scratch/declared" || fail "found no declarations in the headers"
if ! diff -u "$scratch/declared" "$scratch/exported" >"$scratch/diff"; then
	sed -n '4,$p' "$scratch/diff" >&2
	fail "declared (-) and exported (+) symbols differ"
fi

readelf -dW "$library" >"$scratch/dynamic"
grep -q 'SONAME.*\[libsennit\.so\.0\]' "$scratch/dynamic" || fail "the SONAME is not libsennit.so.0"
grep -q TEXTREL "$scratch/dynamic" && fail "the library needs text relocations"
# Assembly that forgets .note.GNU-stack makes every stack of the program executable.
readelf -lW "$library" | grep -q 'GNU_STACK.* RW ' || fail "the library asks for executable stacks"
