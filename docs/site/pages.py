#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pages.py SOURCE: puts README.md and docs/*.md into SOURCE as the pages of the site.

The README is the first page, followed by the contents. Links to headers lead to the reference, links
to other files of the repository become their names.
"""
import re
import shutil
import sys
from pathlib import Path

CONTENTS = {
    "Start": ["install", "from-go", "from-pthreads", "from-libuv", "faq", "guarantees"],
    "Guides": ["channels", "sync", "blocking", "foreign", "hooks", "stacks", "streams", "names",
               "udp", "unix", "programs", "copy", "tls", "http", "clock", "gc", "tools",
               "tls-check", "tracing", "profiling", "kernels"],
    "Reference": ["reference/index"],
    "sennit-relay": ["relay", "relay-operation"],
    "Inside": ["design", "waiting", "tasks", "scale"],
}


def place(text, folder):
    """The document with links as they are in the site. folder: where the document is."""

    def link(match):
        words, target = match[1], match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        file, _, anchor = target.partition("#")
        path = (folder / file).as_posix()
        while re.search(r"[^/]+/\.\./", path):
            path = re.sub(r"[^/]+/\.\./", "", path, count=1)
        header = re.match(r"include/sennit/(?:.*/)?(\w+)\.hp?p?$", path)
        if header:
            return f"[{words}](reference/{header[1]}.rst)"
        if path == "docs/index.md":
            return f"[{words}](guides.md)"
        if re.match(r"docs/[^/]*\.(md|png)$", path):
            return f"[{words}]({path[5:]}{'#' * bool(anchor)}{anchor})"
        return words if words.startswith("`") or path == "LICENSE" else f"{words} (`{path}`)"

    return re.sub(r"\[([^]\[]*)\]\(([^)\s]+)\)", link, text)


def main():
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    contents = ""
    for caption, pages in CONTENTS.items():
        contents += "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n" + "\n".join(pages) + "\n```\n"
    readme = Path("README.md").read_text(encoding="utf-8")
    (target / "index.md").write_text(place(readme, Path()) + contents, encoding="utf-8")
    for path in Path("docs").glob("*.md"):
        text = place(path.read_text(encoding="utf-8"), Path("docs"))
        if path.name == "index.md":
            text = "---\norphan: true\n---\n" + text
        (target / path.name.replace("index", "guides")).write_text(text, encoding="utf-8")
    for path in Path("docs").glob("*.png"):
        shutil.copy(path, target)


if __name__ == "__main__":
    main()
