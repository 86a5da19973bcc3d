#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/tie.pml: no tied task is forgotten, and each home gets a processor for its own.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
holds '-DPROCESSORS=1'
holds '-DREQUEUES=1 -DOTHERS=0'
holds '-DNAPS=1'
holds '-DPROCESSORS=1 -DWAKES=2 -DOTHERS=0 -DBLOCKS=1'
holds '-DPROCESSORS=2 -DWAKES=2 -DOTHERS=0'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DWAKES=2'
	holds '-DPROCESSORS=1 -DWAKES=2'
	holds '-DREQUEUES=1'
	holds '-DWAKES=2 -DOTHERS=0 -DNAPS=1'
	holds '-DBLOCKS=2'
fi
reached

caught '-DPARK_BLIND'
caught '-DLOOK_FIRST'
caught '-DPOLL_BLIND'
caught '-DNAPS=1 -DNAP_BLIND'
caught '-DREST_FIRST'
caught '-DPROCESSORS=1 -DNO_LINE'
caught '-DPROCESSORS=1 -DLIST_ANYWAY'
caught '-DREQUEUES=1 -DHAND_ANYWAY'
caught '-DRETIRE_OWNED'
caught '-DTOUCH_LATE'
caught '-DPROCESSORS=1 -DWAKES=2 -DOTHERS=0 -DBLOCKS=1 -DNO_MONITOR'
