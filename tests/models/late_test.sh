#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/late.pml: no tied task waits forever for a home that is stuck, and none loses a home that
# makes progress.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DLIVE' served
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DWAKES=3'
	holds '-DWAKES=3 -DLIVE' served
fi
reached

caught '-DTAKEN_UNSEEN'
caught '-DUNTIE_UNLOCKED'
caught '-DLIVE -DASK_FIRST' served
caught '-DLIVE -DASK_SILENT' served
caught '-DLIVE -DCLEARED_LATE' served
caught '-DLIVE -DASKED_ONCE' served
caught '-DLIVE -DSLEEP_BLIND' served
caught '-DLIVE -DSLEEP_UNLOCKED' served
caught '-DLIVE -DNO_PASS' served
caught '-DLIVE -DPASS_FOREVER' served
