#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: gate
"""
The documented commands work from a checkout in which nothing was ever built: each target that
`make` lists builds what it runs, and each script reports what is wrong instead of printing a
traceback. What the documents and the first lines of the examples say can be typed.

The targets are not run here, which would take hours; the test only reads their commands.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SENNIT_SOURCE_DIR"])
# These run programs that scripts/as-preset, scripts/test and the like build themselves, or none.
PROGRAM = re.compile(r"build/release/(?:bench|tests|tools|examples)/\S*|bench/\S+\.py")
BUILDS = re.compile(r"cmake --build --preset (?:release|\$preset)|scripts/as-preset")
TAKES_A_BUILD = [path.relative_to(SOURCE) for path in sorted(SOURCE.glob("bench/*/*.py"))]
# Benchmarks whose rows follow the build directory, with an option that may stand between the two.
TAKES_ROWS = {"bench/shared/shared.py": "--procs", "bench/stall/stall.py": "--rounds",
              "bench/tasks/tasks.py": "--rounds"}
PAGES = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").rglob("*.md"))]
EXAMPLES = [path for path in sorted(SOURCE.glob("examples/*.c*")) if path.suffix in (".c", ".cc")]
# Tools that scripts/setup does not install, and their packages.
TOOLS = {"nc": "netcat-openbsd", "dig": "bind9-dnsutils"}


def run(*words, folder=SOURCE, **settings):
    return subprocess.run(words, cwd=folder, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120,
                          env={**os.environ, **settings})


def make(*words, folder=SOURCE, **settings):
    # Not as a part of the make that may run this test.
    return run("env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", *words, folder=folder, **settings)


class Targets(unittest.TestCase):
    def listed(self):
        said = make("help").stdout
        targets = [word for names in re.findall(r"(?m)^make ([\w-]+(?:, [\w-]+)*) ", said)
                   for word in names.split(", ")]
        self.assertGreater(len(targets), 40)
        return [target.replace("PRESET", "release") for target in targets]

    def test_each_builds_what_it_runs(self):
        for target in self.listed():
            with self.subTest(target):
                done = make("-n", target)
                self.assertEqual(done.returncode, 0, done.stdout)
                built = False
                for line in done.stdout.splitlines():
                    # A program in a condition, or after a build in the same line.
                    at = BUILDS.search(line)
                    built = built or bool(at)
                    used = PROGRAM.search(line)
                    if used and not line.startswith("echo"):
                        self.assertTrue(built, f"{used.group()} is used before it is built:\n"
                                        + done.stdout)

    def test_a_benchmark_of_tests_builds_these(self):
        """bench/libraries/libraries.py takes a program that is not there for a library that is not
        installed."""
        said = make("-n", "bench-hooks").stdout
        self.assertLess(said.find("--target hooks-libraries"), said.find("bench/libraries/"), said)
        self.assertIn("--target hooks-libraries", said)

    def test_each_target_is_listed_and_is_no_file(self):
        text = (SOURCE / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
        targets = re.findall(r"(?m)^([a-z][\w-]*):(?!=)", text)
        self.assertGreater(len(targets), 40)
        phony = re.search(r"(?m)^\.PHONY: (.*)$", text)[1].split()
        self.assertEqual([name for name in targets if name not in phony], [])
        listed = self.listed() + ["help"]
        self.assertEqual([name for name in targets if name not in listed], [])

    def test_the_path_of_a_clone_may_have_a_space(self):
        """LD_PRELOAD takes none, so that it names a library which LD_LIBRARY_PATH leads to."""
        text = (SOURCE / "Makefile").read_text(encoding="utf-8")
        self.assertGreater(text.count("$(CURDIR)"), 1)
        self.assertEqual(re.findall(r"(?m)^.*(?<!['\"])\$\((?:CURDIR|PREFIX|DESTDIR)\)/?.*$",
                                    re.sub(r"(?m)^\t@echo .*\n", "", text)), [])
        self.assertEqual(re.findall(r"LD_PRELOAD=\S*/\S*", text), [])

    def test_a_prefix_is_not_a_folder_of_the_clone(self):
        """As PREFIX=~/sennit would be, where the shell does not replace the tilde."""
        with tempfile.TemporaryDirectory() as tools:
            cmake = pathlib.Path(tools) / "cmake"
            cmake.write_text("#!/bin/sh\necho built\nexit 1\n")
            cmake.chmod(0o755)
            done = make("install", "PREFIX=~/a b", PATH=f"{tools}:{os.environ['PATH']}",
                        SENNIT_NO_SETUP="1")
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("built", done.stdout)
            self.assertIn('PREFIX is "~/a b"; expected: a path', done.stdout)

    def test_each_script_that_they_name_is_there(self):
        for target in self.listed():
            for script in re.findall(r"(?<![\w/])(?:scripts|bench)/[\w/.-]+", make("-n", target).stdout):
                with self.subTest(target, script=script):
                    self.assertTrue((SOURCE / script).exists())

    def test_the_dynamic_linker_learns_of_what_is_installed(self):
        for target in ("install", "install-variants"):
            with self.subTest(target):
                *_, last = make("-n", target, "PREFIX=/a b").stdout.splitlines()
                self.assertIn("scripts/after-install '/a b'", last)


class Scripts(unittest.TestCase):
    def test_a_benchmark_that_is_not_built_is_a_sentence(self):
        with tempfile.TemporaryDirectory() as nothing:
            for script in TAKES_A_BUILD:
                with self.subTest(script):
                    done = run("python3", SOURCE / script, nothing, SENNIT_BENCH_PEERS="none")
                    self.assertNotIn("Traceback", done.stdout)
                    self.assertNotEqual(done.returncode, 0, done.stdout)
                    # bench/relay/share.py is given numbers.
                    self.assertRegex(done.stdout, "make benches builds|make build builds|it is built"
                                     "|invalid int value")

    def test_rows_may_follow_an_option(self):
        self.assertEqual(sorted(TAKES_ROWS), [str(each) for each in TAKES_A_BUILD
                                              if 'nargs="*"' in (SOURCE / each).read_text()])
        for script, option in TAKES_ROWS.items():
            with self.subTest(script), tempfile.TemporaryDirectory() as nothing:
                done = run("python3", SOURCE / script, nothing, option, "1", "nonsense")
                self.assertNotIn("unrecognized", done.stdout)
                self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_arguments_that_none_has_are_refused(self):
        for script in ("docs", "deb", "format", "test", "fuzz"):
            with self.subTest(script):
                done = run(SOURCE / "scripts" / script, "--nonsense")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertRegex(done.stdout, rf"(?m)^(usage: )?{script}\b")
        done = run(SOURCE / "scripts" / "no-aslr")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("usage: ", done.stdout)

    def test_a_folder_is_that_of_the_caller(self):
        """scripts/docs and scripts/deb, with tools that only take notes."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            tree, tools, caller = (root / name for name in ("tree", "tools", "caller"))
            for name in ("scripts", "include/sennit", "packaging/debian"):
                (tree / name).mkdir(parents=True)
            for name in ("scripts/docs", "scripts/deb", "include/sennit/base.h"):
                shutil.copy(SOURCE / name, tree / name)
            (tree / "packaging/debian/control").write_text("Maintainer: nobody\n")
            tools.mkdir()
            caller.mkdir()
            packed = "for kind in deb changes buildinfo; do : >../sennit.$kind; done"
            for name, does in (("doxygen", "exit 1"), ("sphinx-build", "exit 1"), ("dh", "exit 1"),
                               ("dpkg-buildpackage", packed)):
                (tools / name).write_text(f"#!/bin/sh\n{does}\n")
                (tools / name).chmod(0o755)
            for script, made in (("docs", ""), ("deb", "sennit.deb")):
                with self.subTest(script):
                    done = run(tree / "scripts" / script, "out " + script, folder=caller,
                               PATH=f"{tools}:{os.environ['PATH']}", GIT_DIR="/nowhere")
                    self.assertTrue((caller / ("out " + script) / made).exists(), done.stdout)
                    self.assertFalse((tree / ("out " + script)).exists())

    def test_files_are_found_without_git(self):
        if not shutil.which(os.environ.get("CLANG_FORMAT", "clang-format-14")):
            self.skipTest("there is no clang-format")
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "scripts").mkdir()
            (root / "build").mkdir()
            shutil.copy(SOURCE / "scripts" / "format", root / "scripts")
            shutil.copy(SOURCE / ".clang-format", root)
            (root / "build" / "ignored.c").write_text("int  x;\n")
            (root / "right.c").write_text("int x;\n")
            done = run(root / "scripts" / "format", "--check", GIT_DIR="/nowhere")
            self.assertEqual(done.returncode, 0, done.stdout)
            (root / "wrong.c").write_text("int  x;\n")
            done = run(root / "scripts" / "format", "--check", GIT_DIR="/nowhere")
            self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_two_do_not_test_in_one_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "scripts").mkdir()
            (root / "build").mkdir()
            shutil.copy(SOURCE / "scripts" / "test", root / "scripts")
            # Its check of the format lasts until the test ends it.
            (root / "scripts" / "format").write_text("#!/bin/sh\necho begun >begun\nexec sleep 60\n")
            (root / "scripts" / "format").chmod(0o755)
            with subprocess.Popen([root / "scripts" / "test", "release"], cwd=root,
                                  start_new_session=True) as first:
                while not (root / "begun").exists() and first.poll() is None:
                    pass
                second = run(root / "scripts" / "test", "release", folder=root)
                os.killpg(first.pid, 9)
            self.assertEqual(second.returncode, 2, second.stdout)
            self.assertIn(f"process {first.pid} tests in this folder", second.stdout)


class Documents(unittest.TestCase):
    def test_the_programs_of_benchmarks_are_built_first(self):
        listed = "".join(path.read_text() for path in sorted(SOURCE.glob("bench/*/CMakeLists.txt")))
        seen = 0
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            for folder, stem in re.findall(r"build/release/bench/(?:(\w+)/)?bench-([\w-]+)", text):
                with self.subTest(page.name, program=stem):
                    seen += 1
                    self.assertTrue("make benches" in " ".join(text.split()),
                                    "the page does not name what builds it: make benches")
                    source = f"{folder}/{stem.removeprefix(folder + '-')}" if folder else stem
                    self.assertTrue(f"(bench-{stem} " in listed
                                    or any(SOURCE.glob(f"bench/{source}.c*")))
        self.assertGreater(seen, 4)

    def test_commands_of_the_documents_can_be_typed(self):
        targets = set(re.search(r"(?m)^\.PHONY: (.*)$", make("-pn", "help").stdout)[1].split())
        seen = set()
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            # In code, after what sets variables.
            for target in re.findall(r"(?:^ {4}|^\$ |`)(?:\w+=\S* |sudo )*make\s+([a-z][\w-]+)", text,
                                     re.M):
                seen.add(target)
                self.assertIn(target, targets, page)
            # A clone has no build directory yet.
            built = re.search(r"cmake --build --preset (\w+)", text)
            if built:
                self.assertIn(f"cmake --preset {built[1]}", text[:built.start()], page)
        self.assertGreater(len(seen), 30)

    def test_the_cases_that_are_named_exist(self):
        seen = 0
        for path in [*PAGES, SOURCE / "Makefile"]:
            text = path.read_text(encoding="utf-8")
            for layer, stem, suite, case in re.findall(
                    r"\b(\w+)/(\w+)/([A-Z]\w+)\.([A-Z]\w+)\b", text):
                seen += 1
                test = SOURCE / "tests" / layer / f"{stem}_test.cc"
                self.assertRegex(test.read_text(encoding="utf-8"), rf"\b{suite}, {case}\b", path)
            for layer, stem, suite in re.findall(
                    r"tests/(\w+)/\w+-(\w+)-test --gtest_filter='(\w+)\.\*'", text):
                seen += 1
                test = SOURCE / "tests" / layer / f"{stem}_test.cc"
                self.assertRegex(test.read_text(encoding="utf-8"), rf"\b{suite}, \w", path)
        self.assertGreater(seen, 2)

    def test_examples_begin_with_a_command_that_can_be_typed(self):
        self.assertGreater(len(EXAMPLES), 20)
        for path in [*EXAMPLES, SOURCE / "examples/http-server/main.cc"]:
            name = "http-server" if path.stem == "main" else path.stem
            text = path.read_text(encoding="utf-8")
            head = text.partition("*/\n/*")[2].partition("*/")[0]
            commands = "\n".join(re.findall(r"(?m)^ \*(?:\t| {4,})(.*)$", head))
            with self.subTest(path.name):
                self.assertRegex(commands, rf"(?<![\w-])example-{name}\b")
                # As the program that the build makes, and not as its source.
                self.assertEqual(re.findall(r'"(usage: (?!%s|example-)\S*)', text), [])
                # A client in the same line would often come before the server listens.
                self.assertNotRegex(commands, r"& \w")
                for tool, package in TOOLS.items():
                    if re.search(rf"(?<![\w-]){tool} ", commands):
                        self.assertIn(package, head)


class Configuring(unittest.TestCase):
    def test_the_source_folder_is_no_build_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / "clone"
            shutil.copytree(SOURCE, root, ignore=shutil.ignore_patterns("build", ".git"))
            before = (root / "Makefile").read_text()
            done = run("cmake", "-G", "Unix Makefiles", ".", folder=root)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("not built in its source folder", done.stdout)
            self.assertEqual(before, (root / "Makefile").read_text())

    def test_a_project_in_c_has_it_as_a_subdirectory(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(user C)\n"
                f"add_subdirectory({SOURCE} sennit)\nadd_executable(user user.c)\n"
                "target_link_libraries(user PRIVATE sennit::sennit)\n"
                "add_executable(other user.c)\n"
                "target_link_libraries(other PRIVATE sennit::sennit-static)\n"
                # Where OpenSSL is installed.
                "foreach(library IN ITEMS tls hooks)\n\tif(TARGET sennit::${library})\n"
                "\t\ttarget_link_libraries(other PRIVATE sennit::${library}-static)\n"
                "\tendif()\nendforeach()\n")
            (root / "user.c").write_text("#include <sennit/sennit.h>\nint main(void) { return 0; }\n")
            done = run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_C_COMPILER={os.environ['CC']}",
                       f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}", folder=root)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
