#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The relay's Debian package: its files and their permissions; that its program runs; that it can be
# installed into an empty system, upgraded, removed and purged; and that systemd accepts its units.
# tests/packaging/debian_test.sh tests all packages.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"
cd "$SENNIT_SOURCE_DIR"

make_packages
package=$(echo "$packages"/sennit-relay_*.deb)
[ -f "$package" ] || fail "no package: $package"

# --- what is in it ---

field() {
	dpkg-deb -f "$package" "$1"
}
[ "$(field Package)" = sennit-relay ] || fail "Package: $(field Package)"
[ "$(field Architecture)" = "$(dpkg --print-architecture)" ] || fail "Architecture"
field Depends | grep -q 'libc6 (>= ' || fail "Depends has no libc6: $(field Depends)"
field Depends | grep -q 'libstdc++6 (>= ' || fail "Depends has no libstdc++6: $(field Depends)"

root=$scratch/root
mkdir "$root"
dpkg-deb -x "$package" "$root"
while read -r mode file; do
	[ -e "$root/$file" ] || fail "not in the package: $file"
	[ "$(stat -c %a "$root/$file")" = "$mode" ] || fail "$file has mode $(stat -c %a "$root/$file")"
done <<'LIST'
755 usr/bin/sennit-relay
644 lib/systemd/system/sennit-relay.service
644 etc/default/sennit-relay
644 usr/share/man/man1/sennit-relay.1.gz
644 usr/share/man/man5/sennit-relay.toml.5.gz
644 usr/share/doc/sennit-relay/copyright
644 usr/share/doc/sennit-relay/changelog.Debian.gz
644 usr/share/doc/sennit-relay/changelog.gz
644 usr/share/doc/sennit-relay/relay-reference.md.gz
644 usr/share/doc/sennit-relay/relay.md.gz
644 usr/share/doc/sennit-relay/relay-operation.md.gz
644 usr/share/doc/sennit-relay/examples/sennit-relay.socket
644 usr/share/doc/sennit-relay/examples/sennit-relay.logrotate
644 usr/share/doc/sennit-relay/examples/sennit-relay.toml
644 usr/share/doc/sennit-relay/examples/grafana-dashboard.json
644 usr/share/doc/sennit-relay/examples/sennit-relay.rules.yml
644 usr/share/bash-completion/completions/sennit-relay
644 usr/share/fish/vendor_completions.d/sennit-relay.fish
644 usr/share/zsh/vendor-completions/_sennit-relay
644 usr/share/lintian/overrides/sennit-relay
LIST
[ "$(find "$root" -type f | wc -l)" = 20 ] || fail "unexpected files in the package: $(find "$root" -type f)"
if dpkg-deb -c "$package" | grep -v ' root/root '; then
	fail "these files do not belong to root"
fi
if grep -qF -e "$SENNIT_SOURCE_DIR" -e "$SENNIT_BUILD_DIR" "$root/usr/bin/sennit-relay"; then
	fail "the program contains the path of its build folder"
fi

# --- the program from it runs ---

relay=$root/usr/bin/sennit-relay
[ "$("$relay" --version)" = "sennit-relay $(field Version | sed 's/-[0-9]*$//')" ] || fail "$("$relay" --version)"
if ldd "$relay" | grep -q 'not found'; then
	fail "libraries are missing: $(ldd "$relay")"
fi
# The test that Debian runs of the installed package.
PATH=$root/usr/bin:$PATH sh packaging/debian/tests/relay >"$scratch/log" 2>&1 ||
	{ cat "$scratch/log" >&2; fail "packaging/debian/tests/relay"; }
# The options that the unit passes, on free ports.
options=$(. "$root/etc/default/sennit-relay" && echo "$SENNIT_RELAY_OPTIONS")
read -r -a words <<<"${options//:8080/:0}"
words=("${words[@]//:9090/:0}")
# The command that the unit runs before a reload.
[ "$("$relay" --check "${words[@]}")" = "arguments: good" ] || fail "--check of $options"
coproc "$relay" --supervise "${words[@]}"
# Bash unsets both variables once it has ended.
pid=$COPROC_PID
exec {said}<&"${COPROC[0]}"
read -r -t 60 line <&"$said" && [[ $line == 'listening on 127.0.0.1:'* ]] || fail "it said: $line"
read -r -t 60 line <&"$said" && [[ $line == 'admin on 127.0.0.1:'* ]] || fail "it said: $line"
curl -sSf "http://${line#admin on }/healthz" | grep -qx ok || fail "/healthz does not say ok"
kill -TERM "$pid"
wait "$pid" || fail "it exited with $?"

# --- the manual ---

manual=$root/usr/share/man/man1/sennit-relay.1.gz
gzip -t "$manual"
text=$(zcat "$manual" | sed 's/\\-/-/g')
for option in $("$relay" --help | grep -oE -- '--[a-z-]+' | sort -u); do
	# Not through a pipe: grep ends early, and the writer before it would fail.
	grep -qF -- "$option" <<<"$text" || fail "$option is not in the manual"
done
if command -v man >/dev/null; then
	for page in "$manual" "$root/usr/share/man/man5/sennit-relay.toml.5.gz"; do
		warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z \
			"$page" 2>&1 >/dev/null) || fail "man: $warnings"
		[ -z "$warnings" ] || fail "man: $warnings"
	done
fi

# --- installed into an empty system ---

system=$scratch/system
mkdir -p "$system/var/lib/dpkg"/{info,updates,triggers}
touch "$system/var/lib/dpkg"/{status,available}
dpkg_there() {
	# Nothing else is installed there: no libraries and no shell.
	dpkg --root="$system" --force-script-chrootless --force-depends --force-not-root \
		--log="$scratch/dpkg.log" "$@" >"$scratch/log" 2>&1 ||
		{ cat "$scratch/log" >&2; fail "dpkg $*"; }
}
status() {
	dpkg-query --admindir="$system/var/lib/dpkg" -W -f '${db:Status-Status}' sennit-relay
}
dpkg_there -i "$package"
[ "$(status)" = installed ] || fail "it is $(status)"
[ -z "$(dpkg --root="$system" --verify sennit-relay)" ] || fail "dpkg --verify"
"$system/usr/bin/sennit-relay" --version >/dev/null || fail "the installed program does not run"
# The administrator's changes stay when the package is installed again.
echo 'SENNIT_RELAY_OPTIONS="mine"' >"$system/etc/default/sennit-relay"
dpkg_there --force-confdef --force-confold -i "$package"
grep -qx 'SENNIT_RELAY_OPTIONS="mine"' "$system/etc/default/sennit-relay" || fail "conffile overwritten"
dpkg_there -r sennit-relay
[ ! -e "$system/usr/bin/sennit-relay" ] || fail "the program is still there after removal"
[ -e "$system/etc/default/sennit-relay" ] || fail "removal has deleted the configuration"
mkdir -p "$system/var/log/private/sennit-relay"
ln -s private/sennit-relay "$system/var/log/sennit-relay"
touch "$system/var/log/private/sennit-relay/access.log"
dpkg_there -P sennit-relay
[ ! -e "$system/etc/default/sennit-relay" ] || fail "the configuration is still there after the purge"
left=$(find "$system" -path "$system/var/lib/dpkg" -prune -o \( -type f -o -type l \) -print)
[ -z "$left" ] || fail "left after the purge: $left"

# --- its scripts, with a systemd that only says what it is asked ---

stubs=$scratch/stubs
mkdir -p "$stubs" "$scratch/run"
for tool in systemctl deb-systemd-invoke deb-systemd-helper; do
	cat >"$stubs/$tool" <<STUB
#!/bin/sh
echo "$tool \$*" >>"$scratch/asked"
case "\$*" in
*is-active*) exit "\${IS_ACTIVE:-0}" ;;
*kill*) exit "\${CAN_KILL:-0}" ;;
esac
STUB
	chmod 755 "$stubs/$tool"
done
dpkg-deb -e "$package" "$scratch/control"
asked_by() {
	local script=$1
	shift
	: >"$scratch/asked"
	sed "s,/run/systemd/system,$scratch/run,g" "$scratch/control/$script" >"$scratch/script"
	PATH=$stubs:$PATH sh "$scratch/script" "$@" || fail "$script $*"
	cat "$scratch/asked"
}
handover='systemctl kill --kill-who=main --signal=USR2 sennit-relay.service'
restart='deb-systemd-invoke try-restart sennit-relay.service'
asked=$(asked_by postinst configure 0.0.1)
grep -qxF "$handover" <<<"$asked" || fail "an upgrade does not hand over: $asked"
grep -qF restart <<<"$asked" && fail "an upgrade restarts: $asked"
asked=$(CAN_KILL=1 asked_by postinst configure 0.0.1)
grep -qxF "$restart" <<<"$asked" || fail "it is not restarted if it cannot be asked: $asked"
asked=$(IS_ACTIVE=3 asked_by postinst configure 0.0.1)
grep -qE 'kill|restart' <<<"$asked" && fail "a service that does not run is started: $asked"
asked=$(asked_by postinst configure "")
grep -qE 'kill|restart' <<<"$asked" && fail "the first installation starts it: $asked"
asked=$(asked_by prerm upgrade 0.0.2)
[ -z "$asked" ] || fail "an upgrade stops it: $asked"
asked=$(asked_by prerm remove)
grep -qxF 'deb-systemd-invoke stop sennit-relay.service' <<<"$asked" || fail "removed, it runs on"

# --- its units ---

if command -v systemd-analyze >/dev/null; then
	units=$scratch/units
	mkdir "$units"
	cp "$root/usr/share/doc/sennit-relay/examples/sennit-relay.socket" "$units"
	# systemd-analyze looks for the program, so name the place where it is now.
	sed "s,/usr/bin/sennit-relay,$relay,; s,/etc/default/,$root/etc/default/," \
		"$root/lib/systemd/system/sennit-relay.service" >"$units/sennit-relay.service"
	said=$(SYSTEMD_UNIT_PATH="$units:" systemd-analyze verify --man=no \
		"$units"/sennit-relay.{service,socket} 2>&1) || fail "systemd-analyze verify: $said"
	if grep -F sennit-relay <<<"$said"; then
		fail "systemd-analyze verify has complaints"
	fi
	# The rights of the service beyond passing bytes on. The scale ends at 10.0, "everything";
	# the unit had 1.6.
	systemd-analyze security --offline=true --threshold=20 --no-pager \
		"$units/sennit-relay.service" >"$scratch/log" 2>&1 ||
		{ cat "$scratch/log" >&2; fail "the service is more exposed than allowed"; }
fi
