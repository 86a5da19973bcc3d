#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pages.py SOURCE: puts README.md and docs/ into SOURCE as the pages of the site.

The README is the first page, followed by the contents, which are those of docs/index.md: each of its
sections is a caption, with the pages that it links to. A page that it does not name is an error. A
page may have a folder of its own name, whose pages it links to. Links to headers lead to the
reference, links to other files of the repository become their names.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\[([^]\[]*)\]\(([^)\s]+)\)")


def pages_of(text):
    """The documents that a text links to, in order, without .md."""
    found = (match[2].partition("#")[0] for match in LINK.finditer(text))
    return list(dict.fromkeys(file[:-3] for file in found
                              if file.endswith(".md") and not re.match(r"[a-z]+:|\.", file)))


def contents(index):
    """Caption to pages."""
    parts = re.split(r"^## (.*)$", index, flags=re.M)[1:]
    found = dict(zip(parts[::2], map(pages_of, parts[1::2])))
    # Made from the headers, by reference.py and errors.py.
    found["Reference"][:0] = ["reference/index", "errors"]
    return found


def tree(caption, pages):
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return "\n```{toctree}\n" + options + "\n".join(pages) + "\n```\n"


def place(text, folder):
    """The document with links as they are in the site. folder: where the document is."""
    up = "" if folder in (Path(), Path("docs")) else "../"

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
            return f"[{words}]({up}reference/{header[1]}.rst)"
        if path == "docs/index.md":
            return f"[{words}]({up}guides.md)"
        if re.match(r"docs/.*\.(md|png)$", path):
            return f"[{words}]({up}{path[5:]}{'#' * bool(anchor)}{anchor})"
        return words if words.startswith("`") or path == "LICENSE" else f"{words} (`{path}`)"

    return LINK.sub(link, text)


def main():
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    captions = contents(Path("docs/index.md").read_text(encoding="utf-8"))
    named = {page for pages in captions.values() for page in pages}
    readme = Path("README.md").read_text(encoding="utf-8")
    (target / "index.md").write_text(
        place(readme, Path()) + "".join(tree(*each) for each in captions.items()), encoding="utf-8")
    for path in sorted(Path("docs").glob("*.md")) + sorted(Path("docs").glob("*/*.md")):
        text = place(path.read_text(encoding="utf-8"), path.parent)
        name = path.relative_to("docs").with_suffix("").as_posix()
        own = [page for page in pages_of(path.read_text(encoding="utf-8"))
               if page.startswith(name + "/")]
        if own:
            text += tree("", own)
        if name == "index":
            text = "---\norphan: true\n---\n" + text
        elif path.parent == Path("docs") and name not in named:
            print(f"docs/index.md: does not name {path.name}", file=sys.stderr)
        to = target / name.replace("index", "guides")
        to.parent.mkdir(exist_ok=True)
        to.with_suffix(".md").write_text(text, encoding="utf-8")
    errors = subprocess.run(["docs/site/errors.py"], check=True, capture_output=True, text=True)
    (target / "errors.md").write_text(errors.stdout, encoding="utf-8")
    for path in Path("docs").glob("*.png"):
        shutil.copy(path, target)


if __name__ == "__main__":
    main()
