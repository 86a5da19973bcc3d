#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The clocks keep their promises in an ordinary process, whose vDSO serves them. The program itself
# checks that they make no system calls, by forbidding those. Under qemu-user there is no vDSO.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

# shellcheck disable=SC2206 # the launcher has words
launcher=(${SENNIT_LAUNCHER:-})
program=$SENNIT_BUILD_DIR/tests/clock/behaviour

case "${launcher[*]}" in
*qemu*) "${launcher[@]}" "$program" --expect=syscall --short ;;
*) "${launcher[@]}" "$program" --expect=vdso ;;
esac
