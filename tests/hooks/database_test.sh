#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The C library asks a module of the name service while it holds locks and keeps the addresses of
# the thread's errno and h_errno. So a hooked call that the module makes is passed through, as one
# of a task that holds a lock; a call that the task makes after that parks again.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

said=$(LD_LIBRARY_PATH=$SENNIT_BUILD_DIR/tests/hooks${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	SENNIT_HOOKS=1 "${launcher[@]}" "$SENNIT_BUILD_DIR/tests/hooks/hooks-database") ||
	fail "exit status $?: $said"
functions=(getpwnam getpwent getspnam getspnam_r getsgnam getprotobyname getprotobynumber_r
	getnetbyname_r getrpcbyname getaliasbyname ether_hostton innetgr setservent getpw wordexp)
expected="$(printf '%s: parked 0, held 1\n' "${functions[@]}")
afterwards: parked 1, held 0"
[ "$said" = "$expected" ] || fail "expected:
$expected
found:
$said"
