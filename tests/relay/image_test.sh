#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: nightly
#
# The image of packaging/Containerfile: buildah makes it from this tree, and image_inside.py runs it
# by crun. If the image from which it begins cannot be downloaded, debootstrap makes one like it.
# Nothing is left on this machine: the images are in a folder of the test.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"
only_nightly
[ "$(id -u)" = 0 ] || skip "buildah needs root here, for chroot"
for tool in buildah crun; do
	command -v $tool >/dev/null || skip "$tool is not installed (scripts/setup nightly)"
done
unshare --net --mount --propagation private true || skip "this sandbox allows no namespaces"

# buildah with a storage of its own
images=(buildah --root "$scratch/images" --runroot "$scratch/run" --storage-driver vfs)
clean() {
	"${images[@]}" umount --all >/dev/null 2>&1 || true
	# Nothing is removed while something is mounted there.
	! grep -qF " $scratch/" /proc/self/mountinfo || fail "a mount is left in $scratch"
	rm -rf --one-file-system "$scratch"
}
trap clean EXIT

base=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' "$SENNIT_SOURCE_DIR/packaging/Containerfile")
if ! timeout 120 "${images[@]}" pull --quiet "docker.io/library/$base" >/dev/null 2>&1; then
	echo "$base cannot be downloaded, so debootstrap makes it"
	command -v debootstrap >/dev/null || skip "debootstrap is not installed (scripts/setup nightly)"
	make_debian "$scratch/debian"
	# The published image keeps no packages and no indexes of them, by such a file.
	rm -rf "$scratch"/debian/var/cache/apt/*.bin "$scratch"/debian/var/lib/apt/lists/*
	cat >"$scratch/debian/etc/apt/apt.conf.d/docker-clean" <<-'APT'
		Dir::Cache::pkgcache "";
		Dir::Cache::srcpkgcache "";
		APT::Keep-Downloaded-Packages "false";
	APT
	container=$("${images[@]}" from scratch)
	"${images[@]}" add --quiet "$container" "$scratch/debian" / >/dev/null
	"${images[@]}" commit --quiet --rm "$container" "docker.io/library/$base" >/dev/null
	rm -rf "$scratch/debian"
fi

"${images[@]}" bud --isolation chroot --format docker --layers=false \
	-f "$SENNIT_SOURCE_DIR/packaging/Containerfile" -t sennit-relay "$SENNIT_SOURCE_DIR" \
	>"$scratch/log" 2>&1 </dev/null || { tail -n 40 "$scratch/log" >&2; fail "buildah"; }
! grep -q 'level=warning' "$scratch/log" || fail "it warns: $(grep level=warning "$scratch/log")"

"${images[@]}" inspect --type image sennit-relay |
	python3 -c 'import json, sys; json.dump(json.load(sys.stdin)["Docker"]["config"], sys.stdout)' \
		>"$scratch/config.json"
root=$("${images[@]}" mount "$("${images[@]}" from sennit-relay)")
for path in src sennit-relay.deb tmp/sennit-relay.deb usr/bin/c++ usr/bin/make; do
	[ ! -e "$root/$path" ] || fail "the image has /$path"
done
[ -z "$(ls "$root/var/lib/apt/lists")" ] || fail "the image has the lists of packages"
container=$("${images[@]}" from "docker.io/library/$base")
before=$(du -sm "$("${images[@]}" mount "$container")" | cut -f1)
after=$(du -sm "$root" | cut -f1)
echo "the image has $after MiB; $base has $before MiB of these"
[ $((after - before)) -le 40 ] || fail "it adds $((after - before)) MiB"

# crun accepts no machine that has both kinds of cgroups mounted, and needs none of them.
unshare --net --mount --propagation private sh -ec '
	umount -R /sys/fs/cgroup 2>/dev/null || true
	mount -t cgroup2 none /sys/fs/cgroup
	ip link set lo up
	ip address add 10.10.10.10/32 dev lo
	exec timeout --kill-after=20 600 "$@"' sh \
	python3 "$(dirname "$0")/image_inside.py" "$root" "$scratch/config.json"
