#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/lease.pml: a processor may be taken from a thread at any moment, and nothing is lost.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DPSO'
holds '-DFENCED'
holds '-DPSO -DFENCED -DDEPTH=2'
holds '-DENDS -DTASKS=2 -DDEPTH=2'
holds '-DTHREADS=3 -DTASKS=1 -DDEPTH=2'
more holds '-DTHREADS=3 -DTASKS=2 -DDEPTH=2'
more holds '-DASKS -DTASKS=2 -DDEPTH=2'
holds '-DREFUSED -DTASKS=2 -DDEPTH=2'
holds '-DASKS -DTASKS=1 -DDEPTH=2'
holds '-DLIVE' served
holds '-DLIVE' woken
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DLIVE -DFENCED -DPSO' served
	holds '-DLIVE -DFENCED -DPSO' woken
	holds '-DENDS -DPSO'
	holds '-DENDS -DFENCED'
	holds '-DTHREADS=3 -DDEPTH=2'
	holds '-DTHREADS=3 -DDEPTH=2 -DPSO'
	holds '-DTHREADS=3 -DTASKS=2 -DLIVE -DDEPTH=2' served
fi
reached

caught '-DNO_MEMBARRIER'
caught '-DPSO -DNO_MEMBARRIER'
caught '-DREFUSED -DREFUSED_BELIEVED'
caught '-DEARLY_LOAD'
caught '-DEARLY_LOOK'
caught '-DFENCED -DNO_FENCE'
caught '-DPSO -DPLAIN_LEAVE'
caught '-DENDS -DTASKS=2 -DNO_RECHECK'
caught '-DENDS -DTASKS=2 -DEND_NO_WAKE'
caught '-DASKS -DTASKS=2 -DDEPTH=2 -DDECIDE_FORGETS'
caught '-DLIVE -DNO_WAKE' woken
caught '-DLIVE -DIDLE_AT_CAP' served
