#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/poll.pml: the poller sleeps for no longer than it may.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DCLEAR_FIRST'
caught '-DEARLIEST_FIRST'
caught '-DRELAXED'
caught '-DPASSING_DRAINS'
caught '-DSTOP_FIRST'
