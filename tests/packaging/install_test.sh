#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: gate
#
# What is installed can be used through CMake and through pkg-config, from C and from C++, shared
# and static. It also works in a place other than the one for which it was configured.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

prefix=$scratch/root/opt/sennit
DESTDIR=$scratch/root cmake --install "$SENNIT_BUILD_DIR" --prefix /opt/sennit >"$scratch/log" ||
	{ cat "$scratch/log" >&2; fail "cmake --install"; }
# `make install` builds only sennit-installed, which therefore has to make all that is installed.
if [ -e "$SENNIT_BUILD_DIR/build.ninja" ]; then
	ninja -C "$SENNIT_BUILD_DIR" -t targets all | sed 's/: .*//' | sort >"$scratch/outputs"
	ninja -C "$SENNIT_BUILD_DIR" -t commands sennit-installed | tr ' ' '\n' | sort -u >"$scratch/made"
	find "$SENNIT_BUILD_DIR" -name cmake_install.cmake \
		-exec sed -n "s|.*\"$SENNIT_BUILD_DIR/\([^\"]*\)\".*|\1|p" {} + | sort -u |
		comm -12 - "$scratch/outputs" >"$scratch/installed"
	grep -q 'libsennit\.a$' "$scratch/installed" || fail "finds no libsennit.a that is installed"
	missing=$(comm -23 "$scratch/installed" "$scratch/made" | tr '\n' ' ')
	[ -z "$missing" ] || fail "the target sennit-installed does not build: $missing"
fi
pc=$(find "$prefix" -name sennit.pc)
[ -n "$pc" ] || fail "no sennit.pc was installed"
libdir=$(dirname "$(dirname "$pc")")
for file in libsennit.a libsennit.so libsennit.so.0.1; do
	[ -e "$libdir/$file" ] || fail "$file was not installed in $libdir"
done
if grep -rlF -e "$SENNIT_SOURCE_DIR" -e "$SENNIT_BUILD_DIR" "$libdir/cmake" "$libdir/pkgconfig"; then
	fail "these files name the source or build folder"
fi

mkdir "$scratch/user"
cd "$scratch/user"
cat >program.c <<'C'
#include <sennit/sennit.h>
#include <stdio.h>

static int first(void *arg)
{
	return sn_yield() < 0 ? -1 : *(int *)arg;
}

int main(void)
{
	int answer = 42;

	puts(sn_version());
	return sn_run(first, &answer) == 42 ? 0 : 1;
}
C
face=sennit.h
if [ -e "$prefix/include/sennit/sennit.hpp" ]; then
	face=sennit.hpp
fi
cat >program.cc <<CC
#include <sennit/$face>

#include <cstdio>
#include <sennit/sennit.h>

int main()
{
	std::puts(sn_version());
	return sn_run([](void *) { return sn_yield() < 0 ? 1 : 0; }, nullptr);
}
CC
# Its frame is larger than the guard below a task's stack: without a probe, it would silently reach
# into the next stack below.
cat >frame.c <<'C'
#include <sennit/sennit.h>

static int large(void *arg)
{
	volatile char frame[200 << 10];

	frame[0] = *(char *)arg;
	return frame[0];
}

static int first(void *arg)
{
	sn_task *tasks[40];
	int n = 0;

	while (n < 40 && sn_spawn(&tasks[n], large, arg, 0) == 0)
		n++;
	while (n > 0)
		sn_join(tasks[--n], 0);
	return 0;
}

int main(void)
{
	char one = 1;

	return sn_run(first, &one);
}
C
ln -s frame.c frame.cc
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(sennit 0.1 CONFIG REQUIRED)
add_executable(c-shared program.c)
target_link_libraries(c-shared PRIVATE sennit::sennit)
add_executable(c-static program.c)
target_link_libraries(c-static PRIVATE sennit::sennit-static)
add_executable(cxx-shared program.cc)
target_link_libraries(cxx-shared PRIVATE sennit::sennit)
add_executable(cxx-static program.cc)
target_link_libraries(cxx-static PRIVATE sennit::sennit-static)
find_package(sennit 0.1 CONFIG REQUIRED) # again, as the project's parts do
add_executable(frame-c frame.c)
target_link_libraries(frame-c PRIVATE sennit::sennit)
add_executable(frame-cxx frame.cc)
target_link_libraries(frame-cxx PRIVATE sennit::sennit-static)
# Uses the C headers alone, in the C++ mode that it chooses.
add_executable(cxx-old old.cc)
target_link_libraries(cxx-old PRIVATE sennit::sennit)
set_target_properties(cxx-old PROPERTIES CXX_STANDARD 17 SENNIT_C_HEADERS_ONLY ON)
CMAKE
cat >old.cc <<'CC'
#include <sennit/sennit.h>

#include <cstdio>

static_assert(__cplusplus < 202002L, "CMake's target forces C++20 on it");

int main()
{
	std::puts(sn_version());
	return sn_run([](void *) { return sn_yield() < 0 ? 1 : 0; }, nullptr);
}
CC
mkdir c-only
cat >c-only/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(c-only LANGUAGES C)
find_package(sennit 0.1 CONFIG REQUIRED)
add_executable(c-only ../program.c)
target_link_libraries(c-only PRIVATE sennit::sennit)
find_package(sennit 0.1 CONFIG QUIET COMPONENTS nonsense)
if(sennit_FOUND OR NOT sennit_NOT_FOUND_MESSAGE MATCHES "component nonsense of sennit was not")
	message(FATAL_ERROR "a component that was not installed: ${sennit_NOT_FOUND_MESSAGE}")
endif()
CMAKE

version=$(sed -n 's/^Version: //p' "$pc")
try() {
	local said
	said=$("${launcher[@]}" "$@") || fail "$* exited with $?"
	[ "$said" = "$version" ] || fail "$* says it has sennit $said, but $version is installed"
}
# A compiler without the flag cannot be tested. Neither can 32-bit ARM, where the flag guards only
# frames whose size is not constant.
has_flag=
if echo 'int main(void){return 0;}' | "$CC" "${cflags[@]}" -fstack-clash-protection -Werror -x c -o /dev/null - 2>/dev/null &&
	[ "$SENNIT_ARCH" != arm ]; then
	has_flag=yes
fi
hits_the_guard() {
	[ -n "$has_flag" ] || return 0
	(ulimit -c 0; "${launcher[@]}" "$@") 2>said && fail "$* has jumped over the guard"
	grep -q 'sennit: stack overflow in task' said || { cat said >&2; fail "$*: no report of the overflow"; }
}
needs_shared() {
	readelf -dW "$1" | grep -q 'NEEDED.*\[libsennit\.so\.0\.1\]'
}

cmake -G Ninja -S . -B build -DCMAKE_PREFIX_PATH="$prefix" \
	-DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="${cflags[*]}" \
	-DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_FLAGS="${cflags[*]}" >log 2>&1 &&
	cmake --build build >>log 2>&1 || { cat log >&2; fail "a user's CMake project"; }
for program in c-shared c-static cxx-shared cxx-static cxx-old; do
	try "build/$program"
done
cmake -G Ninja -S c-only -B build-c-only -DCMAKE_PREFIX_PATH="$prefix" \
	-DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="${cflags[*]}" >log 2>&1 &&
	cmake --build build-c-only >>log 2>&1 || { cat log >&2; fail "a CMake project in C alone"; }
try build-c-only/c-only
hits_the_guard build/frame-c
hits_the_guard build/frame-cxx
needs_shared build/c-shared || fail "sennit::sennit is not the shared library"
needs_shared build/c-static && fail "sennit::sennit-static is not the static library"

export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
flags() {
	read -r -a found <<<"$(pkg-config "$@" sennit)"
}
flags --cflags --libs
"$CC" "${cflags[@]}" -o shared program.c "${found[@]}"
"$CXX" "${cflags[@]}" -std=c++20 -o shared-cxx program.cc "${found[@]}"
if [ "$face" = sennit.hpp ]; then
	"$CXX" "${cflags[@]}" -std=c++17 -fsyntax-only program.cc "${found[@]}" 2>log &&
		fail "sennit.hpp compiles in C++17"
	grep -q 'error: .*sennit\.hpp is C++20' log || { cat log >&2; fail "sennit.hpp in C++17 does not say what is wrong"; }
fi
"$CC" "${cflags[@]}" -o frame frame.c "${found[@]}"
hits_the_guard ./frame
needs_shared shared || fail "pkg-config does not link the shared library"
try ./shared
try ./shared-cxx
flags --static --cflags --libs
# The linker rightly warns of getaddrinfo() in a static program.
"$CC" "${cflags[@]}" -static -o static program.c "${found[@]}" 2>log || { cat log >&2; fail "-static"; }
try ./static

# The clocks alone: a program that links them needs neither the runtime nor threads.
mkdir "$scratch/clocks"
cd "$scratch/clocks"
cat >program.c <<'C'
#include <sennit/clock.h>
#include <stdio.h>

int main(void)
{
	puts(sn_version());
	return sn_now() > 0 && sn_time() > 0 && sn_ticks_now() > 0 ? 0 : 1;
}
C
cat >program.cc <<'CC'
#include <sennit/clock.hpp>
#include <sennit/sn.hpp>

#include <cstdio>

int main()
{
	std::puts(sn_version());
	return sn::tick_clock::now() > sn::tick_clock::time_point() ? 0 : 1;
}
CC
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(clocks LANGUAGES C CXX)
find_package(sennit 0.1 CONFIG REQUIRED)
foreach(language c cc)
	add_executable(${language}-shared program.${language})
	target_link_libraries(${language}-shared PRIVATE sennit::clock)
	add_executable(${language}-static program.${language})
	target_link_libraries(${language}-static PRIVATE sennit::clock-static)
endforeach()
CMAKE
cmake -G Ninja -S . -B build -DCMAKE_PREFIX_PATH="$prefix" \
	-DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="${cflags[*]}" \
	-DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_FLAGS="${cflags[*]}" >log 2>&1 &&
	cmake --build build >>log 2>&1 || { cat log >&2; fail "a user's CMake project of the clocks"; }
for program in c-shared c-static cc-shared cc-static; do
	try "build/$program"
	needs_shared "build/$program" && fail "build/$program needs libsennit"
done
read -r -a found <<<"$(pkg-config --cflags --libs sennit-clock)"
"$CC" "${cflags[@]}" -o shared program.c "${found[@]}"
"$CXX" "${cflags[@]}" -std=c++17 -o shared-cxx program.cc "${found[@]}"
try ./shared
try ./shared-cxx
read -r -a found <<<"$(pkg-config --static --cflags --libs sennit-clock)"
"$CC" "${cflags[@]}" -static -o static program.c "${found[@]}"
try ./static
# The program requires versions of its symbols.
readelf --version-info -W shared | grep -q 'Name: SENNIT_CLOCK_' || fail "./shared requires no version of its symbols"
"$CXX" "${cflags[@]}" -std=c++14 -fsyntax-only program.cc "${found[@]}" 2>log &&
	fail "clock.hpp compiles in C++14"
grep -q 'error: .*clock\.hpp is C++17' log || { cat log >&2; fail "clock.hpp in C++14 does not say what is wrong"; }
[ -e "$libdir/libsennit-clock-preload.so" ] || fail "the clocks' preload library was not installed"

# The hooks, shared and static: the program is linked to what it needs, and its task has hooks.
cat >hooks.c <<'C'
#include <sennit/hooks.h>
#include <sennit/sennit.h>

#include <stdio.h>
#include <unistd.h>

static int first(void *arg)
{
	struct sn_hooks_stats counters = SN_HOOKS_STATS_INIT();

	(void)arg;
	if (sn_hooks_set(SN_HOOKS_ON) != SN_HOOKS_DEFAULT || usleep(1000) < 0)
		return 1;
	return sn_hooks_stats(&counters) < 0 || counters.parked != 1;
}

int main(void)
{
	puts(sn_version());
	return sn_run(first, NULL);
}
C
mkdir hooks
cat >hooks/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(hooks LANGUAGES C)
find_package(sennit 0.1 CONFIG REQUIRED COMPONENTS hooks)
add_executable(hooks-shared ../hooks.c)
target_link_libraries(hooks-shared PRIVATE sennit::hooks sennit::sennit)
add_executable(hooks-static ../hooks.c)
target_link_libraries(hooks-static PRIVATE sennit::hooks-static sennit::sennit-static)
CMAKE
cmake -G Ninja -S hooks -B build-hooks -DCMAKE_PREFIX_PATH="$prefix" \
	-DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="${cflags[*]}" >log 2>&1 &&
	cmake --build build-hooks >log 2>&1 || { cat log >&2; fail "CMake's hooks"; }
try build-hooks/hooks-shared
try build-hooks/hooks-static
read -r -a found <<<"$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs sennit-hooks)"
"$CC" "${cflags[@]}" -o hooks-pc hooks.c "${found[@]}" -Wl,-rpath,"$libdir"
try ./hooks-pc
# Preloaded by its path, into a program that does not know sennit, the library finds libsennit
# beside it. The system's dynamic linker does not search the prefix.
if [ "${#launcher[@]}" = 0 ]; then
	echo 'int main(void) { return 0; }' >nothing.c
	"$CC" "${cflags[@]}" -o nothing nothing.c
	env -u LD_LIBRARY_PATH LD_PRELOAD="$libdir/libsennit-hooks.so" SENNIT_HOOKS=1 ./nothing 2>log &&
		[ ! -s log ] || fail "hooks preloaded from their prefix: $(cat log)"
fi

# The bridge to libgc, where it was built.
if [ -e "$SENNIT_BUILD_DIR/src/gc/libsennit-gc.so" ]; then
	mkdir "$scratch/collected"
	cd "$scratch/collected"
	cat >program.c <<'C'
#include <sennit/gc.h>
#include <sennit/sennit.h>

#include <gc/gc.h>
#include <stdio.h>

static int first(void *arg)
{
	(void)arg;
	GC_gcollect();
	return GC_MALLOC(64) ? 42 : 1;
}

int main(void)
{
	puts(sn_version());
	return sn_gc_init() == 0 && sn_run(first, NULL) == 42 ? 0 : 1;
}
C
	cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(collected LANGUAGES C)
find_package(sennit 0.1 CONFIG REQUIRED COMPONENTS gc)
add_executable(shared program.c)
target_link_libraries(shared PRIVATE sennit::gc)
add_executable(static program.c)
target_link_libraries(static PRIVATE sennit::gc-static)
CMAKE
	cmake -G Ninja -S . -B build -DCMAKE_PREFIX_PATH="$prefix" \
		-DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="${cflags[*]}" >log 2>&1 &&
		cmake --build build >>log 2>&1 || { cat log >&2; fail "a user's CMake project with gc"; }
	try build/shared
	try build/static
	read -r -a found <<<"$(pkg-config --cflags --libs sennit-gc)"
	"$CC" "${cflags[@]}" -o program program.c "${found[@]}"
	try ./program
fi

# TLS, where it was built.
if [ -e "$SENNIT_BUILD_DIR/src/tls/libsennit-tls.so" ]; then
	mkdir "$scratch/encrypted"
	cd "$scratch/encrypted"
	cat >program.cc <<'CC'
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <sennit/tls.hpp>

#include <cstdio>

int main()
{
	std::puts(sn_version());
	return sn::run([] {
		sn::tls_config config(SN_TLS_CLIENT);
		return config.alpn("h2") && !config.add_ca("/nonexistent") &&
				       !sn::tls_last_error().empty()
			       ? 0
			       : 1;
	});
}
CC
	cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(encrypted LANGUAGES C CXX)
find_package(sennit 0.1 CONFIG REQUIRED COMPONENTS tls)
add_executable(shared program.cc)
target_link_libraries(shared PRIVATE sennit::tls)
add_executable(static program.cc)
target_link_libraries(static PRIVATE sennit::tls-static)
CMAKE
	cmake -G Ninja -S . -B build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$CXX" \
		-DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="${cflags[*]}" \
		-DCMAKE_CXX_FLAGS="${cflags[*]}" >log 2>&1 &&
		cmake --build build >>log 2>&1 || { cat log >&2; fail "a user's CMake project with tls"; }
	try build/shared
	try build/static
	read -r -a found <<<"$(pkg-config --cflags --libs sennit-tls)"
	"$CXX" "${cflags[@]}" -std=c++20 -o program program.cc "${found[@]}"
	try ./program
fi

if [ -e "$SENNIT_BUILD_DIR/tools/relay/sennit-relay" ]; then
	"${launcher[@]}" "$prefix/bin/sennit-relay" --help >/dev/null || fail "the installed sennit-relay does not run"
fi

# It executes another program, which an emulator does not follow.
if [ -e "$SENNIT_BUILD_DIR/tools/run/sennit-run" ]; then
	[ -e "$prefix/share/man/man1/sennit-run.1" ] || fail "its manual page was not installed"
	[ -e "$libdir/sennit/libsennit-run.so" ] || fail "the library of sennit-run was not installed"
	if [ ${#launcher[@]} = 0 ]; then
		"$prefix/bin/sennit-run" --stats "$SENNIT_BUILD_DIR/tests/sennit-run/sennit-run-threads" \
			exit 3 2>log && status=0 || status=$?
		[ "$status" = 3 ] && grep -q 'became tasks: 1' log || fail "the installed sennit-run does not run"
	fi
fi

if [ -e "$SENNIT_BUILD_DIR/tools/trace/sennit-trace" ]; then
	"${launcher[@]}" "$prefix/bin/sennit-trace" "$SENNIT_SOURCE_DIR/fuzz/trace/seeds/trace/request" |
		grep -qF 'session 17' || fail "the installed sennit-trace does not run"
	[ -e "$prefix/share/man/man1/sennit-trace.1" ] || fail "its manual page was not installed"
fi

if [ -e "$SENNIT_BUILD_DIR/tools/tls-check/sennit-tls-check" ]; then
	"${launcher[@]}" "$prefix/bin/sennit-tls-check" "$libdir/libsennit.so" >log ||
		[ $? = 1 ] || fail "the installed sennit-tls-check does not run"
	grep -q 'libsennit.so: [0-9]* of [0-9,]* functions' log ||
		fail "the installed sennit-tls-check does not read the library"
	[ -e "$prefix/share/man/man1/sennit-tls-check.1" ] || fail "its manual page was not installed"
fi

# The debugging tools are installed too: gdb's script, which gdb loads by itself when it knows this
# prefix, and lock-check, which a release build accepts silently.
[ -e "$prefix/share/sennit/sennit.py" ] || fail "gdb's script was not installed"
[ -e "$libdir/libsennit-lock-check.so" ] || fail "lock-check was not installed"
cd "$scratch/user"
if [ ${#launcher[@]} = 0 ]; then
	[ "$(LD_PRELOAD=$libdir/libsennit-lock-check.so ./shared)" = "$version" ] || fail "./shared with lock-check"
	if command -v gdb >/dev/null; then
		# The script's path has the prefix that was given to cmake --install. gdb does not
		# know DESTDIR, so the script is copied from where it was staged.
		script=$(find "$prefix/share/gdb/auto-load/opt/sennit" -name 'libsennit.so.*-gdb.py')
		[ "${script##*/}" = "$(basename "$(readlink -f "$libdir/libsennit.so")")-gdb.py" ] ||
			fail "gdb would not find its script: ${script:-there is none}"
		mkdir -p "$scratch/auto-load$libdir"
		cp "$script" "$scratch/auto-load$libdir/"
		gdb -nx -batch -iex "set debuginfod enabled off" \
			-iex "add-auto-load-scripts-directory $scratch/auto-load" \
			-iex "add-auto-load-safe-path $scratch" -ex "break sn_yield" -ex "run" \
			-ex "sennit tasks" ./shared >log 2>&1 || { cat log >&2; fail "gdb"; }
		grep -q ptrace log || grep -q '^task [0-9]* "main" running' log ||
			{ cat log >&2; fail "gdb has not loaded its script, or the script does not know the tasks"; }
	fi
fi
