#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# sn_time() has 64 bits in every century.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

"${launcher[@]}" "$SENNIT_BUILD_DIR/tests/clock/seconds"
