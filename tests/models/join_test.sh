#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/join.pml: a task's stack is freed once, and not while the task still uses it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DTWO'
holds '-DCLAIMS'
reached

caught '-DEND_BEFORE_SWITCH'
caught '-DSTORE_END'
caught '-DFREE_TWICE'
caught '-DCOMMIT_STORES'
caught '-DHEIR_BEFORE_SWITCH'
caught '-DHEIR_TWICE'
caught '-DCLAIMS -DMARK_ENDED'
caught '-DCLAIMS -DLOOK_ONLY'
