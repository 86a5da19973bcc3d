#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The completions of sennit-relay for bash, zsh and fish: each has the options and commands of --help
and ctl --help, and no others; each shell that is installed accepts its file; and zsh and fish offer
the groups and backends of a running relay (packaging_test.py has bash).

Environment: as traffic.py, and SENNIT_SOURCE_DIR.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from traffic import BUILD, LAUNCHER, PATIENCE, RelayByConfig

SOURCE = os.environ["SENNIT_SOURCE_DIR"]
PROGRAM = os.path.join(BUILD, "tools/relay/sennit-relay")
FILES = {shell: os.path.join(SOURCE, f"packaging/sennit-relay.{shell}")
         for shell in ("bash", "zsh", "fish")}
# Instead of zsh's own functions, which need a terminal.
ZSH = r"""
_describe() { [[ $1 == -o ]] && shift; print -rl -- "${(@)${(@P)2}%%:*}"; }
compadd() { [[ $1 == -a ]] && print -rl -- "${(@P)2}" || print -rl -- "$@"; }
_files() { print FILES; }
words=("$@") CURRENT=$#
function complete() { source "$FILE"; }
complete
"""


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(*words, environment=None, status=0):
    said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env=os.environ | (environment or {}))
    if said.returncode != status:
        raise AssertionError(f"{words} gave {said.returncode}: {said.stdout}{said.stderr}")
    return said.stdout


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


class Words(unittest.TestCase):
    """What the files have is what --help has."""

    @classmethod
    def setUpClass(cls):
        whole = run(*LAUNCHER, PROGRAM, "--help")
        cls.of_main = options_of(whole.partition("\nOptions:\n")[2].partition("\n\n")[0])
        cls.of_ctl = run(*LAUNCHER, PROGRAM, "ctl", "--help")
        listed = cls.of_ctl.partition("\nCommands:\n")[2].partition("\n\n")[0]
        cls.commands = {word for line in re.findall(r"^  ([a-z]+(?:, [a-z]+)*)", listed, re.M)
                        for word in line.split(", ")}
        cls.all = cls.of_main | options_of(cls.of_ctl)

    def test_the_help_is_understood(self):
        self.assertIn("--access-log-format", self.of_main)
        self.assertTrue({"drain", "kill", "json", "metrics"} <= self.commands, self.commands)
        self.assertIn("--endpoint", self.all)

    def test_zsh(self):
        text = re.sub(r"^\s*#.*", "", text_of(FILES["zsh"]), flags=re.M)
        offered = set(re.findall(r"'(--[a-z-]+):", text))
        self.assertEqual(offered, self.all)
        commands = set(re.findall(r"^\s+'([a-z]+):", text, re.M))
        self.assertEqual(commands, self.commands)

    def test_fish(self):
        text = text_of(FILES["fish"])
        of_main = {f"--{name}" for name in re.findall(r"^complete \$main .*-l ([a-z-]+)", text,
                                                      re.M)}
        self.assertEqual(of_main, self.of_main)
        rest = {f"--{name}" for name in re.findall(r"^complete \$(?!main).* -l ([a-z-]+)", text,
                                                   re.M)}
        self.assertEqual(rest, options_of(self.of_ctl))
        self.assertEqual(set(re.findall(r"^complete \$ctl -a ([a-z]+) ", text, re.M)),
                         self.commands)

    def test_bash(self):
        """It reads the options of the relay itself from --help."""
        text = text_of(FILES["bash"])
        self.assertLessEqual(options_of(self.of_ctl), options_of(text))
        choices = re.search(r'choices="(status .*?)"', text, re.S)[1]
        self.assertEqual({word for word in choices.split() if word[0] != "-"}, self.commands)

    def test_the_shells_accept_them(self):
        for shell, check in (("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])):
            if shutil.which(shell):
                with self.subTest(shell):
                    run(shell, *check, FILES[shell])


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.control = f"unix:{cls.folder}/control"
        cls.odd = f"unix:{cls.folder}/$(touch $MARK)"
        cls.relay = RelayByConfig(
            f'drain = 0\nadmin = "127.0.0.1:0"\ncontrol = "{cls.control}"\n'
            '[listeners.web]\naddress = "127.0.0.1:0"\ngroup = "web"\n'
            '[groups.web]\nbackends = ["10.0.0.7:80", "[::1]:80"]\n'
            '[listeners.files]\naddress = "127.0.0.1:0"\ngroup = "files"\n'
            f'[groups.files]\nbackends = ["{cls.odd}"]\n')
        cls.addClassCleanup(cls.relay.stop)

    def environment(self, control):
        path = os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"]
        return {"PATH": path, "HOME": self.folder, "MARK": self.folder + "/mark",
                "SENNIT_RELAY_CONTROL": control}

    def zsh(self, *words, control=None):
        said = run("zsh", "-f", "-c", ZSH, "zsh", "sennit-relay", *words, environment={
            **self.environment(control or self.control), "FILE": FILES["zsh"]})
        return {word for word in said.splitlines() if word.startswith(words[-1]) and word}

    def fish(self, *words, control=None):
        line = " ".join(("sennit-relay", *words))
        said = run("fish", "--no-config", "-c", 'source $FILE; complete -C "$LINE"', environment={
            **self.environment(control or self.control), "FILE": FILES["fish"], "LINE": line})
        return {re.sub(r"\\(.)", r"\1", word.partition("\t")[0]) for word in said.splitlines()}

    def check(self, complete):
        self.assertEqual(complete("c"), {"ctl"})
        self.assertEqual(complete("--access-l"), {"--access-log", "--access-log-format"})
        self.assertEqual(complete("--access-log-format", "j"), {"json"})
        self.assertEqual(complete("ctl", "re"), {"remove", "reload"})
        self.assertEqual(complete("ctl", "--at", self.control, "--ti"), {"--timeout"})
        self.assertEqual(complete("ctl", "drain", ""), {"files", "web"})
        self.assertEqual(complete("ctl", "remove", "web", ""), {"10.0.0.7:80", "[::1]:80"})
        self.assertEqual(complete("ctl", "weight", "web", "10.0.0.7:80", ""), set())
        self.assertEqual(complete("ctl", "add", "w"), {"web"})
        self.assertEqual(complete("ctl", "add", "web", "10.0.0.9:80", "--p"), {"--priority"})
        self.assertEqual(complete("ctl", "kill", "--e"), {"--endpoint"})
        self.assertEqual(complete("ctl", "kill", "--group", "w"), {"web"})
        self.assertEqual(complete("ctl", "kill", "--backend", ""),
                         {"10.0.0.7:80", "[::1]:80", self.odd})
        self.assertEqual(complete("ctl", "drain", "files", ""), {self.odd})
        self.assertFalse(os.path.exists(self.folder + "/mark"))
        self.assertEqual(complete("ctl", "--at", self.control, "drain", "w", control="unix:/no"),
                         {"web"})
        self.assertEqual(complete("ctl", "drain", "", control="unix:/no"), set())

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh(self):
        self.check(self.zsh)

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish(self):
        self.check(self.fish)


if __name__ == "__main__":
    if LAUNCHER:
        print("skipped: it is the same in every build")
        sys.exit(77)
    unittest.main(verbosity=2)
