#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/scope.pml: the deadline of a scope fires, is moved, and ends with the scope.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DCLOSE_BY'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DMOVERS=3'
fi
reached

caught '-DFIRE_NO_COUNT'
caught '-DMOVE_NO_COUNT'
caught '-DEXPIRED_LATE'
caught '-DREASON_FIRST'
caught '-DNO_LOCK'
caught '-DNO_STOP'
caught '-DSTOP_EARLY'
caught '-DPAST_FORGETS'
