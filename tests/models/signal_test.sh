#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/signal.pml: a signal is handled after it was sent, by a task or through a channel.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DTASK'
reached

caught '-DCLEAR_LATE'
caught '-DREAD_LATE'
caught '-DREAD_LATE -DTASK'
caught '-DLISTED_LATE -DTASK'
caught '-DNO_CLAIM -DTASK'
caught '-DFORGETS -DTASK'
