#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/untie.pml: a signal handler that enters the runtime in the middle of sn_tie() or sn_untie()
# leaves the task as they expect it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DROUNDS=3 -DHANDLERS=4'
reached

caught '-DHALF_UNTIED'
caught '-DTIED_FIRST'
caught '-DIS_BOUND_FIRST'
caught '-DPARKS_ANYWHERE'
caught '-DNOT_RESTORED'
caught '-DSPLIT_COUNT'
