#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: nightly
#
# scripts/check-abi, in a repository of its own with a release of the clocks: a change of a
# function's body passes, and so does a new function; a parameter of another type and a removed
# function fail, until the minor version rises.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

command -v abidiff >/dev/null || skip "abidiff is not installed (Debian: abigail-tools)"
command -v git >/dev/null || skip "git is not installed"

tree=$scratch/tree
mkdir "$tree"
cd "$SENNIT_SOURCE_DIR"
cp -r CMakeLists.txt cmake include src scripts tools packaging "$tree"
cd "$tree"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
git init -q
keep() {
	git add -A .
	git -c user.name=test -c user.email=test -c commit.gpgsign=false commit -q -m "$1"
}
echo /build/ >.gitignore
keep release

# check STATUS TEXT: check-abi exits with the status, and prints the text.
check() {
	local status=0
	CC=$CC CXX=$CXX CFLAGS=${cflags[*]} scripts/check-abi sennit-clock >"$scratch/said" 2>&1 || status=$?
	[ "$status" = "$1" ] && grep -qF -- "$2" "$scratch/said" ||
		{ cat "$scratch/said" >&2; fail "check-abi: $status and not $1, or it does not say: $2"; }
}
check 0 'no tag'
mkdir "$scratch/bin"
ln -s "$(command -v bash)" "$(command -v dirname)" "$scratch/bin"
if PATH=$scratch/bin bash scripts/check-abi 2>"$scratch/said"; then
	fail "check-abi without abidiff"
fi
grep -qF 'scripts/setup abi' "$scratch/said" || fail "it does not say what it lacks"
git tag v0.1.0

sed -i 's/^SN_API int64_t sn_walltime(void);/&\nSN_API int sn_planted(void);/' include/sennit/clock.h
printf '\nint sn_planted(void)\n{\n\treturn 1;\n}\n' >>src/clock/version.c
sed -i 's,^#include <sennit/base.h>,#include <sennit/clock.h>,' src/clock/version.c
scripts/exports >/dev/null
keep "a new function"
check 0 'programs of v0.1.0 run with this tree'
git tag v0.1.1

for change in 's/sn_planted(void)/sn_planted(long more)/' 's/\bsn_planted\b/sn_planted_2/'; do
	sed -i "$change" include/sennit/clock.h src/clock/version.c
	scripts/exports >/dev/null
	keep "$change"
	check 1 'the version must rise'
	grep -q sn_planted "$scratch/said" || fail "what has changed is not named: $(cat "$scratch/said")"
	git reset -q --hard v0.1.1
done
sed -i 's/sn_planted(void)/sn_planted(long more)/' include/sennit/clock.h src/clock/version.c
sed -i 's/\(define SN_VERSION_MINOR\) .*/\1 2/' include/sennit/base.h
keep "a minor version"
check 0 'as the version says (0.2): sennit-clock'
