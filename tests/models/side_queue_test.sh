#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/side_queue.pml: of several tasks that wait on one side, one is woken while there is
# something to receive, and all when it ends.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds '-DCALLS=1 -DDATAGRAMS=2 -DNO_CANCEL'
holds '-DCALLS=1 -DDATAGRAMS=2 -DNO_END'
holds '-DCALLS=1 -DDATAGRAMS=1 -DERRORS=1 -DNO_CANCEL -DNO_END'
more holds '-DCALLS=2 -DDATAGRAMS=2 -DNO_CANCEL -DNO_END'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DCALLS=1 -DDATAGRAMS=3'
	holds '-DCALLS=1 -DDATAGRAMS=1 -DERRORS=1'
	holds '-DCALLS=2 -DDATAGRAMS=2 -DNO_END'
	holds '-DCALLS=2 -DDATAGRAMS=3 -DNO_CANCEL -DNO_END'
fi
reached

caught '-DNO_NUMBER -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DREAD_LATE -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DCOUNT_TAKEN -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DNO_HAND_OVER -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DLOSE_LEAD -DCALLS=1 -DDATAGRAMS=1 -DNO_END'
caught '-DNO_TRY -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DLOSE_QUEUED -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DNOT_QUEUED -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DNO_LEADER -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DGIVE_UNLOCKED -DCALLS=1 -DNO_CANCEL -DNO_END'
caught '-DNO_CLAIM -DCALLS=1 -DDATAGRAMS=1 -DNO_END'
