#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: gate
"""sennit-tls-check as a user runs it, on shapes.c as several compilers compile it, and on damaged
files.

The compilers are those that are installed among GCC and Clang for x86_64 and GCC for aarch64. Each
file is damaged SENNIT_TEST_ROUNDS times, at places that SENNIT_TEST_SEED determines.
"""
import json
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from documented import undocumented  # noqa: E402

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
LAUNCHER = shlex.split(os.environ.get("SENNIT_LAUNCHER", ""))
PROGRAM = Path(os.environ["SENNIT_BUILD_DIR"]) / "tools/tls-check/sennit-tls-check"
SHAPES = SOURCE / "tests/tls-check/shapes.c"
ROUNDS = int(os.environ.get("SENNIT_TEST_ROUNDS", "25"))
SEED = int(os.environ.get("SENNIT_TEST_SEED", "1"))

X86 = [name for name in ("x86_64-linux-gnu-gcc", "clang-14") if shutil.which(name)]
ARM = [name for name in ("aarch64-linux-gnu-gcc",) if shutil.which(name)]
OBJECT = ("-c",)
SHARED = ("-fPIC", "-shared", "-nostdlib", "-Wl,--unresolved-symbols=ignore-all")
PROGRAMS = ("-pie", "-fPIE", "-nostdlib", "-Wl,-e,implicit_sleep")

# The mistakes that optimizing compilers make, and those that the program itself makes, unless a
# compiler finds the address again.
IMPLICIT_ERROR = {"implicit_" + each for each in (
    "sleep", "wait", "poll", "number", "crowded", "callee", "cold")}
IMPLICIT = IMPLICIT_ERROR | {"implicit_self"}
AT_ALL_LEVELS = {"explicit_" + each for each in ("host_error", "characters", "self", "compared")}
UNOPTIMIZED = AT_ALL_LEVELS | {"explicit_" + each for each in (
    "error", "variable", "exported", "passed", "returned", "stored", "wrapped", "switch")}
WITHOUT_CONTEXT = {"over_unknown", "over_pointer"}


def run(*args):
    return subprocess.run([*LAUNCHER, str(PROGRAM), *map(str, args)], capture_output=True,
                          check=False, timeout=250)


class Compiled(unittest.TestCase):
    """A test with a folder in which files are compiled, each of them once."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)
        cls.made = {}

    def compile(self, compiler, *flags):
        key = (compiler, flags)
        if key not in self.made:
            path = self.folder / f"{len(self.made)}.out"
            if flags[-len(PROGRAMS):] == PROGRAMS:
                flags += ("-L", self.library(compiler), "-lneeded")
            done = subprocess.run(
                [compiler, "-std=gnu11", "-g", "-I", SOURCE / "include", SHAPES, *flags,
                 "-o", path],
                capture_output=True, text=True, check=False)
            self.assertEqual(0, done.returncode, done.stderr)
            self.made[key] = path
        return self.made[key]

    def library(self, compiler):
        """The folder of a library with all functions that a program of the shapes needs."""
        folder = self.folder / compiler
        if not folder.exists():
            folder.mkdir()
            names = subprocess.run(["nm", "-u", self.compile(compiler, "-O0", *OBJECT)],
                                   capture_output=True, text=True, check=True).stdout.split()
            code = "".join(f"int {name}; " if name == "descriptor" else f"void {name}(void) {{}} "
                           for name in names if len(name) > 1 and name[:7] != "_GLOBAL")
            subprocess.run([compiler, "-w", "-fno-builtin", "-fPIC", "-shared", "-nostdlib",
                            "-x", "c", "-", "-o", folder / "libneeded.so"], input=code, text=True, check=True)
        return folder

    def rows(self, *args, status=(0, 1)):
        """The findings."""
        done = run("--json", *args)
        self.assertIn(done.returncode, status, done.stderr)
        rows = [row for file in json.loads(done.stdout)["files"] for member in file["members"]
                for row in member["findings"]]
        if status == (0, 1):
            self.assertEqual(bool(rows), done.returncode == 1)
        return rows

    def names(self, *args):
        return {row["function"] for row in self.rows(*args)}

    def compilers(self):
        if not X86 and not ARM:
            self.skipTest("there is no compiler for x86_64 or aarch64")
        return X86 + ARM


class Shapes(Compiled):
    def check(self, wanted, left, *args):
        """All wanted functions are named, and none that is neither wanted nor allowed."""
        names = self.names("--calls", "known", *args)
        self.assertEqual(set(), wanted - names)
        self.assertEqual(set(), names - wanted - left)

    def test_what_an_optimizing_compiler_keeps_is_named(self):
        for compiler in self.compilers():
            for kind in (OBJECT, SHARED, SHARED + ("-fno-plt",), PROGRAMS):
                for level in ("-O2", "-O3") if kind != OBJECT else ("-O1", "-O2", "-O3", "-Os"):
                    # With the first levels some are not kept; which ones depends on the compiler.
                    wanted = IMPLICIT if level in ("-O2", "-O3") else {"implicit_sleep"}
                    with self.subTest(compiler=compiler, level=level, kind=kind):
                        self.check(wanted | AT_ALL_LEVELS, IMPLICIT | UNOPTIMIZED,
                                   self.compile(compiler, level, *kind))

    def test_without_optimization_only_what_the_program_keeps_is_named(self):
        for compiler in self.compilers():
            for kind in (OBJECT, SHARED):
                with self.subTest(compiler=compiler, kind=kind):
                    self.check(UNOPTIMIZED, set(), self.compile(compiler, "-O0", *kind))

    def test_with_the_errno_of_sennit_nothing_of_errno_is_named(self):
        for compiler in self.compilers():
            for level in ("-O0", "-O2", "-O3"):
                for kind in (OBJECT, SHARED):
                    with self.subTest(compiler=compiler, level=level, kind=kind):
                        path = self.compile(compiler, level, "-DFRESH", *kind)
                        names = self.names("--calls", "known", path)
                        self.assertEqual(set(), names & (IMPLICIT_ERROR | {"explicit_error"}))
                        self.assertEqual(set(), AT_ALL_LEVELS - names)

    def test_every_way_to_find_a_thread_local_is_known(self):
        ways = [(compiler, (), SHARED) for compiler in self.compilers()]
        ways += [(compiler, ("-ftls-model=" + model,), kind) for compiler in self.compilers()
                 for model, kind in (("initial-exec", SHARED), ("local-exec", PROGRAMS))]
        ways += [("x86_64-linux-gnu-gcc", ("-mtls-dialect=gnu2",), kind)
                 for kind in (SHARED, OBJECT + ("-fPIC",)) if X86[:1] == ["x86_64-linux-gnu-gcc"]]
        ways += [(compiler, ("-mtls-dialect=trad",), kind) for compiler in ARM
                 for kind in (SHARED, OBJECT + ("-fPIC",))]
        for compiler, flags, kind in ways:
            with self.subTest(compiler=compiler, flags=flags, kind=kind):
                path = self.compile(compiler, "-O0", *flags, *kind)
                self.assertEqual(set(), {"explicit_variable", "explicit_exported"} -
                                 self.names("--calls", "known", path))

    def test_the_user_chooses_which_calls_park(self):
        for compiler in self.compilers():
            with self.subTest(compiler=compiler):
                path = self.compile(compiler, "-O0", *SHARED)
                known = self.names("--calls", "known", path)
                self.assertEqual(known | WITHOUT_CONTEXT, self.names(path))
                self.assertEqual(known | WITHOUT_CONTEXT, self.names("--calls", "any", path))
                self.assertEqual(known | {"over_pointer"}, self.names("--calls", "pointers", path))
                self.assertEqual(known | {"over_unknown"},
                                 self.names("--calls=known", "--parks", "unknown", path))
                self.assertEqual(known | {"over_pointer"}, self.names("--never", "unknown", path))
                self.assertEqual(set(), self.names("--calls=known", "--never", "sn_sleep",
                                                   "--never", "poll", path))

    def test_a_finding_says_what_is_kept_where_and_why(self):
        line = 1 + [text.endswith("/* implicit_sleep parks here */")
                    for text in SHAPES.read_text(encoding="utf-8").splitlines()].index(True)
        for compiler in self.compilers():
            for kind in (OBJECT, SHARED):
                with self.subTest(compiler=compiler, kind=kind):
                    path = self.compile(compiler, "-O2", *kind)
                    rows = {row["function"]: row for row in self.rows("--calls", "known", path)}
                    row = rows["implicit_sleep"]
                    self.assertEqual("errno", row["what"])
                    self.assertEqual("__errno_location", row["found_by"])
                    self.assertEqual(("sn_sleep", []), (row["callee"], row["through"]))
                    self.assertEqual("dereferenced", row["use"])
                    self.assertRegex(row["kept_in"], r"^(rb[xp]|r1[2-5]|x(19|2\d))$")
                    self.assertTrue(row["call"]["line"].endswith(f"shapes.c:{line}"), row)
                    self.assertRegex(rows["implicit_crowded"]["kept_in"],
                                     r"^(the slot (rsp|sp)\+0x[0-9a-f]+|rb[xp]|r1[2-5]|x(19|2\d))$")
                    # How much of it ends up in one function depends on the compiler.
                    self.assertIn("sn_sleep", [rows["implicit_callee"]["callee"],
                                               *rows["implicit_callee"]["through"]])
                    self.assertEqual("ctype", rows["explicit_characters"]["what"])
                    self.assertEqual("h_errno", rows["explicit_host_error"]["what"])
                    self.assertEqual("pthread_self", rows["explicit_self"]["what"])
                    self.assertEqual("looked_at", rows["explicit_compared"]["use"])
                    # The places are in the code: objdump shows the call there.
                    self.assertIn(row["call"]["address"][2:] + ":",
                                  self.disassembly(compiler, path))

    def disassembly(self, compiler, path):
        tool = "aarch64-linux-gnu-objdump" if compiler in ARM else "objdump"
        text = subprocess.run([tool, "-d", path], capture_output=True, text=True,
                              check=True).stdout
        return {line.split()[0] for line in text.splitlines()
                if re.search(r"\t(call|bl)\b", line)}

    def test_how_a_value_is_used_is_said(self):
        for compiler in self.compilers():
            uses = {row["function"]: row["use"] for row in
                    self.rows("--calls", "known", self.compile(compiler, "-O0", *OBJECT))}
            for name, use in (("explicit_passed", "passed"), ("explicit_returned", "returned"),
                              ("explicit_stored", "stored"),
                              ("explicit_variable", "dereferenced")):
                self.assertEqual(use, uses[name], (compiler, name))

    def test_a_stripped_library_is_read_by_its_frames(self):
        for compiler in self.compilers():
            with self.subTest(compiler=compiler):
                path = self.compile(compiler, "-O2", *SHARED)
                bare = self.folder / "bare.so"
                strip = "aarch64-linux-gnu-strip" if compiler in ARM else "strip"
                subprocess.run([strip, "-o", bare, path], check=True)
                self.assertEqual(self.names("--calls", "known", path),
                                 self.names("--calls", "known", bare))
                # A library without symbols of its own.
                hidden = self.compile(compiler, "-O2", "-fvisibility=hidden",
                                      "-Wl,--no-gc-sections", *SHARED)
                subprocess.run([strip, "-o", bare, hidden], check=True)
                rows = self.rows("--calls", "known", bare)
                self.assertEqual(
                    sorted(row["function_address"]
                           for row in self.rows("--calls", "known", hidden)),
                    sorted(row["function_address"] for row in rows))
                for row in rows:
                    self.assertTrue(row["function"].startswith("the function at 0x"), row)

    def test_archives_are_read_member_by_member(self):
        for compiler in self.compilers():
            archive = self.folder / f"{compiler}.a"
            member = self.folder / "first.o"
            shutil.copy(self.compile(compiler, "-O2", *OBJECT), member)
            fresh = self.folder / "second.o"
            shutil.copy(self.compile(compiler, "-O2", "-DFRESH", *OBJECT), fresh)
            subprocess.run(["ar", "rcsD", archive, member, fresh], check=True)
            files = json.loads(run("--json", "--calls=known", archive).stdout)["files"]
            members = files[0]["members"]
            self.assertEqual(["first.o", "second.o"], [each["member"] for each in members])
            for each, path in zip(members, (member, fresh)):
                self.assertEqual(self.rows("--calls=known", path), each["findings"])
            done = run("--calls=known", archive)
            self.assertIn(b".a(first.o): implicit_sleep keeps the address of errno in", done.stdout)
            self.assertEqual(1, done.returncode)


class Command(Compiled):
    def refuse(self, text, *args):
        done = run(*args)
        self.assertEqual(2, done.returncode, done)
        self.assertIn(text, done.stderr.decode())
        self.assertEqual(1, done.stderr.count(b"\n"), done.stderr)
        return done.stdout

    def sample(self, *kind):
        return self.compile(self.compilers()[0], "-O2", *kind)

    def test_usage_errors_say_what_was_expected(self):
        for text, *args in (
                ("no FILE; expected an object",),
                ('unknown option "--nonsense"', "--nonsense", "x"),
                ('--calls: "some"; expected any, pointers or known', "--calls", "some", "x")):
            self.assertEqual(b"", self.refuse(text, *args))

    def test_what_cannot_be_read_is_said(self):
        path = self.folder / "file"
        path.write_bytes(b"")
        self.refuse("file: is empty", path)
        path.write_text("#!/bin/sh\n")
        self.refuse("file: is neither an ELF file nor an archive", path)
        self.refuse("is a directory", self.folder)
        self.refuse("No such file or directory", self.folder / "none")
        self.refuse("is not a regular file", "/dev/null")
        whole = bytearray(self.sample(*SHARED).read_bytes())
        for machine, name in ((3, "i386"), (40, "32-bit ARM"), (243, "RISC-V"),
                              (999, "machine 999")):
            whole[18:20] = machine.to_bytes(2, "little")
            path.write_bytes(whole)
            self.refuse(f"is for {name}; x86_64 and aarch64 can be read", path)
        whole = bytearray(self.sample(*SHARED).read_bytes())
        whole[40:48] = bytes(8)  # where the section headers are
        whole[60:64] = bytes(4)
        path.write_bytes(whole)
        self.refuse("has no section headers", path)

    def test_the_other_files_are_read_when_one_cannot_be(self):
        done = run(self.folder / "none", self.sample(*SHARED))
        self.assertEqual(2, done.returncode)
        self.assertIn(b"implicit_sleep keeps", done.stdout)

    def test_a_cut_file_is_an_error_or_is_read(self):
        path = self.folder / "cut"
        whole = self.sample(*SHARED).read_bytes()
        for n in range(1, len(whole), max(1, len(whole) // 50)):
            path.write_bytes(whole[:n])
            done = run(path)
            self.assertEqual(2, done.returncode, (n, done))
            self.assertIn(b"cut", done.stderr)

    def test_damaged_files_are_no_harm(self):
        kinds = [self.compile(compiler, "-O2", *kind) for compiler in self.compilers()
                 for kind in (OBJECT, SHARED)]
        archive = self.folder / "whole.a"
        subprocess.run(["ar", "rcsD", archive, *kinds[:1]], check=True)
        path = self.folder / "damaged"
        for which, sample in enumerate([*kinds, archive]):
            whole = sample.read_bytes()
            dice = random.Random(SEED * 1000 + which)
            for n in range(ROUNDS):
                bad = bytearray(whole)
                # Anywhere in the file, or where its structure is: at its beginning and its end.
                near = dice.choice((len(bad), 1024, 64))
                for _ in range(dice.choice((1, 1, 4, 64))):
                    at = dice.randrange(min(near, len(bad)))
                    bad[at if dice.random() < 0.5 else -1 - at] ^= 1 << dice.randrange(8)
                path.write_bytes(bad)
                done = run("--calls", dice.choice(("any", "known")), path)
                self.assertIn(done.returncode, (0, 1, 2), (SEED, sample, n, done.stderr[-4000:]))
                self.assertNotIn(b"Sanitizer", done.stderr)
                self.assertNotIn(b"runtime error", done.stderr)
                if done.returncode == 2:
                    self.assertNotEqual(b"", done.stderr)

    def test_a_function_at_address_0_is_no_harm(self):
        whole = bytearray(self.sample(*SHARED).read_bytes())
        start, = struct.unpack_from("<Q", whole, 40)
        size, count, names = struct.unpack_from("<HHH", whole, 58)
        headers = [list(struct.unpack_from("<IIQQQQIIQQ", whole, start + i * size))
                   for i in range(count)]
        for i, (name, kind, _, _, offset, length, *_) in enumerate(headers):
            at = headers[names][4] + name
            if whole[at:whole.index(b"\0", at)] == b".text":
                struct.pack_into("<Q", whole, start + i * size + 16, 0)
            if kind == 2:  # of the symbols all that are functions
                for symbol in range(offset, offset + length, 24):
                    if whole[symbol + 4] & 15 == 2:
                        struct.pack_into("<Q", whole, symbol + 8, 0)
        path = self.folder / "zero"
        path.write_bytes(whole)
        done = run(path)
        self.assertIn(done.returncode, (0, 1, 2), done)
        self.assertNotIn(b"Sanitizer", done.stderr)

    def test_text_and_json_say_the_same(self):
        path = self.sample(*SHARED)
        text = run("--calls=known", path).stdout.decode()
        rows = self.rows("--calls=known", path)
        self.assertEqual(len(rows), text.count(" across a call that may park\n    0x"))
        functions = len({row["function"] for row in rows})
        self.assertRegex(text, rf"\n\S+\.out: {functions} of \d+ functions keep what belongs to a "
                               r"thread across a call that may park\n$")
        for row in rows:
            for place in ("found", "call", "used"):
                self.assertIn(f"    {row[place]['address']} ", text)

    def test_json_has_the_documented_fields(self):
        page = (SOURCE / "docs/tls-check.md").read_text(encoding="utf-8")
        found = json.loads(run("--json", self.sample(*SHARED), self.folder / "none").stdout)
        self.assertEqual(undocumented(found, page), set())

    def test_an_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([*LAUNCHER, str(PROGRAM), "--help"], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(2, done.returncode)
        self.assertIn(b"cannot write: No space left on device", done.stderr)

    def test_help_and_version(self):
        done = run("--help")
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        for line in done.stdout.decode().splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertRegex(run("--version").stdout.decode(), r"^sennit-tls-check \d+\.\d+\.\d+\n$")

    def test_every_option_is_documented_and_completed(self):
        manual = (SOURCE / "packaging/sennit-tls-check.1").read_text(encoding="utf-8")
        completion = (SOURCE / "packaging/sennit-tls-check.bash").read_text(encoding="utf-8")
        found = set(re.findall(r"--[a-z]+", run("--help").stdout.decode()))
        self.assertIn("--calls", found)
        for option in found:
            self.assertIn(option.replace("-", r"\-"), manual)
            self.assertIn(option, completion)


class Lists(unittest.TestCase):
    """The program's lists of calls agree with those of the library."""

    @classmethod
    def setUpClass(cls):
        text = (SOURCE / "tools/tls-check/calls.cc").read_text(encoding="utf-8")
        cls.lists = {name: set(" ".join(re.findall(r'"([^"]+)"', words)).split())
                     for name, words in re.findall(r"^const names (\w+) =\s*words\((.*?)\);$", text,
                                                   re.S | re.M)}

    def test_every_hooked_call_parks_or_is_known_not_to(self):
        exports = (SOURCE / "src/hooks/exports.map").read_text(encoding="utf-8")
        exported = set(re.findall(r"\b(\w+);", exports.split("global:")[1].split("local:")[0]))
        self.assertIn("recv", exported)
        listed = self.lists["hooked"] | self.lists["hooked_without_parking"]
        own = {name for name in exported if name.startswith("sn_")}
        self.assertEqual(exported - own, listed)
        self.assertEqual(set(), self.lists["hooked"] & self.lists["hooked_without_parking"])

    def test_every_call_whose_header_says_so_parks(self):
        parks = self.lists["of_sennit"] - {"sn_arch_switch"}
        declared = set()
        said = set()
        for path in (SOURCE / "include/sennit").glob("*.h"):
            comment = ""
            for part in re.findall(r"/\*.*?\*/|^SN_API [^;]*;", path.read_text(encoding="utf-8"),
                                   re.S | re.M):
                if part.startswith("/*"):
                    comment = re.sub(r"\s*\n \*\s*", " ", part)
                    continue
                name = re.search(r"\b(sn_\w+)\(", part)[1]
                declared.add(name)
                if re.search(r"\b(May|tasks may) park\b", comment) and "_try_" not in name:
                    said.add(name)
        self.assertGreater(len(said), 60)
        self.assertEqual(set(), said - parks)
        self.assertEqual(set(), parks - declared)


if __name__ == "__main__":
    if not PROGRAM.exists():
        print("skipped: sennit-tls-check was not built", file=sys.stderr)
        sys.exit(77)
    sys.exit(unittest.main())
