#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Every public name is documented: Doxygen has nothing to complain of, and every function that the
# headers declare has a manual page. Names with two underscores (sn__) are not for programs.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

if ! "$SENNIT_SOURCE_DIR/scripts/docs" "$scratch/docs" 2>"$scratch/warnings"; then
	cat "$scratch/warnings" >&2
	fail "the reference has gaps (scripts/docs prints the same)"
fi
[ -s "$scratch/docs/html/index.html" ] || fail "there is no HTML"

tr '\n' ' ' < <(cat "$SENNIT_SOURCE_DIR"/include/sennit/*.h) |
	grep -oE 'SN_API [^;(]*\(' | sed -nE 's/^.*[^a-z0-9_](sn_[a-z0-9][a-z0-9_]*)\($/\1/p' |
	sort -u >"$scratch/functions"
[ "$(wc -l <"$scratch/functions")" -gt 50 ] || fail "found too few functions in the headers"
while read -r name; do
	[ -s "$scratch/docs/man/man3/$name.3" ] || fail "$name has no manual page"
done <"$scratch/functions"
