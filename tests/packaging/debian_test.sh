#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The Debian packages: all of them are built, with debugging symbols; lintian finds no error;
# each can be installed with the others into an empty system; a program compiles and runs with
# libsennit-dev there (the packages' own autopkgtest); a package with Multi-Arch: same has no files
# outside folders of its architecture that could differ; the library is the same when it is built
# again in another place. tests/relay/package_test.sh is about the relay's.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"
make_packages
cd "$packages"

abi=$(sed -nE 's/^#define SN_VERSION_(MAJOR|MINOR) //p' "$SENNIT_SOURCE_DIR/include/sennit/base.h" |
	paste -sd.)
for name in libsennit{,-clock,-hooks,-gc,-tls}"$abi" sennit-relay sennit-tools; do
	[ -f "$(echo "${name}"_*.deb)" ] || fail "there is no package $name"
	[ -f "$(echo "${name}"-dbgsym_*.deb)" ] || fail "there are no debugging symbols of $name"
done
for name in libsennit{,-gc,-tls}-dev; do
	[ -f "$(echo "${name}"_*.deb)" ] || fail "there is no package $name"
done

# The maintainer has to replace addresses that do not exist (scripts/deb), and Debian's bugs are only
# for packages that Debian has. All else that lintian finds is shown, so that somebody reads it, and
# errors and warnings are failures.
if command -v lintian >/dev/null; then
	lintian --allow-root --suppress-tags \
		bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs \
		-EvIL +pedantic --fail-on error,warning ./*.changes >"$scratch/said" 2>&1 ||
		{ cat "$scratch/said" >&2; fail "lintian has complaints"; }
	cat "$scratch/said"
fi

# --- installed into an empty system ---

system=$scratch/system
mkdir -p "$system/var/lib/dpkg"/{info,updates,triggers}
touch "$system/var/lib/dpkg"/{status,available}
# Nothing else is installed there: no libraries and no shell.
dpkg --root="$system" --force-script-chrootless --force-depends --force-not-root \
	--log="$scratch/dpkg.log" -i ./*.deb >"$scratch/log" 2>&1 ||
	{ cat "$scratch/log" >&2; fail "dpkg -i"; }
[ -z "$(dpkg --root="$system" --verify)" ] || fail "dpkg --verify: $(dpkg --root="$system" --verify)"

multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
libdir=$system/usr/lib/$multiarch
env PKG_CONFIG_LIBDIR="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir" AUTOPKGTEST_TMP="$scratch" \
	sh "$SENNIT_SOURCE_DIR/packaging/debian/tests/build" >"$scratch/log" 2>&1 ||
	{ cat "$scratch/log" >&2; fail "the autopkgtest, with what is installed"; }
grep -q './static: good' "$scratch/log" || fail "the autopkgtest says: $(cat "$scratch/log")"
for name in sennit sennit-clock sennit-hooks sennit-gc sennit-tls; do
	PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --modversion "$name" >/dev/null ||
		fail "pkg-config does not find $name"
done
# --- packages of two architectures, side by side ---

for package in ./*.deb; do
	[ "$(dpkg-deb -f "$package" Multi-Arch)" = same ] || continue
	# Documentation and headers are the same in each; a program or an object would not be.
	dpkg-deb --fsys-tarfile "$package" | tar -t | grep -v "/$multiarch/" | grep -v '/$' |
		grep -vE '^\./usr/(include/sennit/[a-z_]+\.hp*|share/doc/.*|share/lintian/.*|share/sennit/sennit\.py)$' |
		grep -v '\.build-id/' >"$scratch/shared" || true
	[ ! -s "$scratch/shared" ] ||
		fail "$package, Multi-Arch: same, has these in common places: $(cat "$scratch/shared")"
done

# --- again, in another folder ---

DEB_BUILD_PROFILES=pkg.sennit.core "$SENNIT_SOURCE_DIR/scripts/deb" "$scratch/again" \
	>"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "scripts/deb with pkg.sennit.core"; }
for name in "libsennit$abi" libsennit-dev; do
	dpkg-deb --fsys-tarfile "$packages/${name}"_*.deb | sha256sum >"$scratch/one"
	dpkg-deb --fsys-tarfile "$scratch/again/${name}"_*.deb | sha256sum >"$scratch/two"
	cmp -s "$scratch/one" "$scratch/two" || fail "made again, $name differs"
done
