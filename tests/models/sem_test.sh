#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/sem.pml: tasks and threads that wait for the same semaphore, or for another with the same
# list, get each permit, once.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DTIMED'
holds '-DTASKS=1 -DPOSTS=1 -DCALLS=1 -DTIMED'
holds '-DTASKS=1 -DTHREADS=1 -DPOSTS=1 -DCALLS=1 -DTIMED'
holds '-DPOSTS=2 -DCALLS=0'
holds '-DTASKS=1 -DPOSTS=1 -DCALLS=1 -DHANDLER'
holds '-DTASKS=1 -DCALLS=1 -DOTHER'
more holds '-DPOSTS=1 -DCALLS=1 -DTIMED'
more holds '-DTHREADS=1 -DPOSTS=1 -DCALLS=1 -DTIMED'
more holds '-DCALLS=1 -DOTHER'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DPOSTS=1 -DCALLS=1 -DHANDLER'
	holds '-DTASKS=1 -DCALLS=1 -DPOSTS=1 -DOTHER -DTIMED'
fi
reached

caught '-DNO_LOOK'
caught '-DCOUNT_LATE'
caught '-DLOOK_FIRST'
caught '-DNOTE_KEPT'
caught '-DNOTE_LATE'
caught '-DSEEN_LATE'
caught '-DONE_FOR_ALL'
caught '-DTIMED -DTIMEOUT_BLINDLY'
caught '-DTIMED -DNO_PERMIT'
caught '-DNEXT_LATE'
caught '-DMERELY_WAKES'
caught '-DTRIES_FIRST'
caught '-DTASKS=1 -DCALLS=1 -DOTHER -DNOTE_OVERWRITES'
caught '-DCALLS=1 -DOTHER -DSTOPS_AT_FIRST'
caught '-DPOSTS=1 -DCALLS=0 -DHANDLER -DINSISTS'
caught '-DPOSTS=1 -DCALLS=1 -DTRIES_ONCE'
caught '-DPOSTS=1 -DCALLS=1 -DNOTE_DROPPED'
caught '-DPOSTS=1 -DCALLS=1 -DSILENT_RELEASE'
caught '-DPOSTS=1 -DCALLS=1 -DLOOKS_EARLY'
