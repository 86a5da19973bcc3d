#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/side.pml: a task that waits for a descriptor is woken, once.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

large holds '-DEDGES=1 -DSETTINGS=1'
holds '-DEDGES=0 -DSETTINGS=2'
holds '-DEDGES=3 -DSETTINGS=0 -DUNENDED'
holds '-DEDGES=0 -DSETTINGS=3 -DUNENDED'
more large holds '-DQUIET -DEDGES=1 -DSETTINGS=1'
holds '-DQUIET -DEDGES=2 -DSETTINGS=0 -DUNENDED'
more large holds '-DNO_MEMORY -DEDGES=0 -DSETTINGS=2'
holds '-DNO_MEMORY -DEDGES=1 -DSETTINGS=1 -DUNENDED'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DEDGES=2 -DSETTINGS=0'
	holds '-DEDGES=2 -DSETTINGS=1'
	holds '-DEDGES=1 -DSETTINGS=2'
	holds '-DQUIET -DEDGES=2 -DSETTINGS=0'
fi
reached

caught '-DNO_RECHECK'
caught '-DDEADLINE_FIRST'
caught '-DSET_LATE'
caught '-DCOMMIT_INSISTS'
caught '-DPLAIN_UNBLOCK'
caught '-DEDGE_DROPPED'
caught '-DFIRE_UNLOCKED'
caught '-DARMED_LATE'
caught '-DARMED_FIRST'
caught '-DEDGES=0 -DSETTINGS=3 -DUNENDED -DSET_ARMED_FIRST'
caught '-DCLEARED_LATE'
caught '-DTIMEOUT_BLINDLY'
caught '-DDRAINED_TIMEOUT'
caught '-DNO_MEMORY -DEDGES=0 -DSETTINGS=2 -DPASSED_UNTOLD'
# These mutants need several edges, and no other events.
caught '-DUNENDED -DSETTINGS=0 -DDRAINED_BLINDLY'
caught '-DUNENDED -DSETTINGS=0 -DFORGET_LATE'
caught '-DUNENDED -DSETTINGS=0 -DEDGES=3 -DIRREGULAR_LATE'
caught '-DQUIET -DUNENDED -DSETTINGS=0 -DQUIET_BLINDLY'
caught '-DQUIET -DUNENDED -DSETTINGS=0 -DLOOK_FIRST'
