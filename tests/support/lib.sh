# SPDX-License-Identifier: MIT
#
# What the shell tests share. A test sources it first: it stops the test at the first command that
# fails, and makes $scratch, a folder that is removed at the end.
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

# Flags that select the architecture, as words.
read -r -a cflags <<<"${CFLAGS:-}"
export -n CFLAGS

# What to put before a program of this build, as words.
read -r -a launcher <<<"${SENNIT_LAUNCHER:-}"

# What a program links after libsennit.a, as words.
read -r -a libraries <<<"${SENNIT_LIBRARIES:--pthread}"

# Compiling the library again, or everything that is shipped, takes minutes, so only the nightly
# test does it.
only_nightly() {
	[ -n "${SENNIT_TEST_PACKAGES:-}" ] || skip "not without SENNIT_TEST_PACKAGES=1: it compiles"
}

# make_packages: builds the Debian packages of this tree in $packages, unless those of an earlier
# run are still right.
make_packages() {
	local stamp
	only_nightly
	command -v dh >/dev/null || skip "debhelper is not installed (scripts/setup deb)"
	packages=$SENNIT_BUILD_DIR/deb
	mkdir -p "$packages"
	exec 8>"$packages/lock"
	flock 8
	stamp=$(cd "$SENNIT_SOURCE_DIR" && find CMakeLists.txt LICENSE cmake docs include packaging \
		scripts/deb src tools -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z |
		xargs -0 sha256sum | sha256sum)
	if [ "$(cat "$packages/stamp" 2>/dev/null)" != "$stamp" ]; then
		rm -f "$packages/stamp"
		"$SENNIT_SOURCE_DIR/scripts/deb" "$packages" >"$scratch/log" 2>&1 ||
			{ cat "$scratch/log" >&2; fail "scripts/deb"; }
		echo "$stamp" >"$packages/stamp"
	fi
	exec 8>&-
}

# make_debian FOLDER: makes a minimal Debian there, of the release from which the relay's image is
# made. It is downloaded once a week; a tarball in the build folder keeps it for the next test.
make_debian() {
	local kept=$SENNIT_BUILD_DIR/debian.tar
	exec 8>"$kept.lock"
	flock 8
	find "$kept" -mtime +6 -delete 2>/dev/null || true
	if [ ! -f "$kept" ]; then
		timeout 900 debootstrap --variant=minbase bookworm "$scratch/made" >"$scratch/log" 2>&1 || {
			tail -n 5 "$scratch/log" >&2
			skip "debootstrap cannot make a Debian here"
		}
		tar -C "$scratch/made" -cf "$kept.new" .
		mv "$kept.new" "$kept"
		rm -rf "$scratch/made"
	fi
	exec 8>&-
	mkdir "$1"
	tar -C "$1" -xf "$kept"
	cp -L /etc/resolv.conf "$1/etc/resolv.conf"
	in_debian "$1" apt-get update
}

# in_debian FOLDER COMMAND...: runs the command in that Debian, which is not booted.
in_debian() {
	env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$@" >"$scratch/log" 2>&1 </dev/null ||
		{ cat "$scratch/log" >&2; fail "in Debian: ${*:2}"; }
}
