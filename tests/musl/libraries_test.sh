#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# libsennit and libsennit-clock are made for musl: they need nothing of glibc, and are installed
# without the libraries that are not made for it. The programs in C of docs/tutorial.md that need no
# peer run with what is installed, linked with the shared library and statically.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

grep -q '^SENNIT_HAS_GETCONTEXT:INTERNAL=$' "$SENNIT_BUILD_DIR/CMakeCache.txt" ||
	skip "this build is for a C library with getcontext()"

prefix=$scratch/sennit
cmake --install "$SENNIT_BUILD_DIR" --prefix "$prefix" >"$scratch/log" 2>&1 ||
	fail "it cannot be installed: $(cat "$scratch/log")"
libraries=$(cd "$prefix/lib" && echo libsennit*)
expected='libsennit-clock.a libsennit-clock.so libsennit-clock.so.0.1 libsennit-clock.so.0.1.0'
expected+=' libsennit.a libsennit.so libsennit.so.0.1 libsennit.so.0.1.0'
[ "$(tr ' ' '\n' <<<"$libraries" | sort)" = "$(tr ' ' '\n' <<<"$expected" | sort)" ] ||
	fail "the libraries are $libraries"
for library in "$prefix"/lib/libsennit*.so; do
	needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
	[[ $needed =~ ^(libc.so )?$ ]] || fail "$library needs $needed"
	! nm -D --undefined-only "$library" | grep GLIBC || fail "$library is made for glibc"
done

# Prints the file NAME of the tutorial: the code block after "`NAME`:".
file_of() {
	awk -v name="\`$1\`:" '
		index($0, name) { wanted = 1 }
		wanted && /^```/ { if (inside) exit; inside = 1; next }
		inside { print }' "$SENNIT_SOURCE_DIR/docs/tutorial.md"
}

# run NAME WHAT-IT-PRINTS: compiles and runs the program in each way.
run() {
	local how said
	file_of "$1.c" >"$scratch/$1.c"
	[ -s "$scratch/$1.c" ] || fail "the tutorial has no $1.c"
	for how in '' -static; do
		# shellcheck disable=SC2086 # no word or one
		"$CC" "${cflags[@]}" -D_GNU_SOURCE -Wall -Werror -I "$prefix/include" $how \
			-o "$scratch/$1" "$scratch/$1.c" -L "$prefix/lib" -lsennit -pthread ||
			fail "$1.c does not compile $how"
		said=$(SENNIT_PROCS=1 LD_LIBRARY_PATH=$prefix/lib timeout 60 "$scratch/$1") ||
			fail "$1 $how exits with $?: $said"
		[ "$said" = "$2" ] || fail "$1 $how says: $said"
	done
}

run hello 'hello from the first task
hello from another task'
run blocking 'tick 1
tick 2
tick 3
read() returns 5'
