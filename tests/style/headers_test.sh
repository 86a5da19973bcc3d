#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Each public header compiles alone, as strict C11 and as strict C++20, without a warning; a .hpp
# only as C++20 and as C++23. With SENNIT_TEST_SHORT they compile together in each mode of C++: one
# that lacks an #include is then found only if none before it has that.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

warnings=(-Wall -Wextra -Wpedantic -pedantic-errors -Wundef -Werror -fsyntax-only)
newer=("$CXX" -std=c++2b -Wconversion -Wshadow)
older=("$CXX" -std=c++20)
together=
all=
bad=0

# check 'HEADER...' FILE COMPILER...
check() {
	local headers
	read -r -a headers <<<"$1"
	if ! printf '#include <sennit/%s>\n' "${headers[@]}" >"$scratch/$2" ||
		! "${@:3}" "${cflags[@]}" "${warnings[@]}" -I "$SENNIT_SOURCE_DIR/include" "$scratch/$2"; then
		echo "sennit/$1 does not compile alone: ${*:3}" >&2
		bad=1
	fi
}

for header in "$SENNIT_SOURCE_DIR"/include/sennit/*; do
	header=$(basename "$header")
	case $header in
	*.h) check "$header" header.c "$CC" -std=c11 -Wstrict-prototypes ;;
	*.hpp)
		together+=" $header"
		[ -n "${SENNIT_TEST_SHORT:-}" ] || check "$header" header.cc "${newer[@]}"
		;;
	*) fail "include/sennit/$header is neither a .h nor a .hpp" ;;
	esac
	all+=" $header"
	[ -n "${SENNIT_TEST_SHORT:-}" ] || check "$header" header.cc "${older[@]}"
done
if [ -n "${SENNIT_TEST_SHORT:-}" ]; then
	check "$all" header.cc "${older[@]}"
	check "$together" header.cc "${newer[@]}"
fi

# In an older mode it reports only that.
printf '#include <sennit/sennit.hpp>\n' >"$scratch/old.cc"
if "$CXX" -std=c++17 "${cflags[@]}" -fsyntax-only -I "$SENNIT_SOURCE_DIR/include" \
	"$scratch/old.cc" 2>"$scratch/errors"; then
	fail "sennit.hpp compiles as C++17"
fi
if [ "$(grep -c 'error' "$scratch/errors")" -gt 3 ] || ! grep -q 'std=c++20' "$scratch/errors"; then
	cat "$scratch/errors" >&2
	bad=1
fi

# Without exceptions it reports only that, too.
if "$CXX" -std=c++20 -fno-exceptions "${cflags[@]}" -fsyntax-only \
	-I "$SENNIT_SOURCE_DIR/include" "$scratch/old.cc" 2>"$scratch/errors"; then
	fail "sennit.hpp compiles without exceptions"
fi
if ! grep -q 'error.*needs exceptions' "$scratch/errors"; then
	cat "$scratch/errors" >&2
	bad=1
fi

# sennit.h has the numbers that its calls take and return.
printf '#include <sennit/sennit.h>\nint a[] = {-ETIMEDOUT, SIGTERM};\n' >"$scratch/numbers.c"
if ! "$CC" -std=c11 "${cflags[@]}" -fsyntax-only -I "$SENNIT_SOURCE_DIR/include" \
	"$scratch/numbers.c"; then
	bad=1
fi

# The umbrella header includes what programs use. These headers are included on request; gc.h,
# hooks.h and tls.h belong to other libraries.
on_request=(collector foreign gc hooks layer scan tls unstable vdso wait_stats)

for header in "$SENNIT_SOURCE_DIR"/include/sennit/*.h; do
	header=$(basename "$header" .h)
	included=0 wanted=1
	grep -qF "#include <sennit/$header.h>" "$SENNIT_SOURCE_DIR/include/sennit/sennit.h" && included=1
	[[ $header = sennit || " ${on_request[*]} " = *" $header "* ]] && wanted=0
	if [ "$included" != "$wanted" ]; then
		echo "sennit/sennit.h: includes sennit/$header.h: $included, should: $wanted" >&2
		bad=1
	fi
done
exit "$bad"
