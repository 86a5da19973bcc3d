#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A program can ask for a version: in its source by SN_VERSION_CHECK(), in CMake and pkg-config by
# their own means. Before 1.0 another minor version is refused, and from then on another major
# version.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

include=$SENNIT_SOURCE_DIR/include
read -r major minor patch < <(sed -nE 's/^#define SN_VERSION_(MAJOR|MINOR|PATCH) //p' \
	"$include/sennit/base.h" | paste -sd' ')

cat >"$scratch/check.c" <<C
#include <sennit/base.h>
#if !SN_VERSION_CHECK(0, 0) || !SN_VERSION_CHECK($major, 0) || !SN_VERSION_CHECK($major, $minor)
#error "these headers are older than they are"
#endif
#if SN_VERSION_CHECK($major, $minor + 1) || SN_VERSION_CHECK($major + 1, 0)
#error "these headers are newer than they are"
#endif
#if SN_VERSION_NUMBER != $major * 10000 + $minor * 100 + $patch
#error "the number is of another version"
#endif
C
for language in c c++; do
	"$CC" "${cflags[@]}" -I"$include" -fsyntax-only -x "$language" "$scratch/check.c" ||
		fail "SN_VERSION_CHECK in $language"
done

# The installed file that decides whether the version fits.
file=$SENNIT_BUILD_DIR/sennit-config-version.cmake
[ -e "$file" ] || skip "this build has no install rules"
mkdir "$scratch/package"
cp "$file" "$scratch/package/"
touch "$scratch/package/sennit-config.cmake"
cat >"$scratch/found.cmake" <<CMAKE
set(CMAKE_SIZEOF_VOID_P \${size})
find_package(sennit \${wanted} CONFIG REQUIRED PATHS $scratch/package NO_DEFAULT_PATH)
CMAKE
# The file checks the word size for which it was made.
size=$(sed -n 's/.*CMAKE_SIZEOF_VOID_P STREQUAL "\([48]\)".*/\1/p' "$file" | head -n 1)
finds() {
	cmake -D wanted="$1" -D size="$size" -P "$scratch/found.cmake" >"$scratch/said" 2>&1
}
finds "$major.$minor" || { cat "$scratch/said" >&2; fail "CMake does not find $major.$minor"; }
finds "$major.$minor.$patch" || fail "CMake does not find $major.$minor.$patch"
for other in "$major.$((minor + 1))" "$((major + 1)).0"; do
	finds "$other" && fail "CMake takes $major.$minor for $other"
done
if [ "$minor" -gt 0 ]; then
	! finds "$major.$((minor - 1))" || fail "CMake takes $major.$minor for $major.$((minor - 1))"
fi

command -v pkg-config >/dev/null || skip "pkg-config is not installed"
has() {
	PKG_CONFIG_LIBDIR=$1 PKG_CONFIG_PATH='' pkg-config --exists "${@:2}"
}
has "$SENNIT_BUILD_DIR" "sennit >= $major.$minor sennit < $major.$((minor + 1))" ||
	fail "pkg-config does not find $major.$minor"
has "$SENNIT_BUILD_DIR" "sennit >= $major.$((minor + 1))" && fail "pkg-config takes any version"
has "$SENNIT_BUILD_DIR" sennit-hooks || fail "pkg-config does not find sennit-hooks"
# libsennit must be of the same version as the libraries beside it.
mkdir "$scratch/other"
cp "$SENNIT_BUILD_DIR/sennit-hooks.pc" "$scratch/other/"
sed "s/^Version: .*/Version: $major.$((minor + 1)).0/" "$SENNIT_BUILD_DIR/sennit.pc" \
	>"$scratch/other/sennit.pc"
has "$scratch/other" sennit || fail "pkg-config does not find the other version"
has "$scratch/other" sennit-hooks && fail "pkg-config takes sennit-hooks for another version"
exit 0
