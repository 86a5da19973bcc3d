#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/after-install says where programs find the libraries, unless the dynamic linker looks
# there. The machine's own ldconfig is not called.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

prefix=$scratch/prefix
mkdir -p "$scratch/bin" "$prefix/lib" "$prefix/share/gdb/auto-load"
printf '#!/bin/sh\n[ $# != 0 ] || echo run >>%s\n[ "$1" != -p ] || cat %s\n' "$scratch/runs" \
	"$scratch/known" >"$scratch/bin/ldconfig"
printf '#!/bin/sh\necho 0\n' >"$scratch/bin/id"
chmod +x "$scratch"/bin/{ldconfig,id}
: >"$scratch/known"

# says: prints what it prints.
says() {
	PATH=$scratch/bin:$PATH "$SENNIT_SOURCE_DIR/scripts/after-install" "$prefix"
}

# This is not the library.
touch "$prefix/share/gdb/auto-load/libsennit.so.0.1-gdb.py"
[ -z "$(says)" ] || fail "takes gdb's script for a library: $(says)"

touch "$prefix/lib/libsennit.so.0.1"
says | grep -qF "LD_LIBRARY_PATH=$prefix/lib," || fail "does not name the folder: $(says)"
[ -z "$(DESTDIR=$scratch says)" ] || fail "says something about a package's folder"

printf '\tlibsennit.so.0.1 (libc6,x86-64) => %s/lib/libsennit.so.0.1\n' "$prefix" >"$scratch/known"
[ -z "$(says)" ] || fail "says something although the linker looks there: $(says)"

# Only root changes what the linker knows, and only without DESTDIR.
: >"$scratch/runs"
DESTDIR=$scratch says
[ ! -s "$scratch/runs" ] || fail "runs ldconfig for a package"
says
[ -s "$scratch/runs" ] || fail "root does not run ldconfig"
: >"$scratch/runs"
printf '#!/bin/sh\necho 1000\n' >"$scratch/bin/id"
says
[ ! -s "$scratch/runs" ] || fail "a user runs ldconfig"
