#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The tarball of `make dist` is enough for a project that takes sennit by FetchContent, in C alone.
# The same for CPM and Meson's wrap, where these are installed.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"
only_nightly
git -C "$SENNIT_SOURCE_DIR" rev-parse --verify -q HEAD >/dev/null 2>&1 || skip "this is no clone"

for recipe in fetchcontent cpm meson; do
	status=0
	SENNIT_TRY_DIR=$scratch "$SENNIT_SOURCE_DIR/scripts/try-recipe" $recipe \
		>"$scratch/log" 2>&1 || status=$?
	case $status in
	0) grep -q 'a program runs with sennit' "$scratch/log" || fail "$recipe says nothing" ;;
	77) tail -n 1 "$scratch/log" ;;
	*) tail -n 40 "$scratch/log" >&2; fail "$recipe: $status" ;;
	esac
done
