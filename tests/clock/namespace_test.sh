#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# In a time namespace, whose monotonic clock is a day ahead or (nearly) at zero, the clocks show the
# namespace's time. In the second case a child must not continue with its parent's time. With
# SENNIT_TEST_SHORT its loops are short: clock/behaviour has the long ones.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

# shellcheck disable=SC2206 # the launcher has words
launcher=(${SENNIT_LAUNCHER:-})
program=$SENNIT_BUILD_DIR/tests/clock/behaviour

become=(unshare)
"${become[@]}" --time true 2>/dev/null || become=(unshare --user --map-root-user)
enter=("${become[@]}" --time)
"${enter[@]}" true 2>/dev/null || skip "this kernel or sandbox allows no time namespaces"

short=()
[ -z "${SENNIT_TEST_SHORT:-}" ] || short=(--short)
uptime=$(cut -d. -f1 /proc/uptime)
for offset in 86400 $((10 - uptime)); do
	echo "offset $offset s"
	"${enter[@]}" --monotonic "$offset" --boottime "$offset" \
		"${launcher[@]}" "$program" --expect=vdso "${short[@]}"
done

# A process enters a namespace while it runs: its clock goes back or ahead with the kernel's.
for offset in 864000 1 -1 $((10 - uptime)); do
	echo "entered, offset $offset s"
	"${become[@]}" "${launcher[@]}" "$program" --setns="$offset"
done

# The program does see the other time.
"${enter[@]}" --monotonic 86400 --fork cat /proc/uptime >/dev/null
