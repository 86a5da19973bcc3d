#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/stalled.pml: what waits on a processor that stalls is taken by a thread that is busy.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DUNUSED=3 -DPASSED=6'
more holds '-DPASSED=2'
reached

caught '-DNO_LOOK'
caught '-DSTAYS'
caught '-DOLD_TICK'
caught '-DUNUSED=3 -DPASSED=6 -DNOT_PASSED'
