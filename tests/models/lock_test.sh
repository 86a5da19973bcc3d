#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/lock.pml: one thread holds the lock at a time, and none sleeps forever.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DNO_BARRIER'
caught '-DLATE_COUNT'
caught '-DNEVER_FENCED'
caught '-DLOOK_FIRST'
caught '-DKNOWN_EARLY'
