#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Every file that is installed belongs to one component, and each component has what a package would
# have: docs/install.md lists them. What is for building programs is not needed to run them.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

components=(runtime development tls-runtime tls-development gc-runtime gc-development relay tools
	clock-preload docs)

# into FOLDER ARGUMENT...: lists what `cmake --install` puts below the prefix, in FOLDER.list.
into() {
	local to=$scratch/$1
	DESTDIR=$to cmake --install "$SENNIT_BUILD_DIR" --prefix /opt "${@:2}" >"$scratch/log" 2>&1 ||
		{ cat "$scratch/log" >&2; fail "cmake --install ${*:2}"; }
	mkdir -p "$to/opt"
	(cd "$to/opt" && find . ! -type d -printf '%P\n') | LC_ALL=C sort >"$scratch/$1.list"
}

into all
for component in "${components[@]}"; do
	into "$component" --component "$component"
done

# ---- each file is in one of them ----
(cd "$scratch" && LC_ALL=C sort "${components[@]/%/.list}") >"$scratch/parts"
twice=$(uniq -d "$scratch/parts" | tr '\n' ' ')
[ -z "$twice" ] || fail "these are in two components: $twice"
left=$(LC_ALL=C comm -3 "$scratch/all.list" "$scratch/parts" | tr '\n' ' ')
[ -z "$left" ] || fail "these have no component: $left"

# ---- what is in each ----
# only COMPONENT PATTERN: all its files match.
only() {
	local other
	other=$(grep -vE "^($2)\$" "$scratch/$1.list" | tr '\n' ' ') || true
	[ -z "$other" ] || fail "the component $1 has $other"
}
# has COMPONENT FILE: the build has the program or the library, so it is in that component.
has() {
	grep -qE "^$2\$" "$scratch/$1.list" || fail "the component $1 has no $2"
}
lib='lib[^/]*(/[^/]*-linux-[^/]*)?'
dev="include/sennit/[a-z_]*\.(h|hpp)|$lib/libsennit(-clock|-hooks)?\.(a|so)|$lib/cmake/sennit/[^/]*"
dev="$dev|$lib/pkgconfig/sennit(-clock|-hooks)?\.pc|share/(gdb|sennit)/.*\.py"
completion='share/(bash-completion|zsh|fish)/.*'

only runtime "$lib/libsennit(-clock|-hooks)?\.so\.[0-9.]*"
has runtime "$lib/libsennit\.so\.[0-9]*\.[0-9]*"
has runtime "$lib/libsennit-clock\.so\.[0-9]*\.[0-9]*"

only development "$dev"
for file in include/sennit/base.h "$lib/libsennit\.a" "$lib/libsennit\.so" \
	"$lib/pkgconfig/sennit\.pc" "$lib/cmake/sennit/sennit-config\.cmake" \
	"$lib/cmake/sennit/sennit-targets\.cmake" share/sennit/sennit\.py; do
	has development "$file"
done

for other in tls gc; do
	files="include/sennit/$other\.(h|hpp)|$lib/libsennit-$other\.(a|so)"
	files="$files|$lib/cmake/sennit/sennit-$other-targets[^/]*|$lib/pkgconfig/sennit-$other\.pc"
	only "$other-runtime" "$lib/libsennit-$other\.so\.[0-9.]*"
	only "$other-development" "$files"
	if [ -e "$SENNIT_BUILD_DIR/src/$other/libsennit-$other.so" ]; then
		has "$other-runtime" "$lib/libsennit-$other\.so\.[0-9.]*"
		has "$other-development" "include/sennit/$other\.h"
	fi
done

files='bin/sennit-relay|share/man/man[15]/sennit-relay[^/]*|share/sennit-relay/[^/]*'
only relay "$files|${completion}sennit-relay(\.fish)?"
programs='sennit-(run|trace|tls-check)'
files="bin/$programs|share/man/man1/$programs\.1|$completion$programs"
only tools "$files|$lib/sennit/libsennit-run\.so|$lib/libsennit-lock-check\.so"
for program in relay run trace tls-check; do
	[ -e "$SENNIT_BUILD_DIR/tools/$program/sennit-$program" ] || continue
	component=tools
	[ "$program" != relay ] || component=relay
	has "$component" "bin/sennit-$program"
	has "$component" "share/man/man1/sennit-$program\.1"
done
only clock-preload "$lib/libsennit-clock-preload\.so"
only docs 'share/man/man3/.*'

# ---- and they suffice ----
# A program is built with both components, and runs with `runtime` alone.
both=$scratch/both
mkdir "$both"
cp -a "$scratch/runtime/opt/." "$scratch/development/opt/." "$both/"
libdir=$(dirname "$(dirname "$(find "$both" -name sennit.pc)")")
cat >"$scratch/program.c" <<'C'
#include <sennit/sennit.h>

static int first(void *arg)
{
	(void)arg;
	return sn_yield() < 0 ? 1 : 42;
}

int main(void)
{
	return sn_run(first, NULL) == 42 ? 0 : 1;
}
C
read -r -a flags <<<"$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs sennit)"
"$CC" "${cflags[@]}" -o "$scratch/program" "$scratch/program.c" "${flags[@]}"
rm -r "$both"
LD_LIBRARY_PATH=$scratch/runtime/opt/${libdir#"$both"/} "${launcher[@]}" "$scratch/program" ||
	fail "a program does not run with the component runtime alone"
