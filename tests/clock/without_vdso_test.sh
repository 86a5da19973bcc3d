#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Without AT_SYSINFO_EHDR in the auxiliary vector the clocks make system calls and show the same
# time. The test makes few reads, because it is the kernel that keeps times from going back here,
# and because a 32-bit process makes each call by an interrupt, which takes 6 us in some virtual
# machines.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

# shellcheck disable=SC2206 # the launcher has words
launcher=(${SENNIT_LAUNCHER:-})
"${launcher[@]}" "$SENNIT_BUILD_DIR/tests/clock/without-vdso" \
	"$SENNIT_BUILD_DIR/tests/clock/behaviour" --expect=syscall --short
