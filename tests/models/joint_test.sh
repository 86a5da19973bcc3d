#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/joint.pml: a deadline of the other side ends a wait of an operation that holds both.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DJOINT_LAST'
caught '-DSTORE_LAST'
caught '-DONLY_UNBLOCKS'
caught '-DNO_JOINT'
caught '-DCOMMIT_INSISTS'
