#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/select_any.pml: a select over several kinds of cases executes one at a time, and loses no
# event.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DNO_SELF_CLAIM'
caught '-DOTHERS_FIRST'
caught '-DENDING_FORGETS'
caught '-DLEAVE_UNLOCKED'
caught '-DNO_PARK'
caught '-DEVENT_COUNTS'
caught '-DKEEPS_NODE'
