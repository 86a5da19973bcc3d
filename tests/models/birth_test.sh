#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/birth.pml: a requested thread is started, or its work is done without it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds '-DPROMPT'
more holds '-DFOREIGN=0'
holds '-DMOST=1 -DFOREIGN=0 -DREFUSALS=1'
holds '-DTASKS=0 -DFOREIGN=0 -DJOBS'
more holds '-DPROCESSORS=2 -DTASKS=1 -DFOREIGN=0'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds ''
	holds '-DTASKS=1 -DREFUSALS=1'
fi
reached

caught '-DPROMPT -DNO_WAKE'
caught '-DPROMPT -DWAKE_FIRST'
caught '-DPROMPT -DLOOK_FIRST'
caught '-DPROMPT -DSPINS_LOST'
caught '-DPROMPT -DLEAVES_COUNTED'
caught '-DPROMPT -DLEAVES_UNCOUNTED'
caught '-DPROMPT -DREFUSED_BLIND'
caught '-DPROMPT -DSLEEP_BLIND'
caught '-DMOST=1 -DFOREIGN=0 -DREFUSALS=1 -DNO_RETRY'
caught '-DMOST=1 -DFOREIGN=0 -DREFUSALS=1 -DRETRY_SLEEPS'
caught '-DFOREIGN=0 -DTIMERS_UNFIRED'
caught '-DFOREIGN=0 -DTIMERS_SLEEP'
caught '-DTASKS=0 -DFOREIGN=0 -DJOBS -DJOBS_SLEEP'
caught '-DTASKS=0 -DFOREIGN=0 -DJOBS -DJOB_CLEARED_LATE'
caught '-DTASKS=0 -DFOREIGN=0 -DJOBS -DJOBS_DROPPED'
