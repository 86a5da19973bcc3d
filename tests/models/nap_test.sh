#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/nap.pml: the monitor takes no long nap while all processors are in use.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DPROCESSORS=1 -DTIMES=4'
more holds '-DPROCESSORS=3'
reached

caught '-DNO_LOOK'
caught '-DLOOK_FIRST'
caught '-DREAD_FIRST'
caught '-DWHY_FIRST'
caught '-DWHY_LAST'
caught '-DNO_WAKE'
caught '-DNOT_SAID'
