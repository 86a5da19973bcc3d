#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/fair.pml: every wait has a bound, whatever the others do.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DLONG'
holds '-DTIES'
holds '-DREVOKED -DMOST_TURNS=13'
holds '-DFAIR_TICKS=4 -DMOST_TURNS=16'
reached
more large holds '-DFAIR_TICKS=6 -DMOST_TURNS=24'

caught '-DGLOBAL_FIRST'
caught '-DNEXT_UNLIMITED'
caught '-DNEXT_SLOW'
caught '-DSPILL_FRONT'
caught '-DSPILL_BACK -DFAIR_TICKS=6 -DMOST_TURNS=24'
caught '-DREVOKED -DRING_BACK -DMOST_TURNS=13'
caught '-DLONG -DGLOBAL_ALWAYS'
caught '-DLONG -DNO_FORCE'
