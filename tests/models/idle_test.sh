#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/idle.pml: no task is forgotten, and no processor idle with nobody in the poller.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds '-DREVOCATIONS=0'
holds '-DTASKS=1 -DEVENTS=0'
holds '-DTASKS=0'
holds '-DPROCESSORS=3 -DREVOCATIONS=0 -DTASKS=1 -DEVENTS=0'
holds '-DREVOCATIONS=0 -DTASKS=1 -DCAP'
holds '-DTASKS=1 -DEVENTS=0 -DCAP'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DTASKS=1'
	holds '-DREVOCATIONS=0 -DCAP'
fi
reached

caught '-DREVOCATIONS=0 -DNO_WAKER_FENCE'
caught '-DLOOK_FIRST'
caught '-DSPINNING_LATE'
caught '-DROLE_LATE'
caught '-DNO_LAST'
caught '-DLEAVE_UNPOLLED'
caught '-DGIVE_UNPOLLED'
caught '-DPROCESSORS=3 -DREVOCATIONS=0 -DUNCOUNT_LATE'
caught '-DREVOCATIONS=0 -DCAP -DSLEEP_BLIND'
