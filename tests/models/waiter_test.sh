#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/waiter.pml: a wait ends once, and nothing touches its waiter afterwards.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DNEVER_ENDS'
reached

caught '-DRETRACT_UNLOCKED'
caught '-DNO_TIMER_STOP'
caught '-DLEAVE_UNLOCKED'
caught '-DSTALE_WAITER'
caught '-DNO_CLAIM'
caught '-DCOMMIT_FORGETS'
caught '-DNEVER_ENDS -DNO_LOOK'
caught '-DNEVER_ENDS -DLOOK_UNLOCKED'
