#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: gate
#
# A program that runs under a tool for which the library is not built prints one line that names the
# remedy, whether it links the static or the shared library. Without a tool it prints nothing.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

[ ${#launcher[@]} = 0 ] || skip "the tools do not run in an emulator"

cd "$scratch"
cat >program.c <<'C'
#include <sennit/sennit.h>

static int first(void *arg)
{
	(void)arg;
	return 0;
}

int main(void)
{
	return sn_run(first, NULL) == 0 && sn_run(first, NULL) == 0 ? 0 : 1;
}
C
export LD_LIBRARY_PATH=$SENNIT_BUILD_DIR/src
tried=0

# build COMPILER KIND FLAG...: makes ./program.
build() {
	local libraries=("$SENNIT_BUILD_DIR/src/libsennit.a")
	[ "$2" = static ] || libraries=(-L "$SENNIT_BUILD_DIR/src" -lsennit)
	"$1" "${cflags[@]}" "${@:3}" -g -I "$SENNIT_SOURCE_DIR/include" -o program program.c \
		"${libraries[@]}" -pthread 2>log || { cat log >&2; fail "$* does not build"; }
}

# warned WHAT TOOL REMEDY: ./said has that line, and only once for two runs.
warned() {
	grep '^sennit: ' said >lines || { cat said >&2; fail "$1: says nothing"; }
	[ "$(wc -l <lines)" = 1 ] || { cat lines >&2; fail "$1: says more than one line"; }
	grep -qE "^sennit: this program runs under $2, for which this libsennit is not built: .* link lib$3 instead .*pkg-config $3" lines ||
		{ cat lines >&2; fail "$1: does not say that it runs under $2 and to link $3"; }
	tried=$((tried + 1))
}

compilers=("$CC")
if [ ${#cflags[@]} = 0 ] && command -v clang-14 >/dev/null; then
	compilers+=(clang-14)
fi
echo 'int main(void) { return 0; }' >none.c
"$CC" "${cflags[@]}" -o none none.c
has_valgrind=false
if command -v valgrind >/dev/null && valgrind -q ./none 2>/dev/null; then
	has_valgrind=true
fi
for kind in static shared; do
	build "$CC" "$kind"
	./program 2>said || fail "$kind: exited with $?"
	[ ! -s said ] || { cat said >&2; fail "$kind: says something under no tool"; }

	# The mistakes that the tools find in the program do not matter.
	for compiler in "${compilers[@]}"; do
		for tool in address/AddressSanitizer/asan thread/ThreadSanitizer/tsan \
			leak/LeakSanitizer\ alone/asan; do
			IFS=/ read -r sanitizer name variant <<<"$tool"
			"$compiler" "${cflags[@]}" -fsanitize="$sanitizer" -o sanitized none.c 2>/dev/null || continue
			build "$compiler" "$kind" -fsanitize="$sanitizer"
			"$SENNIT_SOURCE_DIR/scripts/no-aslr" ./program >said 2>&1 || true
			warned "$compiler -fsanitize=$sanitizer, $kind" "$name" "sennit-$variant"
		done
	done

	if $has_valgrind; then
		build "$CC" "$kind"
		# Without debugging information, because valgrind cannot read that of every
		# compiler.
		strip -g program
		strip -g -o libsennit.so.0.1 "$SENNIT_BUILD_DIR/src/libsennit.so.0.1"
		LD_LIBRARY_PATH=$scratch valgrind -q ./program >said 2>&1 || true
		warned "valgrind, $kind" valgrind sennit-valgrind
	fi
done

# A build without valgrind's headers.
cat >without.c <<'C'
#include <stdarg.h>
#include <stdio.h>

#include "base/tools.h"

void sn_log(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("sennit: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

int main(void)
{
	sn_tools_check();
	sn_tools_check();
	return 0;
}
C
"$CC" "${cflags[@]}" -g0 -D_GNU_SOURCE -DSN_VALGRIND_HEADER=0 -I "$SENNIT_SOURCE_DIR/src" -o without without.c \
	"$SENNIT_SOURCE_DIR/src/base/tools.c"
./without 2>said
[ ! -s said ] || { cat said >&2; fail "without valgrind's headers: says something under no tool"; }
if $has_valgrind; then
	valgrind -q ./without 2>said
	warned "without valgrind's headers" valgrind sennit-valgrind
fi

[ $tried -gt 0 ] || skip "there is no tool for this architecture"
