#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/pin.pml: a pinned task's processor is not lost when the task is handed another one.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DASSIGN_AT_ONCE'
