#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Each public header compiles alone, as strict C11 and as strict C++20, without a warning; a .hpp
# as C++20 only.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

warnings=(-Wall -Wextra -Wpedantic -pedantic-errors -Wundef -Werror -fsyntax-only)
bad=0

check() {
	if ! printf '#include <sennit/%s>\n' "$1" >"$scratch/$2" ||
		! "${@:3}" "${cflags[@]}" "${warnings[@]}" -I "$SENNIT_SOURCE_DIR/include" "$scratch/$2"; then
		echo "sennit/$1 does not compile alone: ${*:3}" >&2
		bad=1
	fi
}

for header in "$SENNIT_SOURCE_DIR"/include/sennit/*; do
	header=$(basename "$header")
	case $header in
	*.h) check "$header" header.c "$CC" -std=c11 -Wstrict-prototypes ;;
	*.hpp) ;;
	*) fail "include/sennit/$header is neither a .h nor a .hpp" ;;
	esac
	check "$header" header.cc "$CXX" -std=c++20
done

# The umbrella header has them all, but that of the other library.
for header in "$SENNIT_SOURCE_DIR"/include/sennit/*.h; do
	header=$(basename "$header")
	if [ "$header" != sennit.h ] && [ "$header" != gc.h ] &&
		! grep -qF "#include <sennit/$header>" "$SENNIT_SOURCE_DIR/include/sennit/sennit.h"; then
		echo "sennit/sennit.h does not include sennit/$header" >&2
		bad=1
	fi
done
exit "$bad"
