#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Programs that are linked with the clocks' shared library call sn_time() without a detour through
# it, however they are compiled. A program that loads and unloads the library has nothing of it left
# afterwards.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

folder=$SENNIT_BUILD_DIR/src/clock
source=$SENNIT_SOURCE_DIR/tests/clock/shared.c
include=$SENNIT_SOURCE_DIR/include

# Wall times are compared.
retake=$scratch/retake
"$CC" "${cflags[@]}" -o "$retake" "$SENNIT_SOURCE_DIR/tests/clock/retake.c"

# The last two are for an executable that has a copy of the library's variable, and for one that
# never does.
for flags in -O0 -O2 "-O2 -fno-pie -no-pie" "-O2 -fPIC -pie"; do
	# shellcheck disable=SC2086 # words
	"$CC" "${cflags[@]}" $flags -I "$include" -o "$scratch/shared" "$source" \
		-L "$folder" -lsennit-clock -ldl
	LD_LIBRARY_PATH=$folder "$retake" "$scratch/shared" || fail "with $flags"
done

# C++ takes the inline function as well.
cat >"$scratch/seconds.cc" <<'CC'
#include <sennit/clock.h>
int main()
{
	return ::sn_time() <= 0;
}
CC
for flags in -O0 -O2; do
	[ -n "$CXX" ] || break # a build without a C++ compiler
	"$CXX" "${cflags[@]}" "$flags" -I "$include" -o "$scratch/seconds" "$scratch/seconds.cc" \
		-L "$folder" -lsennit-clock
	LD_LIBRARY_PATH=$folder "$scratch/seconds" || fail "C++ with $flags"
	case $SENNIT_ARCH in
	x86_64 | aarch64 | riscv64)
		if nm -D --undefined-only "$scratch/seconds" | grep -w sn_time; then
			fail "sn_time() is a call into the library"
		fi
		;;
	esac
done

# musl never unloads a library.
[[ $CC != *musl* ]] || exit 0
"$CC" "${cflags[@]}" -O2 -DLOADS -I "$include" -o "$scratch/shared" "$source" -ldl
"$scratch/shared" "$folder/libsennit-clock.so" || fail "something is left of the library"
