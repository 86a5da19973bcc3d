#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Every library and program that is shipped is hardened: loaded anywhere, bound when it starts, its
# tables read-only from then on, without executable stacks or memory that is writable and
# executable, without text relocations; and its code was compiled so that no frame skips a guard
# page. The assembly has the marks for processors that check where jumps land. The test notices a
# program that lacks all of these.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

# what_lacks FILE: prints what is wrong with it, one word for each.
what_lacks() {
	local segments dynamic
	segments=$(readelf -lhW "$1")
	dynamic=$(readelf -dW "$1")
	grep -q 'Type: *DYN' <<<"$segments" || echo position
	grep -q 'GNU_RELRO' <<<"$segments" || echo relro
	grep -qE 'BIND_NOW|Flags:.*NOW' <<<"$dynamic" || echo bind-now
	grep -q 'GNU_STACK.* RW ' <<<"$segments" || echo stack
	! grep -qE ' LOAD .*RWE' <<<"$segments" || echo writable-code
	! grep -q TEXTREL <<<"$dynamic" || echo text-relocations
}

shipped=()
for file in "$SENNIT_BUILD_DIR"/src/{,*/}libsennit*.so "$SENNIT_BUILD_DIR"/tools/*/libsennit*.so \
	"$SENNIT_BUILD_DIR"/tools/{relay/sennit-relay,run/sennit-run,trace/sennit-trace} \
	"$SENNIT_BUILD_DIR"/tools/tls-check/sennit-tls-check; do
	[ ! -e "$file" ] || shipped+=("$file")
done
[ ${#shipped[@]} -ge 5 ] || fail "hardly anything is built: ${shipped[*]}"
for file in "${shipped[@]}"; do
	lacks=$(what_lacks "$file")
	[ -z "$lacks" ] || fail "$file lacks:" $lacks
done

# The check notices a program that lacks everything.
echo 'int main(void) { return 0; }' >"$scratch/bare.c"
"$CC" "${cflags[@]}" -no-pie -Wl,-z,lazy -Wl,-z,norelro -Wl,-z,execstack -o "$scratch/bare" \
	"$scratch/bare.c" 2>"$scratch/log"
lacks=$(what_lacks "$scratch/bare" | paste -sd' ')
[ "$lacks" = "position relro bind-now stack" ] || fail "of a bare program only this is noticed: $lacks"

# GCC for 32-bit ARM protects only frames of variable size (cmake/SennitStackClash.cmake).
commands=$SENNIT_BUILD_DIR/compile_commands.json
if [ "$SENNIT_ARCH" != arm ] && grep -q -- -fstack-clash-protection "$commands"; then
	grep '"command":' "$commands" |
		grep -E " -c ($SENNIT_SOURCE_DIR/(src|tools)/[^ ]*\.cc?|[^ ]*/tools/[^ ]*\.cxx)\"" |
		grep -v -- '-fstack-clash-protection' >"$scratch/unprotected" || true
	# The libraries that are preloaded into other programs have no tasks.
	grep -vE '/tools/(clock-preload|lock-check)/' "$scratch/unprotected" |
		sed -E 's/.* -c //' | grep . && fail "these are compiled without -fstack-clash-protection"
fi

# The marks, in a library that is compiled with all of them.
link() {
	echo 'int sn_other(void) { return 0; }' >"$scratch/other.c"
	"$CC" "${cflags[@]}" "$@" -shared -nostdlib -o "$scratch/marked.so" "$scratch/other.c" \
		"$SENNIT_SOURCE_DIR/src/arch/$SENNIT_ARCH/switch.S" 2>"$scratch/log" || return 1
	readelf -nW "$scratch/marked.so" >"$scratch/notes"
}
case $SENNIT_ARCH in
x86_64 | i386)
	if link -fPIC -fcf-protection=full; then
		grep -q 'x86 feature:.*IBT' "$scratch/notes" || fail "no mark for IBT: $(cat "$scratch/notes")"
		grep -q SHSTK "$scratch/notes" && fail "a mark for shadow stacks, which tasks do not have"
	fi
	;;
aarch64)
	if link -fPIC -mbranch-protection=standard; then
		grep -q 'AArch64 feature:.*BTI' "$scratch/notes" || fail "no mark for BTI: $(cat "$scratch/notes")"
		grep -q PAC "$scratch/notes" || fail "no mark for signed return addresses"
	fi
	;;
esac
exit 0
