#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: nightly
#
# The Debian package as a service of systemd, in a Debian that debootstrap makes and systemd-nspawn
# boots, without a network: systemd_inside.py has the cases. Nothing of this machine is changed but
# a cgroup, which is removed at the end.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"
only_nightly
[ "$(id -u)" = 0 ] || skip "systemd-nspawn needs root"
for tool in debootstrap systemd-nspawn; do
	command -v $tool >/dev/null || skip "$tool is not installed (scripts/setup nightly)"
done
hierarchy=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)
[ -n "$hierarchy" ] || skip "no cgroup2 is mounted, which systemd needs in the container"

group=$hierarchy$(sed -n 's/^0:://p' /proc/self/cgroup)/sennit-systemd-test-$$
clean() {
	[ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + || true
	rm -rf --one-file-system "$scratch"
}
trap clean EXIT

make_packages
package=$(echo "$packages"/sennit-relay_*.deb)
make_debian "$scratch/system"
system=$scratch/system
in_debian "$system" apt-get install -y --no-install-recommends systemd systemd-sysv dbus python3 \
	logrotate
in_debian "$system" apt-get satisfy -y --no-install-recommends "$(dpkg-deb -f "$package" Depends)"

cp "$package" "$system/root/package.deb"
dpkg-deb -R "$package" "$scratch/later"
sed -i 's/^Version: .*/&.later/' "$scratch/later/DEBIAN/control"
dpkg-deb --root-owner-group -b "$scratch/later" "$system/root/later.deb" >/dev/null
cp "$SENNIT_SOURCE_DIR/packaging/sennit-relay.default" "$system/root/default"
cp "$(dirname "$0")/systemd_inside.py" "$system/root"
cat >"$system/etc/systemd/system/inside.service" <<'UNIT'
[Unit]
Description=The cases
# The exit status of the cases becomes that of systemd-nspawn.
SuccessAction=exit
FailureAction=exit
[Service]
Type=exec
ExecStart=python3 -u /root/systemd_inside.py /root/package.deb /root/later.deb
StandardOutput=file:/root/said
StandardError=file:/root/said
TimeoutStopSec=10
UNIT
ln -s ../inside.service "$system/etc/systemd/system/multi-user.target.wants/"

mkdir "$group" || skip "this sandbox allows no cgroups"
status=0
(
	echo "$BASHPID" >"$group/cgroup.procs"
	export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
	exec timeout --kill-after=20 900 systemd-nspawn --quiet --boot --directory="$system" \
		--register=no --keep-unit --private-network --machine=sennit-test --console=pipe
) >"$scratch/console" 2>&1 </dev/null || status=$?
if [ ! -f "$system/root/said" ]; then
	tail -n 20 "$scratch/console" >&2
	skip "systemd-nspawn does not boot a system here (exit status $status)"
fi
cat "$system/root/said" >&2
[ "$status" = 0 ] || fail "the cases, with exit status $status"
