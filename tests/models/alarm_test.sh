#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/alarm.pml: an alarm's function may free it, even if the alarm is due immediately; stopping
# it waits for no more than the thread that fires it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DSTOPS'
reached

caught '-DNO_LOOK'
caught '-DSTOPS -DGUARD_FIRST'
caught '-DLAUNCH_FIRST'
