#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The shared libraries export what the public headers declare, and nothing else: libsennit-gc what
# gc.h does, libsennit-tls what tls.h does, libsennit-clock what the headers of the clocks do,
# libsennit-hooks what hooks.h does and names that libc has, libsennit all the rest. Each symbol has
# a version, except those that replace libc's.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

library=$SENNIT_BUILD_DIR/src/libsennit.so
gc_library=$SENNIT_BUILD_DIR/src/gc/libsennit-gc.so
tls_library=$SENNIT_BUILD_DIR/src/tls/libsennit-tls.so
clock_library=$SENNIT_BUILD_DIR/src/clock/libsennit-clock.so
include=$SENNIT_SOURCE_DIR/include/sennit
hooks_library=$SENNIT_BUILD_DIR/src/hooks/libsennit-hooks.so
gc_header=$include/gc.h
tls_header=$include/tls.h
hooks_header=$include/hooks.h

# Before 1.0 each minor version is an interface of its own.
release=$(sed -nE 's/^#define SN_VERSION_(MAJOR|MINOR) //p' "$include/base.h" | paste -sd.)

# compare LIBRARY VERSION SYMBOL HEADER...: SYMBOL must be among them.
compare() {
	# Name, version and type; the version itself is an absolute symbol.
	nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@+/, " ", $3); print $3 }' | sort \
		>"$scratch/versioned"
	awk '{ print $1 }' "$scratch/versioned" >"$scratch/exported"
	# Without a version, libc's names are ignored here.
	if [ -z "$2" ]; then
		sed -i '/^sn_/!d' "$scratch/exported"
	elif grep -v " $2\$" "$scratch/versioned" >&2; then
		fail "these symbols lack the version $2: $1"
	fi
	cat "${@:4}" | tr '\n' ' ' |
		grep -oE 'SN_API [^;(]*\(' | sed -nE 's/^.*[^a-z0-9_](sn_[a-z0-9_]+)\($/\1/p' |
		cat - <(grep -hoE '^extern SN_API [^;]*\bsn_[a-z0-9_]+' "${@:4}" |
			grep -oE 'sn_[a-z0-9_]+$') | sort -u >"$scratch/declared"

	grep -q "^$3\$" "$scratch/declared" || fail "found no declarations in the headers"
	if ! diff -u "$scratch/declared" "$scratch/exported" >"$scratch/diff"; then
		sed -n '4,$p' "$scratch/diff" >&2
		fail "declared (-) and exported (+) symbols differ: $1"
	fi
}

headers=()
for header in "$include"/*.h; do
	case $header in
	"$gc_header" | "$hooks_header" | "$tls_header") ;;
	*) headers+=("$header") ;;
	esac
done
compare "$library" "SENNIT_$release" sn_version "${headers[@]}"
compare "$clock_library" "SENNIT_CLOCK_$release" sn_now "$include"/{base,clock,vdso}.h
if [ -e "$gc_library" ]; then
	compare "$gc_library" "SENNIT_GC_$release" sn_gc_init "$gc_header"
fi
if [ -e "$tls_library" ]; then
	compare "$tls_library" "SENNIT_TLS_$release" sn_tls_connect "$tls_header"
fi
compare "$hooks_library" "" sn_hooks_set "$hooks_header"
nm -D --defined-only "$hooks_library" | awk '{ print $3 }' | grep -v '^sn_hooks_' | sort >"$scratch/replaced"
nm -D --defined-only "$("$CC" "${cflags[@]}" -print-file-name=libc.so.6)" |
	sed -nE 's/.* ([A-Za-z0-9_]+)@@?[^ ]*$/\1/p' | sort -u >"$scratch/libc"
if comm -23 "$scratch/replaced" "$scratch/libc" | grep .; then
	fail "these are not libc's to replace: $hooks_library"
fi
[ "$(wc -l <"$scratch/replaced")" -ge 40 ] || fail "hardly anything is replaced: $hooks_library"

# What is preloaded replaces functions of any version, so it has no versions itself.
for preload in "$SENNIT_BUILD_DIR"/tools/*/libsennit-*.so "$hooks_library"; do
	if nm -D --defined-only "$preload" | grep @; then
		fail "these symbols have a version: $preload"
	fi
done

readelf -dW "$library" >"$scratch/dynamic"
grep -q 'SONAME.*\[libsennit\.so\.0\]' "$scratch/dynamic" || fail "the SONAME is not libsennit.so.0"
grep -q TEXTREL "$scratch/dynamic" && fail "the library needs text relocations"
# Assembly that forgets .note.GNU-stack makes every stack of the program executable.
readelf -lW "$library" | grep -q 'GNU_STACK.* RW ' || fail "the library asks for executable stacks"
readelf -dW "$library" | grep -qE 'NEEDED.*libgc\.so' && fail "libsennit needs libgc"
readelf -dW "$library" | grep -qE 'NEEDED.*lib(ssl|crypto)\.so' && fail "libsennit needs OpenSSL"
exit 0
