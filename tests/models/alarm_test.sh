#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/alarm.pml: an alarm's function may free it, also if it is due at once; stopping it waits for
# no more than the thread that has fired it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DSTOPS'
reached

caught '-DNO_LOOK'
caught '-DSTOPS -DGUARD_FIRST'
caught '-DLAUNCH_FIRST'
