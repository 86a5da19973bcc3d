#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/foreign.pml: the end of a run waits for threads that are inside a call, and for callbacks
# as long as it promises.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DSTAYS'
caught '-DGUESTS_FIRST'
caught '-DCOUNT_FIRST'
caught '-DNO_RUN'
caught '-DNO_KEEP'
