#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/hook_turn.pml: a hooked call that has the turn does not block, and no call is stuck behind
# one that does.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DEVENTS=3'
holds '-DTHIEF'
holds '-DEVENTS=3 -DTHIEF'
holds '-DEVENTS=3 -DCLOSER'
holds '-DEVENTS=3 -DTHIEF -DCLOSER'
holds '-DSTUCK=1'
reached

caught '-DEVENTS=3 -DNO_TURN'
caught '-DLOOK_FIRST'
caught '-DKEEP'
caught '-DEVENTS=3 -DCLOSER -DGIVE_BLIND'
caught '-DSTUCK=1 -DNO_PASS'
