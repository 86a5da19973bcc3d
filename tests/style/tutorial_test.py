#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/tutorial.md works: what a reader saves and types is saved and typed here, in its order.

A block of C, C++ or CMake is a file: the text above it names it last, in backquotes, and ends with
a colon. A block without an #include replaces the function of that name in the file. A block
"console" is a dialogue with one shell: each command after "$ " must succeed and print the lines
below it. A line of "..." stands for any lines, and "..." in a line for any text. After
<!-- numbers vary --> any number matches any other one.

Three things differ from a reader's. "make install" installs this build, instead of making one. The
port is a free one. The shell is not interactive, so its jobs have no numbers. The shell prints to a
terminal, where programs flush each line, and all that it starts ends with the test.
"""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from ports import free_port  # noqa: E402

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])
BUILD = Path(os.environ["SENNIT_BUILD_DIR"])
PAGE = SOURCE / "docs/tutorial.md"
PORT = "7000"
PATIENCE = 120 # seconds until a test says what was not printed, instead of being ended itself

BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
VARY = "<!-- numbers vary -->"
WITH = re.compile(r"<!-- with:(?:(?!-->).)*-->\s*\Z", re.S) # for samples_test.py
ANY = "..."
NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
FUNCTION = r"^[a-z][^\n]*\b{name}\([^\n]*\)\n\{{\n.*?^\}}\n"
END = "--- end of a command:"
# What a shell that is not interactive says of a job that a signal has ended.
JOB = re.compile(r"^\S*bash: line \d+: +\d+ Terminated .*\n", re.M)


class Mistake(Exception):
    """The page, or what it shows, is wrong; with the line of the page."""


def matches(expected, printed, numbers_vary=False):
    """Whether the lines of the page describe what was printed."""
    pattern = ""
    for line in expected.splitlines():
        if line == ANY:
            pattern += r"(?:.*\n)*?"
            continue
        if numbers_vary:
            line = NUMBER.sub("\0", line)
        line = re.escape(line).replace(re.escape(ANY), ".*")
        pattern += line.replace(re.escape("\0"), f"(?:{NUMBER.pattern})") + r"\n"
    return re.fullmatch(pattern, printed) is not None


def dialogue(body):
    """(line, command, what it prints) of a block; line: from the block's first, which is 0."""
    found = []
    for number, line in enumerate(body.splitlines()):
        if line.startswith("$ "):
            found.append([number, line[2:], ""])
        elif found:
            found[-1][2] += line + "\n"
        else:
            raise Mistake("a block begins with what is printed")
    return found


def put_into(text, function):
    """The text of a file in which the function replaces the one with the same name."""
    name = re.match(r"[a-z][^\n(]*\b(\w+)\(", function)
    if not name:
        raise Mistake("a block is neither a file nor a function")
    text, count = re.subn(FUNCTION.format(name=name[1]), lambda _: function, text,
                          flags=re.M | re.S)
    if count != 1:
        raise Mistake(f"the file has {name[1]}() {count} times")
    return text


class Shell:
    """One bash, as a reader has one terminal."""

    def __init__(self, home):
        self.home = home
        environment = {name: value for name, value in os.environ.items()
                       if not re.match(r"SENNIT_|CFLAGS$|LD_|PKG_CONFIG|CMAKE_PREFIX", name)}
        environment.update(HOME=str(home), LC_ALL="C")
        self.terminal, other = pty.openpty()
        self.bash = subprocess.Popen(["bash", "--norc"], cwd=home, env=environment, text=True,
                                     stdin=subprocess.PIPE, stdout=other, stderr=other,
                                     start_new_session=True)
        os.close(other)
        self.pending = ""
        install = f'cmake --install "{BUILD}" --prefix "$HOME/sennit"'
        self.send(f'make() {{ [ "$*" = "install PREFIX=$HOME/sennit" ] && {install}; }}\n')

    def send(self, text):
        self.bash.stdin.write(text)
        self.bash.stdin.flush()

    def read(self):
        """More of what is printed; False if there has been none for too long."""
        if not select.select([self.terminal], [], [], PATIENCE)[0]:
            return False
        try:
            more = os.read(self.terminal, 1 << 16)
        except OSError: # the shell has ended
            return False
        self.pending += more.decode(errors="replace").replace("\r", "")
        return True

    def run(self, command, expected, numbers_vary):
        """Waits for the command's end and for what it should print, which may come after that."""
        self.send(f"{{ {command}\n}} </dev/null\necho '{END}' $?\n")
        status = None
        while True:
            if status is None and (end := re.search(END + r" (\d+)\n", self.pending)):
                status = int(end[1])
                self.pending = self.pending[:end.start()] + self.pending[end.end():]
                if status != 0:
                    raise Mistake(f"exit status {status} of: {command}\n{self.pending}")
            self.pending = JOB.sub("", self.pending)
            if status == 0 and matches(expected, self.pending, numbers_vary):
                self.pending = ""
                return
            # Whole lines, as many as expected, do not become right by waiting.
            enough = ANY not in expected and self.pending.endswith("\n") and (
                self.pending.count("\n") >= expected.count("\n"))
            if (status == 0 and enough) or not self.read():
                raise Mistake(f"{command}\nprints\n{self.pending}instead of\n{expected}")

    def end(self):
        """Ends the shell and all that it has started, which are a session of their own."""
        self.bash.stdin.close()
        os.killpg(self.bash.pid, signal.SIGKILL)
        self.bash.wait()
        os.close(self.terminal)


def follow(text, home):
    """Does what the page says, in the order in which it says it."""
    files = {} # name: text; they are in the folder that the shell is in
    shell = Shell(home)
    folder = home / "first"
    done = {"files": 0, "functions": 0, "commands": 0}
    try:
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 2
            above = WITH.sub("", text[:block.start()]).rstrip("\n").rpartition("\n\n")[2]
            try:
                if block["language"] == "console":
                    for number, command, printed in dialogue(block["body"]):
                        line = text.count("\n", 0, block.start()) + 2 + number
                        shell.run(command, printed, above == VARY)
                        done["commands"] += 1
                    continue
                names = re.findall(r"`([\w-]+\.(?:c|cc|txt))`", above)
                if not names or not above.endswith(":"):
                    raise Mistake("a block that no file is named for")
                name = names[-1]
                if block["language"] == "cmake" or "#include" in block["body"]:
                    files[name] = block["body"]
                    done["files"] += 1
                else:
                    files[name] = put_into(files.get(name, ""), block["body"])
                    done["functions"] += 1
                (folder / name).write_text(files[name], encoding="utf-8")
            except Mistake as mistake:
                raise Mistake(f"{PAGE}:{line}: {mistake}") from None
    finally:
        shell.end()
    return done


class Tutorial(unittest.TestCase):
    def follow(self, text):
        with tempfile.TemporaryDirectory() as home:
            return follow(text, Path(home))

    def test_each_step_works_and_prints_what_it_says(self):
        missing = [tool for tool in ("socat", "pkg-config") if not shutil.which(tool)]
        if missing:
            self.skipTest(f"not installed: {missing}")
        text = PAGE.read_text(encoding="utf-8")
        self.assertGreater(text.count(PORT), 10)
        done = self.follow(text.replace(PORT, str(free_port())))
        self.assertEqual(done["files"] + done["functions"] + text.count("```console"),
                         len(BLOCK.findall(text)))
        self.assertGreater(done["files"], 5)
        self.assertGreater(done["functions"], 1)
        self.assertGreater(done["commands"], 40)


class Checker(unittest.TestCase):
    """Mistakes that are planted in a page are found."""

    def mistake(self, *console, before=""):
        text = before + "```console\n" + "\n".join(console) + "\n```\n"
        with tempfile.TemporaryDirectory() as home:
            (Path(home) / "first").mkdir()
            with self.assertRaises(Mistake) as raised:
                follow(text, Path(home))
        return str(raised.exception)

    def test_output_that_differs_is_found_with_its_line(self):
        said = self.mistake("$ echo a", "a", "$ echo b", "c")
        self.assertIn("tutorial.md:4: echo b\nprints\nb\ninstead of\nc\n", said)

    def test_output_that_the_page_does_not_show_is_found(self):
        self.assertIn("echo a", self.mistake("$ echo a"))
        self.assertIn("echo a", self.mistake("$ echo a; echo b", "a"))

    def test_a_command_that_fails_is_found(self):
        self.assertIn("exit status 1 of: false", self.mistake("$ false"))

    def test_a_file_without_a_name_is_found(self):
        said = self.mistake("$ true", before="Save this:\n\n```c\n#include <stdio.h>\n```\n")
        self.assertIn("a block that no file is named for", said)

    def test_a_function_that_is_not_there_is_found(self):
        block = "```c\nint f(void)\n{\n}\n```\n"
        said = self.mistake("$ true", before="In `a.c`, replace `f()`:\n\n" + block)
        self.assertIn("the file has f() 0 times", said)

    def test_a_function_takes_the_place_of_the_other_one(self):
        text = "int a(void)\n{\n\treturn 1;\n}\n\nint b(void)\n{\n}\n"
        self.assertEqual(put_into(text, "int a(void)\n{\n}\n"),
                         "int a(void)\n{\n}\n\nint b(void)\n{\n}\n")

    def test_only_numbers_vary_and_only_where_the_page_says_so(self):
        self.assertTrue(matches("3 tasks\n", "3 tasks\n"))
        self.assertFalse(matches("3 tasks\n", "4 tasks\n"))
        self.assertTrue(matches("3 tasks\n", "41 tasks\n", numbers_vary=True))
        self.assertFalse(matches("3 tasks\n", "41 locks\n", numbers_vary=True))
        self.assertTrue(matches("at 0x1f (...)\n", "at 0x2ab (here)\n", numbers_vary=True))
        self.assertTrue(matches("a\n...\nb\n", "a\nx\ny\nb\n"))
        self.assertTrue(matches("a\n...\n", "a\n"))
        self.assertFalse(matches("a\n...\nb\n", "a\nx\n"))


if __name__ == "__main__":
    sys.exit(unittest.main())
