#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: nightly
#
# scripts/install-variants installs a library for each tool beside the normal one. A program selects
# it through pkg-config or CMake. The tool then finds nothing in a correct program, and finds the
# mistakes in a wrong one.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

prefix=$scratch/prefix
variants=(debug asan tsan valgrind)
quietly() {
	"$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "$*"; }
}
quietly cmake --install "$SENNIT_BUILD_DIR" --prefix "$prefix"
SENNIT_VARIANTS_DIR=$SENNIT_BUILD_DIR/variants quietly \
	"$SENNIT_SOURCE_DIR/scripts/install-variants" "$prefix" "${variants[@]}"

pc=$(find "$prefix" -name sennit-asan.pc)
[ -n "$pc" ] || fail "no sennit-asan.pc was installed"
export PKG_CONFIG_PATH=${pc%/*}
libdir=$(pkg-config --variable=libdir sennit)
for variant in "" "${variants[@]/#/-}"; do
	for file in a so so.0.1; do
		[ -e "$libdir/libsennit$variant.$file" ] || fail "libsennit$variant.$file was not installed"
	done
done
if grep -rlF -e "$SENNIT_SOURCE_DIR" -e "$SENNIT_BUILD_DIR" "$libdir/cmake" "$libdir/pkgconfig"; then
	fail "these files name the source or build folder"
fi

mkdir "$scratch/user"
cd "$scratch/user"
cp "$SENNIT_SOURCE_DIR/tests/packaging/variants.c" program.c
cat >program.cc <<'CC'
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <stdexcept>
#include <string>
#include <vector>

static int thrower(int depth)
{
	std::string text(static_cast<std::size_t>(depth) + 1, 'x');

	if (depth == 0)
		throw std::runtime_error(text);
	sn::yield();
	return thrower(depth - 1) + static_cast<int>(text.size());
}

int main()
{
	return sn::run([] {
		int caught = 0;
		std::vector<sn::task<int>> tasks;
		for (int i = 0; i < 20; i++)
			tasks.push_back(sn::spawn([i] {
				try {
					return thrower(i);
				} catch (const std::runtime_error &) {
					sn::yield();
					return 1;
				}
			}));
		for (auto &task : tasks)
			caught += task.join();
		return caught == 20 ? 0 : 1;
	});
}
CC
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(sennit 0.1 CONFIG REQUIRED COMPONENTS ${VARIANTS})
foreach(variant ${VARIANTS})
	add_executable(static-${variant} program.c)
	target_link_libraries(static-${variant} PRIVATE sennit::sennit-${variant}-static)
	add_executable(cxx-${variant} program.cc)
	target_link_libraries(cxx-${variant} PRIVATE sennit::sennit-${variant})
endforeach()
CMAKE
quietly cmake -G Ninja -S . -B build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug \
	-DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
	-DVARIANTS="$(printf '%s;' "${variants[@]}")"
quietly cmake --build build
for variant in "${variants[@]}"; do
	read -r -a found <<<"$(pkg-config --cflags --libs "sennit-$variant")"
	quietly "$CC" -g -O1 -o "$variant" program.c "${found[@]}" -Wl,-rpath,"$libdir"
	readelf -dW "$variant" >dynamic
	grep -q "NEEDED.*\[libsennit-$variant\.so\.0\.1\]" dynamic ||
		fail "pkg-config does not link libsennit-$variant.so"
	for program in "$variant" "build/static-$variant"; do
		nm "$program" >symbols
		grep -q ' [TU] __[at]san_init' symbols && sanitized=yes || sanitized=no
		case $variant:$sanitized in
		asan:yes | tsan:yes | debug:no | valgrind:no) ;;
		*) fail "the flags for $program do not fit: sanitized=$sanitized" ;;
		esac
	done
done

# run VARIANT PROGRAM [ARGUMENT]: runs it under the tool, with its output in ./said.
run() {
	local words=() status=0
	case $1 in
	tsan) words=("$SENNIT_SOURCE_DIR/scripts/no-aslr") ;;
	valgrind) words=(valgrind --leak-check=full --error-exitcode=99) ;;
	esac
	ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 TSAN_OPTIONS=halt_on_error=1 \
		"${words[@]}" "./$2" "${@:3}" >said 2>&1 </dev/null || status=$?
	return $status
}
finds() {
	run "$1" "$1" "$2" && { cat said >&2; fail "$1 does not find $2"; }
	grep -q "$3" said || { cat said >&2; fail "$1 does not report $2 as $3"; }
}

for variant in "${variants[@]}"; do
	for program in "$variant" "build/static-$variant" "build/cxx-$variant"; do
		run "$variant" "$program" ||
			{ head -n 60 said >&2; fail "$program, which is correct, exits with $? under its tool"; }
		grep '^sennit: ' said && fail "$program warns of the tool that it is built for"
	done
done
run valgrind valgrind
grep -q 'ERROR SUMMARY: 0 errors' said || { cat said >&2; fail "valgrind has found something"; }

finds asan leak 'LeakSanitizer: detected memory leaks'
finds asan return 'AddressSanitizer: stack-use-after-return'
finds asan overrun 'AddressSanitizer: heap-buffer-overflow'
finds valgrind overrun 'Invalid write of size 1'
finds valgrind leak '12,345 bytes in 1 blocks are definitely lost'
finds tsan race 'ThreadSanitizer: data race'
LD_PRELOAD=$libdir/libsennit-lock-check.so finds debug lock 'which holds 1 lock of its thread'
