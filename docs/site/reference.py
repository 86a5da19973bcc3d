#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""reference.py XML SOURCE MAN VERSION: makes the reference and the manual pages.

XML is what Doxygen has read out of the headers. SOURCE gets a page of reStructuredText for each
concept, and an index of them. MAN gets man3: a page for each group of functions that share a
comment, a page for each header, and links from every name.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# The concepts in the order in which a reader meets them. A page has the C header and the C++ header
# of its name. A header that is not listed gets a page of its own at the end.
CONCEPTS = {
    "Tasks": {
        "run": "Starting the runtime",
        "task": "Tasks",
        "scope": "Scopes: groups, cancellation, deadlines",
        "local": "Values of tasks",
        "blocking": "Calls that block, and pinning",
        "hooks": "The C library's calls in tasks",
        "foreign": "For libraries that replace calls",
        "result": "Results in C++",
        "stop_token": "Scopes and std::stop_token",
        "awaitable": "Tasks for coroutines",
    },
    "Between tasks": {
        "channel": "Channels",
        "select": "Select",
        "mutex": "Mutexes",
        "rwlock": "Reader-writer locks",
        "cond": "Condition variables",
        "semaphore": "Semaphores",
        "waitgroup": "Wait groups",
        "barrier": "Barriers",
        "once": "Once",
        "sync": "Locks in C++",
    },
    "Time": {
        "clock": "Clocks",
        "timer": "Timers",
        "time": "Time in C++",
    },
    "Input and output": {
        "tcp": "TCP",
        "resolve": "Names and addresses",
        "process": "Started programs",
        "stream": "Streams",
        "buffered": "Buffered reading and writing",
        "udp": "UDP",
        "unix": "Unix sockets",
        "address": "Addresses",
        "copy": "Copying",
        "relay": "Relaying",
        "tls": "TLS",
        "signal": "Signals",
        "net": "The network in C++",
    },
    "Looking inside": {
        "debug": "Dumps, faults and deadlocks",
        "scan": "Looking at tasks",
        "wait_stats": "Histograms of waits",
        "collector": "Connecting a collector",
        "gc": "The Boehm collector",
        "vdso": "The vDSO",
    },
    "All of it": {
        "base": "Conventions and versions",
        "sennit": "The umbrella headers",
        "sn": "The short name in C++",
        "layer": "Layers on streams",
        "unstable": "What may change without notice",
    },
}


# ---- comments ---------------------------------------------------------------------------------


def blocks(lines):
    """Divides a comment: ("text", words), ("code", lines), ("list", items), ("table", rows)."""
    out = []
    for line in lines:
        kind = out[-1][0] if out else None
        item = re.match(r" *- (\S.*)$", line)
        row = re.match(r" {1,6}(\S.*?) {2,}(\S.*)$", line)
        if not line.strip():
            out.append(("end", [""]))
        elif line.startswith("\t"):
            if len(out) > 1 and kind == "end" and out[-2][0] == "code":
                out.pop()
                out[-1][1].append("")
            if not out or out[-1][0] != "code":
                out.append(("code", []))
            out[-1][1].append(line[1:])
        elif item:
            if len(out) > 1 and kind == "end" and out[-2][0] == "list":
                out.pop()
            if not out or out[-1][0] != "list":
                out.append(("list", []))
            out[-1][1].append(item[1])
        elif kind == "list" and line.startswith(" "):
            out[-1][1][-1] += " " + line.strip()
        elif row:
            if kind != "table":
                out.append(("table", []))
            out[-1][1].append([row[1], row[2]])
        elif kind == "table" and line.startswith("      "):
            out[-1][1][-1][1] += " " + line.strip()
        else:
            if kind != "text":
                out.append(("text", []))
            out[-1][1].append(line.strip())
    return [block for block in out if block[0] != "end"]


def first_sentence(lines):
    """For the NAME of a manual page."""
    words = next((" ".join(words) for kind, words in blocks(lines) if kind == "text"), "")
    sentence = re.split(r"(?<=[a-z)])[.:;] ", words + " ")[0].rstrip(". :;")
    if re.match(r"[A-Z][a-z]", sentence):
        sentence = sentence[0].lower() + sentence[1:]
    return sentence if len(sentence) < 120 else sentence[:117].rsplit(" ", 1)[0] + " ..."


class Rst:
    """Writes blocks as reStructuredText."""

    TOKEN = re.compile(
        r"(?P<call>\bsn_\w+)\(\)|(?P<header>\b\w+)\.(?P<suffix>h|hpp)\b"
        r"|(?P<literal>\b(?:sn|SN|SENNIT)_\w+(?:\.\w+)*(?:=\S*\w)?|(?<![\w-])-E[A-Z]+\b|\bsn::\w+(?:\(\))?)"
    )

    def __init__(self, pages):
        self.pages = pages

    @staticmethod
    def escape(text):
        return re.sub(r"([\\*`|_<>])", r"\\\1", text)

    def inline(self, text):
        out, at = [], 0
        for match in self.TOKEN.finditer(text):
            header = match["header"]
            if header and header not in self.pages:
                continue
            out.append(self.escape(text[at : match.start()]))
            at = match.end()
            if match["call"]:
                role = f":c:func:`{match['call']}`"
            elif header:
                role = f":doc:`{header}.{match['suffix']} <{header}>`"
            else:
                role = f"``{match['literal']}``"
            # It begins and ends only next to spaces and some of the punctuation.
            out.append("\\ " * bool(re.search(r"[^\s'\"(\[{/:-]$", "".join(out))) + role)
            out.append("\\ " * bool(re.match(r"[^\s'\").,:;!?\]}/-]", text[at : at + 1])))
        return "".join(out) + self.escape(text[at:])

    def format(self, lines, indent=""):
        out = []
        for kind, content in blocks(lines):
            if kind == "text":
                out += [self.inline(" ".join(content))]
            elif kind == "list":
                out += [f"- {self.inline(item)}" for item in content]
            elif kind == "table":
                for term, text in content:
                    out += [f"``{term}``", f"   {self.inline(text)}"]
            else:
                out += [".. code-block:: none", "", *("   " + line.expandtabs(8) for line in content)]
            out.append("")
        return [indent + line if line else "" for line in out]


class Roff:
    """Writes blocks for man."""

    @staticmethod
    def escape(text):
        text = text.replace("\\", "\\e").replace("-", "\\-")
        return re.sub(r"^([.'])", r"\\&\1", text)

    def inline(self, text):
        return re.sub(r"\b((?:sn|SN|SENNIT)_\w+)", r"\\fB\1\\fP", self.escape(text))

    def format(self, lines):
        out = []
        for kind, content in blocks(lines):
            if kind == "text":
                out += [".PP", self.inline(" ".join(content))]
            elif kind == "list":
                for item in content:
                    out += [".IP \\(bu 2", self.inline(item)]
            elif kind == "table":
                for term, text in content:
                    out += [".TP", f".B {self.escape(term)}", self.inline(text)]
            else:
                out += [".PP", ".in +4n", ".EX", *(self.escape(x.expandtabs(8)) for x in content),
                        ".EE", ".in"]
        return out


# ---- declarations -----------------------------------------------------------------------------


def text_of(element, path):
    found = element.find(path)
    return "" if found is None else "".join(found.itertext()).strip()


def comment_of(element):
    """The lines of the comment that an element has, [] for none."""
    for path in ("detaileddescription", "briefdescription"):
        found = element.find(path)
        if found is None:
            continue
        verbatim = found.find(".//verbatim")
        if verbatim is not None:
            return verbatim.text.strip("\n").split("\n")
        text = " ".join("".join(found.itertext()).split())
        if text:
            return [text]
    return []


def tidy(text):
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\b(?:static|inline|SN_API|SN_CHECK_RESULT) ", "", text)
    text = re.sub(r"< ", "<", re.sub(r" >", ">", text))
    return re.sub(r"([*&]) (?=\w)", r"\1", text).strip()


class Member:
    """A declaration with its comment."""

    def __init__(self, element):
        self.kind = element.get("kind")
        self.name = text_of(element, "name")
        self.comment = comment_of(element)
        self.file = element.find("location").get("file")
        self.line = int(element.find("location").get("line"))
        kind, args = text_of(element, "type"), text_of(element, "argsstring")
        self.values = []
        if self.kind == "define":
            names = [text_of(each, "defname") for each in element.findall("param")]
            self.declaration = self.name + (f"({', '.join(names)})" if element.find("param") is not None else "")
        elif self.kind == "typedef":
            # A function's type: "int() name(args)", "int(" name ")(args)" or "int" name "(args)".
            returned = re.match(r"typedef (.*?)\(\) *(\w+)(\(.*)", text_of(element, "definition"))
            if returned:
                self.declaration = f"{returned[1]} {returned[2]}{returned[3]}"
            elif re.match(r"(struct|enum|union) ", kind):
                self.declaration = self.name
            else:
                self.declaration = f"{kind} {self.name}{args}"
        elif self.kind == "enum":
            self.declaration = self.name
            self.values = [(text_of(each, "name"), comment_of(each)) for each in element.findall("enumvalue")]
        else:
            params = element.find("templateparamlist")
            template = ""
            if params is not None:
                each = [
                    (text_of(p, "type") + " " + text_of(p, "declname")).strip() for p in params.findall("param")
                ]
                template = f"template <{', '.join(each)}> "
            self.declaration = f"{template}{kind} {self.name}{args}"
        self.declaration = tidy(self.declaration)
        self.declaration = re.sub(r" ?\(\* ?(\w+)\)", r" (*\1)", self.declaration)

    def hidden(self):
        return self.name.lower().startswith("sn_private_") or self.comment == ["not for programs"]


class Class:
    """A structure or class with its members."""

    def __init__(self, compound):
        self.name = text_of(compound, "compoundname").replace("sennit::", "")
        self.kind = compound.get("kind")
        self.comment = comment_of(compound)
        self.file = compound.find("location").get("file")
        self.line = int(compound.find("location").get("line"))
        self.members = [
            Member(each)
            for section in compound.findall("sectiondef")
            for each in section.findall("memberdef")
            if each.get("prot") == "public" and each.get("kind") != "friend"
        ]
        # Doxygen does not say what is in a union without a name; the comment of the structure does.
        self.members = [each for each in self.members if not each.hidden() and "@" not in each.name]


class Header:
    """All that one header declares, in order."""

    def __init__(self, name):
        self.name = name
        self.comment = []
        self.parts = []

    def groups(self):
        """The parts, those of one kind that follow each other under one comment together."""
        out = []
        for part in sorted(self.parts, key=lambda each: each.line):
            last = out[-1][-1] if out else None
            if (
                isinstance(part, Member)
                and isinstance(last, Member)
                and part.comment == last.comment
                and part.kind == last.kind == "function"
            ):
                if part.declaration not in (each.declaration for each in out[-1]):
                    out[-1].append(part)
            else:
                out.append([part])
        return out


def read(folder):
    """The headers by their names, such as "mutex.h"."""
    headers = {}

    def header(file):
        return headers.setdefault(file.split("sennit/", 1)[-1], Header(file.split("sennit/", 1)[-1]))

    for path in sorted(Path(folder).glob("*.xml")):
        for compound in ElementTree.parse(path).getroot().findall("compounddef"):
            kind, name = compound.get("kind"), text_of(compound, "compoundname")
            if kind == "file":
                header(compound.find("location").get("file")).comment = comment_of(compound)
            if kind in ("file", "namespace"):
                for element in compound.iter("memberdef"):
                    member = Member(element)
                    namesake = name in ("std", "sn") or not member.comment and member.file.endswith("hpp")
                    if not member.hidden() and not namesake:
                        header(member.file).parts.append(member)
            elif kind in ("struct", "class"):
                found = Class(compound)
                nested = "::" in found.name
                hidden = found.name.startswith("sn_private_")
                if not hidden and not nested and (found.comment or found.members):
                    header(found.file).parts.append(found)
    for each in headers.values():
        functions = {part.name for part in each.parts if getattr(part, "kind", "") == "function"}
        for part in each.parts:
            part.clashes = part.kind != "function" and part.name in functions
        structs = {part.name for part in each.parts if isinstance(part, Class)}
        each.parts = [
            part for part in each.parts
            if not (isinstance(part, Member) and part.kind == "typedef" and part.name in structs)
        ]
    return headers


# ---- the site ---------------------------------------------------------------------------------


def title(text, mark):
    return [text, mark * len(text), ""]


def c_part(rst, group, out):
    first = group[0]
    if isinstance(first, Class):
        out += [f".. c:struct:: {first.name}", ""] + rst.format(first.comment, "   ")
        for member in first.members:
            out += [f"   .. c:member:: {member.declaration}", ""] + rst.format(member.comment, "      ")
        return
    domain = {"function": "function", "define": "macro", "typedef": "type", "enum": "enum"}.get(
        first.kind, "var"
    )
    lead = f".. c:{domain}:: "
    out += [lead + first.declaration]
    out += [" " * len(lead) + each.declaration for each in group[1:]]
    out += [""] + rst.format(first.comment, "   ")
    for name, comment in first.values:
        out += [f"   .. c:enumerator:: {name}", ""] + rst.format(comment, "      ")


def cpp_part(rst, group, out):
    first = group[0]
    if isinstance(first, Class):
        out += title(f"{first.kind} {first.name}", "~") + rst.format(first.comment)
        bare = [each.declaration for each in first.members if not each.comment]
        for member in first.members:
            if member.comment:
                out += [".. code-block:: cpp", "", f"   {member.declaration};", ""]
                out += rst.format(member.comment)
        if bare:
            out += ["And, as their names say or as in the standard's classes:", ""]
            out += [".. code-block:: cpp", "", *(f"   {each};" for each in bare), ""]
    else:
        out += [".. code-block:: cpp", "", *(f"   {each.declaration};" for each in group), ""]
        out += rst.format(first.comment)


def site(headers, folder):
    stems = sorted({Path(name).stem for name in headers})
    listed = {stem for concepts in CONCEPTS.values() for stem in concepts}
    sections = dict(CONCEPTS, More={stem: stem for stem in stems if stem not in listed})
    rst = Rst(set(stems))
    folder.mkdir(parents=True, exist_ok=True)
    index = title("Reference", "=") + [
        "One page for each concept, with its C header and its C++ header. Conventions that hold for every",
        "call, such as error codes, deadlines and what *may park* means, are in :doc:`base`.", "",
    ]
    for section, concepts in sections.items():
        here = {stem: name for stem, name in concepts.items() if stem in stems}
        if not here:
            continue
        index += title(section, "-")
        index += [".. toctree::", "   :maxdepth: 1", "", *(f"   {stem}" for stem in here), ""]
        for stem, name in here.items():
            out = title(name, "=")
            for header in (each for key, each in sorted(headers.items()) if Path(key).stem == stem):
                cpp = header.name.endswith(".hpp")
                out += title("In C++" if cpp else "In C", "-")
                out += [".. code-block:: c", "", f"   #include <sennit/{header.name}>", ""]
                out += rst.format(header.comment)
                for group in header.groups():
                    # Sphinx takes a structure and a function of one name for the same thing.
                    clash = [".. c:namespace-push:: tag", ""] * group[0].clashes
                    out += clash
                    (cpp_part if cpp else c_part)(rst, group, out)
                    out += [".. c:namespace-pop::", ""] * bool(clash)
            (folder / f"{stem}.rst").write_text("\n".join(out) + "\n", encoding="utf-8")
    (folder / "index.rst").write_text("\n".join(index) + "\n", encoding="utf-8")


# ---- manual pages -----------------------------------------------------------------------------


def manual(headers, folder, version):
    roff = Roff()
    folder.mkdir(parents=True, exist_ok=True)

    def head(name):
        return ['.\\" SPDX-License-Identifier: MIT', f'.TH {roff.escape(name)} 3 "" "sennit {version}"']

    for header in headers.values():
        if header.name.endswith(".hpp") or Path(header.name).stem == "sennit":
            continue
        overview = "sennit-" + Path(header.name).stem
        include = [".nf", f".B #include <sennit/{header.name}>"]
        names = []
        types = []
        for group in header.groups():
            first = group[0]
            constant = first.kind == "define" and "(" not in first.declaration
            if isinstance(first, Class) or first.kind in ("enum", "typedef") or constant:
                types += [".SS " + roff.escape(first.name)] + roff.format(first.comment)
                for member in getattr(first, "members", []):
                    types += [".TP", f".B {roff.escape(member.declaration)}"]
                    types += roff.format(member.comment)[1:] or ["."]
                for value, comment in getattr(first, "values", []):
                    types += [".TP", f".B {roff.escape(value)}"] + (roff.format(comment)[1:] or ["."])
                continue
            page = head(first.name) + [
                ".SH NAME",
                roff.escape(", ".join(each.name for each in group)) + " \\- "
                + roff.escape(first_sentence(first.comment)),
                ".SH SYNOPSIS", *include, "",
                *(roff.escape(each.declaration) + ";" * (each.kind == "function") for each in group),
                ".fi", ".SH DESCRIPTION", *roff.format(first.comment),
                ".SH SEE ALSO", f".BR {roff.escape(overview)} (3)",
            ]
            (folder / f"{first.name}.3").write_text("\n".join(page) + "\n", encoding="utf-8")
            names += [each.name for each in group]
            for each in group[1:]:
                (folder / f"{each.name}.3").write_text(f".so man3/{first.name}.3\n", encoding="utf-8")
        page = head(overview) + [
            ".SH NAME",
            f"{roff.escape(overview)} \\- {roff.escape(first_sentence(header.comment))}",
            ".SH SYNOPSIS", *include, ".fi", ".SH DESCRIPTION", *roff.format(header.comment),
        ]
        if types:
            page += [".SH TYPES AND CONSTANTS", *types]
        if names:
            page += [".SH SEE ALSO", ",\n".join(f".BR {roff.escape(name)} (3)" for name in names[:-1])
                     .replace(",\n", " ,\n") + (" ,\n" if names[1:] else "")
                     + f".BR {roff.escape(names[-1])} (3)"]
        (folder / f"{overview}.3").write_text("\n".join(page) + "\n", encoding="utf-8")


def main():
    xml, source, man, version = sys.argv[1:]
    headers = read(xml)
    site(headers, Path(source) / "reference")
    manual(headers, Path(man) / "man3", version)


if __name__ == "__main__":
    main()
