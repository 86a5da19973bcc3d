#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The clocks keep their promises in an ordinary process and in a time namespace; and the
# instructions run in the vDSO, which the program checks itself by forbidding the system calls.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../house/lib.sh"

# shellcheck disable=SC2206 # the launcher has words
launcher=(${SENNIT_LAUNCHER:-})
program=$SENNIT_BUILD_DIR/tests/clock/behaviour

"${launcher[@]}" "$program" --expect=vdso
