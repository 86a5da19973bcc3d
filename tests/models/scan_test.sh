#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/scan.pml: a stack has one owner at a time, and a request for it is served.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DENDS'
holds '-DPSO'
holds '-DFENCED'
more holds '-DSCANNERS=2 -DROUNDS=1'
more holds '-DFENCED -DENDS'
reached

caught '-DNO_MEMBARRIER'
caught '-DEARLY_LOAD'
caught '-DEARLY_LOOK'
caught '-DEARLY_PARKED'
caught '-DPSO -DPLAIN_PARKED'
caught '-DFENCED -DNO_FENCE'
caught '-DSTALE_WANTED'
caught '-DLATE_RUNNABLE'
caught '-DFORGET_WANTED'
caught '-DGIVE_UP_WANTED'
caught '-DSCANNERS=1 -DGIVE_UP_ASKED'
caught '-DNO_LOOK'
caught '-DENDS -DEND_NO_LOOK'
caught '-DNO_SERVE'
caught '-DEARLY_DONE'
caught '-DNO_ASK_BARRIER'
caught '-DSERVE_FIRST'
caught '-DHOLD_LATE'
caught '-DHOLD_TWICE'
caught '-DSERVE_PICKED'
