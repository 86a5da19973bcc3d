#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Labels: nightly
"""The site and the manual pages are complete.

scripts/docs builds them without a warning, so every public name has a comment. Every function that
the headers declare has a manual page, which man formats without a warning. No link of the site is
dead. Names that begin with sn_private_ are not for programs.
"""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
from pathlib import Path

SOURCE = Path(os.environ["SENNIT_SOURCE_DIR"])


class Page(html.parser.HTMLParser):
    """The links of a page, and the targets that it has."""

    def __init__(self, path):
        super().__init__()
        self.links = set()
        self.anchors = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and tag != "form" and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


class Documentation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)
        result = subprocess.run([SOURCE / "scripts/docs", cls.folder], capture_output=True, text=True,
                                check=False)
        if result.returncode != 0 or result.stderr:
            raise AssertionError(f"scripts/docs exited with {result.returncode}:\n{result.stderr}")

    def test_the_errors_of_a_call_are_on_one_page(self):
        page = (self.folder / "source/errors.md").read_text(encoding="utf-8")
        row = re.search(r"^\| `sn_tcp_connect\(\)` \|.*$", page, re.M)[0]
        for error in ("-ETIMEDOUT", "-ECANCELED", "-ECONNREFUSED", "`sn_tcp_listen()`"):
            self.assertIn(error, row)
        # Functions that share a comment share a row.
        self.assertRegex(page, r"\| `sn_tcp_local_address\(\)`, `sn_tcp_peer_address\(\)` \|")
        self.assertGreater(page.count("\n| `sn_"), 100)
        self.assertTrue((self.folder / "html/errors.html").exists())

    def test_every_function_has_a_manual_page(self):
        headers = "".join(path.read_text(encoding="utf-8")
                          for path in (SOURCE / "include/sennit").rglob("*.h"))
        functions = re.findall(r"^SN_API [^;(]*\b(sn_(?!private_)\w+)\(", headers, re.M)
        self.assertGreater(len(functions), 50)
        missing = [name for name in functions if not (self.folder / f"man/man3/{name}.3").exists()]
        self.assertEqual(missing, [])
        for page in ("sennit-relay.1", "sennit-run.1", "sennit-trace.1", "sennit-tls-check.1"):
            self.assertTrue((self.folder / "man/man1" / page).exists(), page)
        self.assertTrue((self.folder / "man/man5/sennit-relay.toml.5").exists())

    def test_man_formats_the_pages(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        # One process for all: starting groff takes longer than formatting a page. A warning names
        # its page.
        pages = sorted((self.folder / "man").glob("*/*"))
        self.assertGreater(len(pages), 50)
        result = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *pages],
                                cwd=self.folder / "man", capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_functions_can_be_searched(self):
        index = (self.folder / "html/searchindex.js").read_text(encoding="utf-8")
        for name in ("sn_go", "sn_chan_send", "sn_tcp_read"):
            self.assertIn(name, index)

    def test_no_link_is_dead(self):
        pages = {path: Page(path) for path in (self.folder / "html").rglob("*.html")}
        self.assertGreater(len(pages), 40)
        dead = []
        for path, page in pages.items():
            for link in page.links:
                url = urllib.parse.urlsplit(link)
                if url.scheme or url.netloc:
                    continue
                target = path
                if url.path:
                    target = Path(os.path.normpath(path.parent / urllib.parse.unquote(url.path)))
                anchor = urllib.parse.unquote(url.fragment)
                if not target.exists() or (
                    anchor and target in pages and anchor not in pages[target].anchors
                ):
                    dead.append(f"{path.relative_to(self.folder)}: {link}")
        self.assertEqual(dead, [])


def missing():
    """The program that is not installed here; "" if all are."""
    for tool in ("doxygen", "sphinx-build"):
        if not shutil.which(tool):
            return tool
    for module in ("furo", "myst_parser"):
        if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True,
                          check=False).returncode:
            return module
    return ""


if __name__ == "__main__":
    if missing():
        print(f"skipped: {missing()} is not installed; scripts/setup docs installs it", file=sys.stderr)
        sys.exit(77)
    sys.exit(unittest.main())
