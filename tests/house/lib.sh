# SPDX-License-Identifier: MIT
#
# What the shell tests share. Source it first: it stops the test at the first command that fails,
# and makes $scratch, a folder that is removed at the end.
# shellcheck shell=bash
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

skip() {
	printf 'skipped: %s\n' "$*" >&2
	exit 77
}

# Flags that choose the architecture, as words.
read -r -a cflags <<<"${CFLAGS:-}"
export -n CFLAGS

# What to put before a program of this build, as words.
read -r -a launcher <<<"${SENNIT_LAUNCHER:-}"
