#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: gate
"""
python_test.py [MODULE...]: CPython's own tests of sockets and of waiting, with and without hooks.

sennit-run turns the interpreter's threads into tasks: its first thread (--main) and all that it
starts. The hooks then see each blocking call of the tests, at both ends if both are threads. The
same tests run in an interpreter without any of this, and each must have the same result. A test
whose results differ is run again, alone, because another load on the machine changes tests that
measure time.

Without arguments, the tests of MODULES run. ALL lists the modules that are known to agree; they
take minutes.

    SENNIT_BUILD_DIR=build/release python3 tests/hooks/python_test.py all
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

MODULES = ["test_socket", "test_select", "test_poll", "test_epoll", "test_selectors",
           "test_timeout", "test_telnetlib"]
ALL = MODULES + ["test_ssl", "test_asyncore", "test_asynchat", "test_ftplib", "test_httplib",
                 "test_httpservers",
                 "test_urllib2_localnet", "test_smtplib", "test_poplib", "test_imaplib",
                 "test_xmlrpc", "test_nntplib", "test_docxmlrpc", "test_time", "test_sched",
                 "test_fileio", "test_wsgiref", "test_popen"]
LEFT_OUT = {
    "nterrupt": "in these tests a signal ends a call, but signals do not end a parked call",
    "VSOCK": "not about hooks: some machines have these sockets, but no peer that answers",
}
SLOW = "NetworkConnectionBehaviourTest"  # 6 s; left out without arguments
PARTS = 3  # at a time, of each kind, because they mostly wait
LEAST = 500  # tests of MODULES that must have run
TRIES = 4


# ---- in the interpreter that is tested ----

def run_part(modules, part, parts, only, path):
    """Runs the tests of each class that falls into the part, or only those named, and writes their
    results to the path."""
    import gc  # pylint: disable=import-outside-toplevel
    import importlib  # pylint: disable=import-outside-toplevel
    import unittest  # pylint: disable=import-outside-toplevel
    import zlib  # pylint: disable=import-outside-toplevel
    from test import support  # pylint: disable=import-outside-toplevel

    support.use_resources = []  # neither the network nor slow tests
    results = {}

    class Result(unittest.TestResult):
        def startTest(self, test):
            super().startTest(test)
            results[test.id()] = "ok"

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            results[test.id()] = "skipped: " + reason

        def addFailure(self, test, err):
            super().addFailure(test, err)
            results[test.id()] = "failed: " + str(err[1])

        def addError(self, test, err):
            super().addError(test, err)
            results[test.id()] = f"error: {err[0].__name__}: {err[1]}"

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err:
                results[test.id()] = f"failed: {err[1]}"

    def cases(suite):
        for each in suite:
            if isinstance(each, unittest.TestSuite):
                yield from cases(each)
            else:
                yield each

    def wanted(test):
        name = test.id()
        if only:
            return name in only
        kind = f"{type(test).__module__}.{type(test).__qualname__}"
        return (zlib.crc32(kind.encode()) % parts == part and
                not any(word in name for word in LEFT_OUT) and
                not (parts > 1 and SLOW in name))

    for name in modules:
        try:
            module = importlib.import_module("test." + name)
        except (ImportError, unittest.SkipTest) as error:
            results[name] = f"not there: {error}"
            continue
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        # Many tests end with a collection, which takes ten times as long as the rest of the test
        # if it looks at what the modules hold.
        gc.collect()
        gc.freeze()
        unittest.TestSuite(filter(wanted, cases(suite))).run(Result())
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file)


# ---- what starts them ----

def interpreter():
    """A Python that has its tests, and whose threads can become tasks."""
    for each in (sys.executable, "/usr/bin/python3"):
        found = subprocess.run([each, "-c", "import test.test_socket"], capture_output=True,
                               check=False)
        if found.returncode == 0:
            return each
    return servers.skip("this Python has no tests of its own (Debian: libpython3-testsuite)")


class Part:
    """A running part."""

    def __init__(self, python, hooked, modules, part, parts, scratch, only=()):
        kind = "hooked" if hooked else "plain"
        self.name = f"{kind} {part + 1}/{parts}"
        self.folder = os.path.join(scratch, f"{kind}{part}")
        os.makedirs(self.folder, exist_ok=True)
        self.results = os.path.join(self.folder, "results")
        if os.path.exists(self.results):
            os.unlink(self.results)
        launcher = []
        if hooked:
            launcher = [f"{servers.BUILD}/tools/run/sennit-run", "--main", "--stats", "--quiet",
                        "--force"]
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [*launcher, python, os.path.abspath(__file__), "--part", str(part), str(parts),
             self.results, ",".join(modules), *only],
            cwd=self.folder, env={**os.environ, "TMPDIR": self.folder}, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=subprocess.STDOUT)

    def finish(self):
        """The part's results, and how often its tasks have parked."""
        try:
            status = self.process.wait(servers.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = f"none after {servers.PATIENCE} s"
            self.process.wait()
        self.log.seek(0)
        log = self.log.read()
        self.log.close()
        if status != 0 or not os.path.exists(self.results):
            servers.fail(f"{self.name}: status {status}: {log[-3000:]}")
        parked = sum(map(int, re.findall(r"^sennit-run: calls parked: (\d+),", log, re.M)))
        with open(self.results, encoding="utf-8") as file:
            return json.load(file), parked


def run_all(python, modules, parts, scratch, only=()):
    """The results without hooks and with them, and how often tasks have parked."""
    found, parked = ({}, {}), 0
    running = [(hooked, Part(python, hooked, modules, part, parts, scratch, only))
               for part in range(parts) for hooked in (False, True)]
    try:
        for hooked, part in running:
            results, count = part.finish()
            found[hooked].update(results)
            parked += count
    finally:
        for _, part in running:
            if part.process.poll() is None:
                part.process.kill()
                part.process.wait()
    return *found, parked


def main():
    modules = sys.argv[1:] or MODULES
    if modules == ["all"]:
        modules = ALL
    python = interpreter()
    with servers.folder() as scratch:
        plain, hooked, parked = run_all(python, modules, PARTS, scratch)
        told = len(plain)
        skipped = sum(each.startswith("skipped") for each in plain.values())
        different = sorted(name for name in plain.keys() | hooked.keys()
                           if plain.get(name) != hooked.get(name))
        for _ in range(TRIES):
            if not different:
                break
            print("again, alone:", *different, sep="\n\t", flush=True)
            plain, hooked, _ = run_all(python, modules, 1, scratch, different)
            different = [name for name in different if plain.get(name) != hooked.get(name)]
    print(f"{python}: {told} tests, {skipped} of them skipped, calls parked {parked} times; left "
          "out:")
    for word, reason in LEFT_OUT.items():
        print(f"\t*{word}*: {reason}")
    for name in different:
        print(f"{name}:\n\twithout hooks: {plain.get(name)}\n\twith hooks: {hooked.get(name)}")
    if different:
        servers.fail(f"{len(different)} tests have other results with hooks")
    if parked == 0:
        servers.fail("no call has parked")
    if not sys.argv[1:] and told - skipped < LEAST:
        servers.fail(f"only {told - skipped} tests have run")


if sys.argv[1:2] == ["--part"]:
    run_part(sys.argv[5].split(","), int(sys.argv[2]), int(sys.argv[3]), sys.argv[6:], sys.argv[4])
else:
    import servers  # pylint: disable=wrong-import-position
    main()
