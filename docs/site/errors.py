#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""errors.py: prints the page of errors by call, which is made from the comments of the headers.

A comment is that of the declarations that follow it without an empty line in between. Its errors are
the names with a minus in front, in their order; where it refers to the errors of another call, the
page does, too.
"""
import re
from pathlib import Path

HEADERS = Path("include/sennit")
FUNCTION = re.compile(r"\bSN_API\b[^;{(]*?\b(sn_[a-z0-9]\w*)\(")
# "as sn_udp_wait()", "those of sn_tcp_listen() for the address", "otherwise as for sn_resolve()"
OTHER = re.compile(r"\b(?:as|of|like|by)(?: by| for| from| in)? (sn_\w+)\(\)")

INTRODUCTION = """# Errors by call

Made from the comments of the headers, which say when each error comes. Calls return a negative errno
value. These hold for every call and are not repeated here: `-EINVAL` for NULL in place of an object,
`-ENOTSUP` for a call that may park outside a task, `-ESRCH` and `-EBADF` for a stale handle
([conventions](reference/base.rst)).
"""


def comments(text):
    """(comment, names of the functions that it is for)"""
    for match in re.finditer(r"/\*((?:(?!\*/).)*)\*/\n((?:(?!\n\n|/\*).)*)", text, re.S):
        names = FUNCTION.findall(match[2])
        if names:
            yield re.sub(r"\s*\n \*\s?", " ", match[1]), list(dict.fromkeys(names))


def rows(text):
    for comment, names in comments(text):
        codes = list(dict.fromkeys(re.findall(r"(?<![\w-])-(E[A-Z][A-Z0-9]+)\b", comment)))
        at = comment.find("-" + codes[0]) if codes else 0
        start = max(comment.rfind(". ", 0, at), 0)
        others = [name for name in dict.fromkeys(OTHER.findall(comment[start:])) if name not in names]
        if codes:
            yield names, codes, others


def main():
    print(INTRODUCTION)
    for path in sorted(HEADERS.glob("*.h")):
        found = list(rows(path.read_text(encoding="utf-8")))
        if not found:
            continue
        print(f"## {path.name}\n\n| call | errors | and those of |\n| --- | --- | --- |")
        for names, codes, others in found:
            print("| " + ", ".join(f"`{name}()`" for name in names) + " | "
                  + ", ".join(f"`-{code}`" for code in codes) + " | "
                  + ", ".join(f"`{name}()`" for name in others) + " |")
        print()


if __name__ == "__main__":
    main()
