# SPDX-License-Identifier: MIT
"""The layers, as the linker sees them: no object file of src/ needs a symbol of a layer above its own.
Those of tools/relay, as the preprocessor sees them: no file includes a header of a layer above its own.

The tables of layers in docs/design.md are the order; this test reads them there. For src/, includes
alone would prove little, since a declaration can stand anywhere. An inline function appears as the
functions that it calls. The relay's sources are compiled several at a time, so its objects show
little.
Within src/, at most MOST_IN_CIRCLE files may reach each other by calls.

Run by hand, it takes the build folder as an argument, and also prints the largest circle of files
that call each other, the largest files, and the longest functions.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("SENNIT_SOURCE_DIR") or os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("SENNIT_BUILD_DIR") or (sys.argv[1] if len(sys.argv) > 1 else "")
CC = os.environ.get("CC", "cc")

# Calls upward that still exist: (file, symbol, file). This list may only get shorter.
KNOWN_CALLS = set()

# So many files of src/ at most reach each other by calls: how work is queued, who is woken for it,
# which processor that thread gets, and which tasks are tied to a thread need each other.
MOST_IN_CIRCLE = 5

# No file of these folders may be longer than this. Long functions are only listed.
MOST_LINES = 600
SHIPPED = ("src", "include", "tools", "examples")
LONG_FUNCTION = 60


def layers():
    """The layers of src/ and of tools/relay/, from the top, as docs/design.md has them;
    CONTRIBUTING.md must refer to it."""
    with open(os.path.join(SOURCE, "docs", "design.md"), encoding="utf-8") as design:
        section = design.read().split("\n## Layers\n")[1].split("\n## ")[0]
    tables = section.split("| folder of `tools/relay` |")
    order = re.findall(r"^\| `([a-z]+)` \|", tables[0], re.MULTILINE)
    of_relay = re.findall(r"^\| `([a-z]+)` \|", tables[1], re.MULTILINE)
    with open(os.path.join(SOURCE, "CONTRIBUTING.md"), encoding="utf-8") as contributing:
        if "docs/design.md#layers" not in contributing.read():
            sys.exit("CONTRIBUTING.md does not refer to docs/design.md#layers")
    for top, named in (("src", order), ("tools/relay", of_relay)):
        folders = {name for name in os.listdir(os.path.join(SOURCE, top))
                   if os.path.isdir(os.path.join(SOURCE, top, name))}
        if set(named) != folders or len(named) != len(folders):
            sys.exit(f"docs/design.md has the layers {named}, {top}/ the folders {sorted(folders)}")
    return order, of_relay


def objects():
    """(source, object) for everything that is compiled from src/; the source is relative to
    src/."""
    top = os.path.join(BUILD, "src")
    for folder, _, names in os.walk(top):
        inner = re.match(r"(.*?)/?CMakeFiles/[^/]*\.dir(?:/(.*))?$", os.path.relpath(folder, top))
        for name in names:
            if inner and name.endswith(".o"):
                source = os.path.normpath(os.path.join(inner[1], inner[2] or "", name[:-2]))
                # CMake keeps the objects of sources that no longer exist.
                if os.path.exists(os.path.join(SOURCE, "src", source)):
                    yield source, os.path.join(folder, name)


def run(*command):
    """What the command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(nm, paths):
    """{object: (the symbols that it needs, those that it defines for others)}"""
    found = {path: (set(), set()) for path in paths}
    needed, defined = set(), set()
    # Of several files, nm prints the name before what is in it. One process for all takes a
    # fortieth of the time of one for each.
    for line in run(nm, *paths).splitlines():
        if line.endswith(":") and line[:-1] in found:
            needed, defined = found[line[:-1]]
        elif line:
            kind, name = line.split()[-2:]
            if kind in "Uwv":
                needed.add(name)
            elif kind.isupper() and name.startswith("sn_"):  # other names replace libc's
                defined.add(name)
    return found


def graph():
    """{source: {symbol needed: source that defines it}}"""
    needs, owner = {}, {}
    nm = run(CC, "-print-prog-name=nm").strip() or "nm"  # an architecture may need its own
    sources = {path: source for source, path in objects()}
    if not sources:
        sys.exit(f"layers_test.py: there are no objects below {BUILD}/src; make build makes them")
    for path, (needed, defined) in symbols(nm, sources).items():
        source = sources[path]
        needs.setdefault(source, set()).update(needed)
        for symbol in defined:
            owner.setdefault(symbol, source)
    return {source: {symbol: owner[symbol] for symbol in sorted(needed)
                     if owner.get(symbol, source) != source}
            for source, needed in needs.items()}


def circles(calls):
    """The sets of files that all reach each other by calls, the largest first."""
    reached = {}
    for start in calls:
        seen, todo = set(), [start]
        while todo:
            for source in calls.get(todo.pop(), {}).values():
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
        reached[start] = seen
    found = {frozenset(other for other in calls
                       if other in reached[start] and start in reached[other])
             for start in calls if start in reached[start]}
    return sorted(found, key=len, reverse=True)


def functions(path):
    """(name, lines) of each function, from its first line to its closing brace."""
    with open(path, encoding="utf-8") as source:
        lines = source.read().split("\n")
    for number, line in enumerate(lines):
        if line != "{":
            continue
        first = number
        while first > 0 and lines[first - 1] and lines[first - 1][0] not in "#} /*":
            first -= 1
        last = lines.index("}", number)
        name = re.search(r"(\w+)\(", " ".join(lines[first:number]))
        yield name[1] if name else "?", last - first + 1


def sources():
    """The files of src/, relative to it."""
    top = os.path.join(SOURCE, "src")
    for folder, _, names in os.walk(top):
        for name in names:
            if name.endswith((".c", ".h", ".S")):
                yield os.path.relpath(os.path.join(folder, name), top)


def check_calls(calls, order):
    """The complaints about calls."""
    level = {layer: number for number, layer in enumerate(order)}
    upward = {(source, symbol, target)
              for source, needed in calls.items() for symbol, target in needed.items()
              if level[target.split("/")[0]] < level[source.split("/")[0]]}
    for source, symbol, target in sorted(upward - KNOWN_CALLS):
        yield f"src/{source} needs {symbol} of src/{target}, which is in a layer above"
    for source, symbol, target in sorted(KNOWN_CALLS - upward):
        yield f"no longer needed in KNOWN_CALLS: {source}, {symbol}, {target}"


def check_circles(found):
    """The complaints about files that call each other."""
    for circle in found:
        if len(circle) > MOST_IN_CIRCLE:
            yield f"{len(circle)} files call each other, more than {MOST_IN_CIRCLE}: {sorted(circle)}"


def check_includes(order):
    """The complaints about the headers that the relay's files include. main.cc is above all
    layers."""
    level = {layer: number for number, layer in enumerate(order)}
    top = os.path.join(SOURCE, "tools", "relay")
    found = 0
    for layer in order:
        for name in sorted(os.listdir(os.path.join(top, layer))):
            if not name.endswith((".cc", ".hpp")):
                continue
            with open(os.path.join(top, layer, name), encoding="utf-8") as text:
                included = re.findall(r'^#include "([^"]+)"', text.read(), re.MULTILINE)
            for header in included:
                other = header.split("/")[0]
                if other not in level:
                    yield f'tools/relay/{layer}/{name} includes "{header}", which names no layer'
                elif level[other] < level[layer]:
                    yield f"tools/relay/{layer}/{name} includes {header}, which is in a layer above"
                found += 1
    if found < 100:
        yield f"only {found} includes in {top}"


def check_lengths():
    """The complaints about long files."""
    for top in SHIPPED:
        for folder, _, names in sorted(os.walk(os.path.join(SOURCE, top))):
            for name in sorted(names):
                if not name.endswith((".c", ".h", ".S", ".cc", ".hpp")):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as text:
                    length = len(text.readlines())
                if length > MOST_LINES:
                    yield (f"{os.path.relpath(path, SOURCE)} has {length} lines, "
                           f"more than {MOST_LINES}")


def main():
    order, of_relay = layers()
    calls = graph()
    if len(calls) < 50:
        sys.exit(f"only {len(calls)} object files in {BUILD}/src")
    lengths, long_functions = {}, []
    for source in sources():
        path = os.path.join(SOURCE, "src", source)
        with open(path, encoding="utf-8") as text:
            lengths[source] = len(text.readlines())
        if source.endswith((".c", ".h")):
            long_functions += [(lines, source, name) for name, lines in functions(path)
                               if lines > LONG_FUNCTION]

    print(f"layers, from the top: {' '.join(order)}; of the relay: {' '.join(of_relay)}")
    found = circles(calls)
    print(f"the largest circle of calls: {len(found[0]) if found else 0} of {len(calls)} files")
    for circle in found:
        print("  circle of", len(circle), *sorted(circle))
    print("the ten largest files:")
    for source in sorted(lengths, key=lengths.get, reverse=True)[:10]:
        print(f"  {lengths[source]:5} src/{source}")
    print(f"functions of more than {LONG_FUNCTION} lines:", "" if long_functions else "none")
    for lines, source, name in sorted(long_functions, reverse=True):
        print(f"  {lines:5} src/{source}: {name}()")
    complaints = [*check_calls(calls, order), *check_circles(found), *check_includes(of_relay), *check_lengths()]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    sys.exit(1 if complaints else 0)


main()
