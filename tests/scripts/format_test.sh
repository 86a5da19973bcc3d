#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/format lists what is not formatted, and lines of comments with more than 100 columns.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"
command -v "${CLANG_FORMAT:-clang-format-14}" >/dev/null || skip "there is no clang-format-14"

tree=$scratch/tree
mkdir -p "$tree/scripts"
cp "$SENNIT_SOURCE_DIR/scripts/format" "$tree/scripts"
cp "$SENNIT_SOURCE_DIR/.clang-format" "$tree"
cd "$tree"

# a WIDTH: that many letters
a() {
	printf "%${1}s" | tr ' ' a
}

# expect STATUS LONG-LINES [ARGUMENT]: for the file that was written.
expect() {
	local status=0
	scripts/format "${@:3}" >listed 2>&1 || status=$?
	[ "$status" = "$1" ] || { cat listed >&2; fail "exits with $status, not $1: $(cat x.c)"; }
	[ "$(grep columns listed)" = "${2:+$2; expected: at most 100}" ] ||
		{ cat listed >&2; fail "does not list what it should: $2"; }
}

# The tab is eight columns wide, and the u with two dots one.
printf '/* %s */\nint f(void)\n{\n\t/* %s ü */\n\treturn 0;\n}\n' "$(a 94)" "$(a 84)" >x.c
expect 0 '' --check
printf '/* %s */\nint x;\n' "$(a 95)" >x.c
expect 1 './x.c:1: has 101 columns' --check
expect 1 './x.c:1: has 101 columns'
printf 'int f(void)\n{\n\t/* %s */\n\treturn 0;\n}\n' "$(a 87)" >x.c
expect 1 './x.c:3: has 101 columns' --check

# A command and a link may be longer.
printf '/*\n *\tmake %s\n * https://%s\n */\nint x;\n' "$(a 100)" "$(a 100)" >x.c
expect 0 '' --check

printf 'int x ;\n' >x.c
expect 1 '' --check
expect 0 ''
[ "$(cat x.c)" = 'int x;' ] || fail "left this: $(cat x.c)"
