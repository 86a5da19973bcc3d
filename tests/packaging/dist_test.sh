#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: nightly
#
# make dist: the tarball of a commit is the same to the byte from two clones in different folders at
# different times; it has the files of the commit and no others; its checksums and its bill of
# materials are right.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"
cd "$SENNIT_SOURCE_DIR"
git rev-parse --verify -q HEAD >/dev/null 2>&1 || skip "this is no clone"

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
for clone in one other/two; do
	mkdir -p "$scratch/$clone"
	# Not a clone of this clone, because cloning a shallow one, or another user's, would fail.
	git archive HEAD | tar -x -m -C "$scratch/$clone"
	(
		cd "$scratch/$clone"
		git init -q
		git add -A -f .
		GIT_COMMITTER_DATE='1700000000 +0200' GIT_AUTHOR_DATE='1700000000 +0200' \
			git -c user.name=test -c user.email=test -c commit.gpgsign=false commit -q -m all
		umask 077
		scripts/dist "$scratch/$clone-dist" >"$scratch/said"
	)
	grep -q '\.tar\.xz$' "$scratch/said" || fail "dist says: $(cat "$scratch/said")"
done
diff -r "$scratch/one-dist" "$scratch/other/two-dist" || fail "the same commit gives other files"
(cd "$scratch/one-dist" && sha256sum -c --quiet SHA256SUMS) || fail "SHA256SUMS"
[ "$(wc -l <"$scratch/one-dist/SHA256SUMS")" = 2 ] || fail "SHA256SUMS has not two files"

mkdir "$scratch/unpacked"
tar -x -C "$scratch/unpacked" -f "$scratch"/one-dist/sennit-*.tar.xz
rm -rf "$scratch/one/.git"
diff -r "$scratch/one" "$scratch"/unpacked/sennit-* || fail "the tarball is not the commit"
[ -z "$(find "$scratch/unpacked" ! -type l -perm /022 -print -quit)" ] || fail "others may write to its files"

python3 - "$scratch"/one-dist/*.spdx.json "$scratch"/unpacked/sennit-* <<'PYTHON' || fail "the bill of materials"
import hashlib
import json
import pathlib
import sys

bill = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
root = pathlib.Path(sys.argv[2])
assert bill["spdxVersion"] == "SPDX-2.3"
listed = {entry["fileName"]: entry["checksums"][1]["checksumValue"] for entry in bill["files"]}
there = {"./" + str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
         for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
assert listed == there, set(listed.items()) ^ set(there.items())
known = {entry["SPDXID"] for entry in bill["files"] + bill["packages"]} | {"SPDXRef-DOCUMENT"}
for relation in bill["relationships"]:
    assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= known, relation
assert {"OpenSSL", "PCRE2", "bdw-gc", "llhttp"} <= {package["name"] for package in bill["packages"]}
PYTHON

# Without git the script reports what it lacks.
if (cd "$scratch/unpacked"/sennit-* && GIT_CEILING_DIRECTORIES=$scratch scripts/dist "$scratch/none" 2>"$scratch/said"); then
	fail "a tarball of no commit"
fi
grep -q '^dist: git ' "$scratch/said" || fail "it says: $(cat "$scratch/said")"
