#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/watch.pml: a task that waits for a descriptor of the program learns what happens to it, and
# nothing else.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds '-DROUNDS=1 -DCHANGES=1 -DNO_TIMERS'
holds '-DROUNDS=1 -DCHANGES=1 -DNO_REUSE'
holds '-DROUNDS=2 -DCHANGES=1 -DNO_TIMERS -DNO_REUSE'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DROUNDS=1 -DCHANGES=1'
	holds '-DROUNDS=1 -DCHANGES=2 -DNO_TIMERS'
	holds '-DROUNDS=1 -DCHANGES=2 -DNO_REUSE -DPOLLERS=2'
	holds '-DROUNDS=2 -DCHANGES=2 -DNO_TIMERS -DNO_REUSE'
fi
reached

caught '-DNO_REARM -DROUNDS=1 -DCHANGES=2 -DNO_TIMERS -DNO_REUSE'
caught '-DOUT_FIRST -DROUNDS=1 -DCHANGES=1 -DNO_REUSE'
caught '-DREMOVE_BLINDLY -DROUNDS=1 -DCHANGES=1 -DNO_TIMERS -DNO_REUSE'
caught '-DNO_NUMBERS -DROUNDS=1 -DCHANGES=1 -DNO_TIMERS'
caught '-DONLY_NEW -DROUNDS=1 -DCHANGES=2 -DNO_TIMERS -DNO_REUSE'
caught '-DKEEP_OLDER -DROUNDS=1 -DCHANGES=1 -DNO_TIMERS'
caught '-DLAZY -DROUNDS=1 -DCHANGES=1 -DNO_TIMERS'
