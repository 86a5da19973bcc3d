#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/scope_cancel.pml: each task of a cancelled scope is notified once, by whichever thread or task
# visits it, and no scope is freed under its visitor.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
reached

caught '-DBOTH_VISIT'
caught '-DANY_SETS'
caught '-DCOUNT_EARLY'
caught '-DREST_FORGOTTEN'
caught '-DREST_UNHELD'
caught '-DNO_MEMORY'
caught '-DREASON_LATE'
caught '-DJOIN_BLIND'
caught '-DLISTED_LATE'
caught '-DOPEN_BLIND'
caught '-DOPENER_MISSED'
