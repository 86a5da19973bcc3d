#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The shared libraries export what the public headers declare, and nothing else: libsennit-gc the
# functions of gc.h, libsennit-tls those of tls.h, libsennit-clock those of the clocks' headers,
# libsennit-hooks those of hooks.h and names of libc, and libsennit all others. Each symbol has the
# version under which its version script lists it, except those that replace libc's. scripts/exports
# makes the list. The name of each library contains the part of the version that identifies an
# interface.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

library=$SENNIT_BUILD_DIR/src/libsennit.so
hooks_library=$SENNIT_BUILD_DIR/src/hooks/libsennit-hooks.so
exports=$SENNIT_SOURCE_DIR/scripts/exports

"$exports" --check || fail "the version scripts are not those of the headers"

# The version that identifies an interface: before 1.0 each minor version is an interface of its
# own.
version=$(sed -nE 's/^#define SN_VERSION_(MAJOR|MINOR) //p' \
	"$SENNIT_SOURCE_DIR/include/sennit/base.h" | paste -sd.)
abi=$version
[ "${version%%.*}" = 0 ] || abi=${version%%.*}

# compare FOLDER: the library of that folder of src/.
compare() {
	local map=src/$1/exports.map file
	[ "$1" != . ] || map=src/exports.map
	file=$(echo "$SENNIT_BUILD_DIR/src/$1"/libsennit*.so)
	[ -e "$file" ] || return 0 # this build does not have that library
	"$exports" --list "$map" | sed 's/ $//' | sort >"$scratch/listed"
	# Name, version and type; the version itself is an absolute symbol. Names of libc have no
	# version.
	nm -D --defined-only "$file" | awk '$2 != "A" { sub(/@+/, " ", $3); print $3 }' |
		grep -E "$2" | sort >"$scratch/exported"
	[ -s "$scratch/listed" ] || fail "$map lists nothing"
	diff -u "$scratch/listed" "$scratch/exported" >"$scratch/diff" ||
		{ sed -n '4,$p' "$scratch/diff" >&2; fail "listed (-) and exported (+) symbols differ: $file"; }
	readelf -dW "$file" | grep -qF "soname: [$(basename "$file").$abi]" ||
		fail "the SONAME is not $(basename "$file").$abi: $(readelf -dW "$file" | grep SONAME)"
}

for folder in . clock gc tls; do
	compare "$folder" .
done
compare hooks ^sn_

# The script notices new and removed names; a name that stays keeps its version.
mkdir -p "$scratch/tree/scripts" "$scratch/tree/include"
cp "$exports" "$scratch/tree/scripts/"
cp -r "$SENNIT_SOURCE_DIR/include/sennit" "$scratch/tree/include/"
(cd "$SENNIT_SOURCE_DIR" && find src -name exports.map -exec cp --parents {} "$scratch/tree" \;)
echo 'SN_API int sn_planted(void);' >>"$scratch/tree/include/sennit/task.h"
sed -i 's/sn_now(void)/sn_later(void)/' "$scratch/tree/include/sennit/clock.h"
sed -i 's/\(define SN_VERSION_MINOR\) .*/\1 77/' "$scratch/tree/include/sennit/base.h"
"$scratch/tree/scripts/exports" --check 2>"$scratch/said" && fail "exports --check notices nothing"
for line in '+ sn_planted' '- sn_now' '+ sn_later'; do
	grep -qF "src/exports.map: $line" "$scratch/said" || fail "not noticed: $line"
done
"$scratch/tree/scripts/exports" >"$scratch/said"
"$scratch/tree/scripts/exports" --check || fail "exports --check after exports"
"$scratch/tree/scripts/exports" --list src/exports.map >"$scratch/listed"
for line in "sn_planted SENNIT_${version%%.*}.77" "sn_version SENNIT_$version"; do
	grep -qxF "$line" "$scratch/listed" || fail "exports --list lacks $line"
done
# The linker takes a script with two versions.
echo 'int sn_planted(void) { return 0; }' |
	"$CC" "${cflags[@]}" -shared -fPIC -o "$scratch/planted.so" -x c - \
		-Wl,--version-script="$scratch/tree/src/exports.map"
nm -D "$scratch/planted.so" | grep -q 'sn_planted@@SENNIT_.*77' || fail "a script of two versions"

nm -D --defined-only "$hooks_library" | awk '{ print $3 }' | grep -v '^sn_hooks_' | sort >"$scratch/replaced"
nm -D --defined-only "$("$CC" "${cflags[@]}" -print-file-name=libc.so.6)" |
	sed -nE 's/.* ([A-Za-z0-9_]+)@@?[^ ]*$/\1/p' | sort -u >"$scratch/libc"
if comm -23 "$scratch/replaced" "$scratch/libc" | grep .; then
	fail "these are not libc's to replace: $hooks_library"
fi
[ "$(wc -l <"$scratch/replaced")" -ge 40 ] || fail "hardly anything is replaced: $hooks_library"

# A preloaded library replaces functions of any version, so its symbols have no versions.
for preload in "$SENNIT_BUILD_DIR"/tools/*/libsennit-*.so "$hooks_library"; do
	if nm -D --defined-only "$preload" | grep @; then
		fail "these symbols have a version: $preload"
	fi
done

readelf -dW "$library" >"$scratch/dynamic"
grep -q TEXTREL "$scratch/dynamic" && fail "the library needs text relocations"
# Assembly that forgets .note.GNU-stack makes every stack of the program executable.
readelf -lW "$library" | grep -q 'GNU_STACK.* RW ' || fail "the library asks for executable stacks"
readelf -dW "$library" | grep -qE 'NEEDED.*libgc\.so' && fail "libsennit needs libgc"
readelf -dW "$library" | grep -qE 'NEEDED.*lib(ssl|crypto)\.so' && fail "libsennit needs OpenSSL"
exit 0
