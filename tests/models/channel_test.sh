#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/channel.pml: a wait on channels ends once, and no element is lost or duplicated.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DCLOSES'
holds '-DFAR'
holds '-DFOREVER'
reached

caught '-DNO_CLAIM'
caught '-DNODE_STAYS'
caught '-DONE_BY_ONE'
caught '-DANY_ORDER'
caught '-DFOREVER -DNO_SECOND_LOOK'
caught '-DCOMMIT_STORES'
caught '-DEARLY_UNLOCK'
caught '-DSTATUS_LATE'
caught '-DTIMER_STAYS'
caught '-DFAR -DLOOK_UNLOCKED'
