#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The clocks keep their promises on the vDSO of a real ARM kernel, Debian's own, under qemu-system.
# The system has one process, which runs the same static program as the other tests. The program
# forbids the system calls while it reads the clocks, so a failed lookup cannot go unnoticed.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

case $SENNIT_ARCH in
aarch64) machine=(qemu-system-aarch64 -M virt -cpu cortex-a72) ;;
arm) machine=(qemu-system-arm -M virt -cpu cortex-a15) ;;
*) fail "no kernel for $SENNIT_ARCH" ;;
esac
kernel=$("$SENNIT_SOURCE_DIR/scripts/arm-kernel" "$SENNIT_ARCH")

programs=$SENNIT_BUILD_DIR/tests/clock
python3 "$SENNIT_SOURCE_DIR/tests/clock/kernel/pack.py" "$scratch/system" \
	init="$programs/init" test="$programs/behaviour"
timeout 500 "${machine[@]}" -smp 2 -m 512 -nic none -nographic -no-reboot \
	-kernel "$kernel" -initrd "$scratch/system" \
	-append "console=ttyAMA0 quiet panic=-1 -- --expect=vdso --short" \
	</dev/null | tee "$scratch/console"
tr -d '\r' <"$scratch/console" >"$scratch/lines"
grep -qx 'init: status 0' "$scratch/lines" || fail "the program did not end well"
grep -qxE '[1-9][0-9]* passed, 0 failed' "$scratch/lines" || fail "not all passed"
