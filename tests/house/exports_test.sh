#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The shared libraries export what the public headers declare, and nothing else: libsennit-gc what
# gc.h does, libsennit the rest.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

library=$SENNIT_BUILD_DIR/src/libsennit.so
gc_library=$SENNIT_BUILD_DIR/src/gc/libsennit-gc.so
gc_header=$SENNIT_SOURCE_DIR/include/sennit/gc.h

# compare LIBRARY SYMBOL HEADER...: the symbol is one that must be among them.
compare() {
	nm -D --defined-only "$1" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort >"$scratch/exported"
	cat "${@:3}" | tr '\n' ' ' |
		grep -oE 'SN_API [^;(]*\(' | sed -nE 's/^.*[^a-z0-9_](sn_[a-z0-9_]+)\($/\1/p' |
		cat - <(grep -hoE '^extern SN_API [^;]*\bsn_[a-z0-9_]+' "${@:3}" |
			grep -oE 'sn_[a-z0-9_]+$') | sort -u >"$scratch/declared"

	grep -q "^$2\$" "$scratch/declared" || fail "found no declarations in the headers"
	if ! diff -u "$scratch/declared" "$scratch/exported" >"$scratch/diff"; then
		sed -n '4,$p' "$scratch/diff" >&2
		fail "declared (-) and exported (+) symbols differ: $1"
	fi
}

headers=()
for header in "$SENNIT_SOURCE_DIR"/include/sennit/*.h; do
	[ "$header" = "$gc_header" ] || headers+=("$header")
done
compare "$library" sn_version "${headers[@]}"
if [ -e "$gc_library" ]; then
	compare "$gc_library" sn_gc_init "$gc_header"
fi

readelf -dW "$library" >"$scratch/dynamic"
grep -q 'SONAME.*\[libsennit\.so\.0\]' "$scratch/dynamic" || fail "the SONAME is not libsennit.so.0"
grep -q TEXTREL "$scratch/dynamic" && fail "the library needs text relocations"
# Assembly that forgets .note.GNU-stack makes every stack of the program executable.
readelf -lW "$library" | grep -q 'GNU_STACK.* RW ' || fail "the library asks for executable stacks"
readelf -dW "$library" | grep -qE 'NEEDED.*libgc\.so' && fail "libsennit needs libgc"
exit 0
