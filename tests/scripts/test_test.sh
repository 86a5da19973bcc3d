#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# scripts/test, with a build and tests that only take notes: in which order it does what, and what
# is left when a signal ends it.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

mkdir -p "$scratch/tree/scripts" "$scratch/bin"
cd "$scratch/tree"
cp "$SENNIT_SOURCE_DIR/scripts/test" scripts/test
printf '#!/bin/sh\n' >scripts/format
# cmake --preset PART ... configures, cmake --build --preset PART ... builds.
cat >"$scratch/bin/cmake" <<'STUB'
#!/bin/sh
[ "$1" = --build ] || { echo "$*" >>configured; exit 0; }
echo "build $3" >>notes
[ "$3" != "$ENDLESS" ] || { echo "$$" >endless; exec sleep 60; }
[ "$3" != "$BROKEN" ]
STUB
# run PART PRESET ...; waits for the file that WAIT_<PART> names.
cat >scripts/run-tests <<'STUB'
#!/bin/bash
if [ "$1" = confirm ]; then
	echo "0 0" >build/confirmed-count
	exit
fi
echo "test $2" >>notes
echo "quick=${SENNIT_TEST_QUICK:-} short=${SENNIT_TEST_SHORT:-} ${*:3}" >options
wait=WAIT_$2
for ((i = 0; i < 600; i++)); do
	[ -n "${!wait:-}" ] && [ ! -e "${!wait}" ] || break
	sleep 0.1
done
echo "1 0 0" >"build/$2-count"
echo "tested $2" >>notes
STUB
chmod +x scripts/* "$scratch/bin/cmake"
export PATH=$scratch/bin:$PATH ENDLESS='' BROKEN=''
# A run of the whole gate counts into these files.
unset SENNIT_TEST_COUNT SENNIT_TEST_FAILURES

# at LINE: its number in the notes.
at() {
	grep -nx -m 1 -- "$1" notes | cut -d: -f1 | grep . || { cat notes >&2; fail "no line: $1"; }
}

# While the first part is tested, all others are built that have build directories of their own.
WAIT_release=build/tsan-built scripts/test release asan tsan benches >out 2>&1 ||
	{ cat out >&2; fail "fails"; }
[ "$(tail -n 1 out)" = "9 passed, 0 failed" ] || { cat out >&2; fail "counts wrongly"; }
[ "$(at 'build tsan')" -lt "$(at 'tested release')" ] || fail "waits with the builds"
[ "$(at 'test asan')" -gt "$(at 'tested release')" ] || fail "tests two parts at a time"
# The benchmarks are built where the release preset was, after it has been tested.
[ "$(grep -cx 'build release' notes)" = 2 ] ||
	{ cat notes >&2; fail "does not build the benchmarks"; }
last=$(grep -nx 'build release' notes | tail -n 1 | cut -d: -f1)
[ "$last" -gt "$(at 'tested release')" ] || fail "builds the benchmarks below the tests"

# Only `make test` leaves out what the gate alone runs, and asks for the shortest forms.
scripts/test --quick release >out 2>&1 || { cat out >&2; fail "--quick fails"; }
grep -q '^quick=1 short=1 .*--label-exclude ^(models|benches|gate|nightly)\$$' options ||
	{ cat options >&2; fail "--quick runs all tests"; }
SENNIT_TEST_QUICK=1 scripts/test --gate release >out 2>&1 || { cat out >&2; fail "--gate fails"; }
grep -q '^quick= short=1 .*--label-exclude ^(models|benches|nightly)\$$' options ||
	{ cat options >&2; fail "--gate leaves something out"; }

# The folders that are left out are the presets', or those that the user names, even none.
: >configured
scripts/test i386 >out 2>&1 || { cat out >&2; fail "i386 fails"; }
SENNIT_TEST_EXCEPT='' scripts/test i386 >out 2>&1 || { cat out >&2; fail "i386 fails"; }
[ "$(<configured)" = $'--preset i386\n--preset i386 -DSENNIT_TEST_EXCEPT=' ] ||
	{ cat configured >&2; fail "configures another set of tests"; }

# The formatting is checked beside the build, and counts.
printf '#!/bin/sh\necho planted; exit 1\n' >scripts/format
scripts/test release >out 2>&1 && fail "bad formatting is no failure"
grep -qx planted out && grep -qx 'failed: formatting (make format)' out ||
	{ cat out >&2; fail "does not report the formatting"; }
[ "$(tail -n 1 out)" = "2 passed, 1 failed" ] || { cat out >&2; fail "counts wrongly"; }
printf '#!/bin/sh\n' >scripts/format

# A part whose build fails is not tested, and the next one is.
: >notes
BROKEN=asan scripts/test release asan tsan >out 2>&1 && fail "a failed build is no failure"
grep -qx 'failed: asan: building' out || { cat out >&2; fail "does not name the failed build"; }
[ "$(tail -n 1 out)" = "5 passed, 1 failed" ] || { cat out >&2; fail "counts wrongly"; }
grep -qx 'test asan' notes && fail "tests what was not built"

# When a signal ends it, the build beside the tests ends, too.
: >notes
ENDLESS=asan WAIT_release=endless timeout --signal=TERM 20 scripts/test release asan >out 2>&1 &
runner=$!
for ((i = 0; i < 600; i++)); do
	[ -s endless ] && [ -s build/test-pid ] && grep -qx 'tested release' notes && break
	sleep 0.1
done
read -r build <endless
kill -TERM "$(<build/test-pid)"
wait "$runner" && fail "a signal is a success"
for ((i = 0; i < 600; i++)); do
	kill -0 "$build" 2>/dev/null || exit 0
	sleep 0.1
done
fail "the build $build outlives the script"
