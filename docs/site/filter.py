#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""filter.py HEADER: prints a public header as Doxygen wants it.

The headers are documentation themselves, in plain comments. The first one of a file is about the
file. One right above a declaration is about that, and about those that follow without an empty
line. So:

 - the first comment after the licence becomes the file's
 - a comment right above code becomes a documentation comment, repeated for each of the declarations
   that it covers. Its text stays as it is: reference.py formats it
 - a comment after a member, on its line, becomes the member's
"""
import re
import sys


def strip(comment):
    """The lines of a comment without its marks."""
    text = "\n".join(comment)
    text = re.sub(r"^\s*/\*+ ?", "", text)
    text = re.sub(r"\s*\*/\s*$", "", text)
    return [re.sub(r"^\s*\* ?", "", line) for line in text.split("\n")]


def document(comment, first=None):
    """A documentation comment that carries the text as it is."""
    return ["/**" + (" " + first if first else ""), "@verbatim", *strip(comment), "@endverbatim", "*/"]


def main():
    lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
    out = []
    about_file = False
    pending = None  # a comment and what is above code
    at = 0
    while at < len(lines):
        line = lines[at]
        if re.match(r"^\s*/\*", line):
            end = at
            while "*/" not in lines[end]:
                end += 1
            comment = lines[at : end + 1]
            at = end + 1
            if "SPDX" in comment[0]:
                out += [""] * len(comment)
            elif not about_file:
                about_file = True
                out += document(comment, "@file")
            elif at < len(lines) and lines[at].strip() and not re.match(
                r"^\s*(/\*|#if|#endif|#else|\})", lines[at]
            ):
                pending = document(comment)
                out += pending
            else:
                out += comment
            continue
        at += 1
        # A declaration that is over, and the next one, which the same comment is about.
        out.append(re.sub(r"(\S.*[;,])\s*/\* (.*)$", r"\1 /**< \2", line))
        if pending and (line.endswith(";") or line.startswith("#define")) and at < len(lines) and re.match(
            r"^\s*(SN_API|#define|typedef|inline|static inline|extern)\b", lines[at]
        ):
            out += pending
        elif not line.strip():
            pending = None
    print("\n".join(out))


if __name__ == "__main__":
    main()
