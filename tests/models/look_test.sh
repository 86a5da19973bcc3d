#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/look.pml: the steps of a hooked call before, during and after its wait.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DLOOKS=1'
holds '-DDEADLINE=1'
holds '-DCANCEL=1'
holds '-DODD=1 -DEVENTS=0'
holds '-DCLOSES=1 -DEVENTS=3'
more holds '-DEVENTS=1 -DCLOSES=1 -DLOOKS=1 -DCANCEL=1 -DDEADLINE=1'
holds '-DEVENTS=0 -DODD=1 -DCLOSES=1 -DCANCEL=1'
reached

caught '-DCLOSES=1 -DNO_LOOK'
caught '-DCLOSES=1 -DLOOK_LATE'
caught '-DASK_BLIND'
caught '-DASK_FIRST'
caught '-DLOOKS=1 -DLOOK_IS_LATE'
caught '-DCANCEL=1 -DSCOPE_IS_LOOK'
caught '-DODD=1 -DEVENTS=0 -DNO_ROUNDS'
