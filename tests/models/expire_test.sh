#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/expire.pml: a thread that is never found outside lends its processor when it is asked to.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DENDS'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DTICKS=3'
	holds '-DTICKS=3 -DENDS'
fi
reached

caught '-DSTORE_ZERO'
caught '-DDECIDE_FORGETS'
caught '-DREGAIN_FORGETS'
caught '-DASKED_LAST'
caught '-DASK_SERVES_ALL'
caught '-DSTALE_LENDS'
caught '-DKEEPS'
caught '-DENDS -DNO_CHECK'
