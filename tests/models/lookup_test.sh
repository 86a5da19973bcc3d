#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/lookup.pml: lookups that tasks share are freed once, and no task waits for a helper that
# does not exist.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
more large holds '-DDEADLINES=3'
reached

caught '-DLATE_COUNT'
caught '-DJOINS_DONE'
caught '-DLAST_FREES'
caught '-DHELPER_KEEPS'
caught '-DFAILS_SILENTLY'
caught '-DNO_CLAIM'
