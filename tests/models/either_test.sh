#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/either.pml: a task that waits for either of two descriptors is woken, once.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds '-DEDGES=1'
holds '-DEDGES=2'
reached

caught '-DNO_RECHECK'
caught '-DNO_CONTROL'
caught '-DFORWARD_FIRST'
caught '-DCOMMIT_INSISTS'
caught '-DPLAIN_UNBLOCK'
caught '-DEND_FORGETS'
