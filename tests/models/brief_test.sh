#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# models/brief.pml: a thread pays its debt to the poller, or leaves it to code that is brief.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"

holds ''
more holds '-DTASKS=0 -DEVENTS=2'
holds '-DQUIET -DTASKS=2'
holds '-DQUIET -DTASKS=0 -DFOREIGN=1'
holds '-DQUIET -DTASKS=0 -DFOREIGN=1 -DBOUND'
holds '-DQUIET -DREVOCATIONS=1'
holds '-DQUIET -DTASKS=0 -DREVOCATIONS=1 -DRETURNS'
more holds '-DTASKS=0 -DTIMER'
holds '-DQUIET -DTASKS=0 -DTIMER'
if [ -n "${SENNIT_LONG_MODELS:-}" ]; then
	holds '-DEVENTS=2'
	holds '-DTASKS=2'
	holds '-DTASKS=0 -DFOREIGN=1'
	holds '-DQUIET -DTIMER'
	holds '-DTASKS=0 -DREVOCATIONS=1 -DRETURNS'
	holds '-DQUIET -DREVOCATIONS=1 -DRETURNS'
	holds '-DEVENTS=0 -DREVOCATIONS=1 -DRETURNS'
fi
reached

caught '-DNO_FENCE'
caught '-DPAY_UNPOLLED'
caught '-DPAY_UNSEEN'
caught '-DEND_OWES'
caught '-DTASKS=0 -DEVENTS=2 -DPOLL_OWES'
caught '-DQUIET -DTASKS=2 -DALL_LEFT'
caught '-DANY_LEFT'
caught '-DLEFT_BY_ALL'
caught '-DQUIET -DTASKS=0 -DFOREIGN=1 -DNOT_PAID'
caught '-DQUIET -DTASKS=0 -DFOREIGN=1 -DOWN_ONLY'
caught '-DQUIET -DTASKS=0 -DFOREIGN=1 -DBOUND -DPARKER_OWES'
caught '-DQUIET -DREVOCATIONS=1 -DDEBT_REVOKED'
caught '-DTASKS=0 -DTIMER -DNO_NOTICE'
