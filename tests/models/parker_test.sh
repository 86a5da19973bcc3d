#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/parker.pml: a release is never lost.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DSTORE_EMPTY'
caught '-DLATE_WRITE'
caught '-DNO_LAST_LOOK'
