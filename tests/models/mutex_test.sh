#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/mutex.pml: one holder at a time, no task sleeps forever, and a waiter that is released may
# free it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds '-DWORKERS=2 -DROUNDS=2'
holds '-DWORKERS=3 -DROUNDS=1'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DWORKERS=3 -DROUNDS=2 -DGIVE_UP=2'
fi
# Not "reached": pan merges what follows in an atomic sequence, and calls it unreached.

caught '-DANNOUNCE_BLINDLY'
caught '-DKEEP_WOKEN'
caught '-DWAKE_CLAIMED'
caught '-DWOKEN_GIVES_UP'
caught '-DHAND_UNLOCKED'
caught '-DUNLOCK_FIRST'
