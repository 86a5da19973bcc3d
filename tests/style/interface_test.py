#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The public C headers keep the conventions that sennit/base.h states.

A script sees names, types and the order of parameters; it does not see what a call does. Each rule
below is a function that takes the parsed headers and yields violations. For every rule there is a
planted violation here, which it must find, so that no rule can stop working unnoticed.

Run by hand, it lists the violations of a folder of headers:

    python3 tests/style/interface_test.py include/sennit
"""
import os
import re
import sys
import tempfile
import unittest
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = Path(os.environ.get("SENNIT_SOURCE_DIR") or HERE.parent.parent)

Parameter = namedtuple("Parameter", "type name")
Function = namedtuple("Function", "file line name result parameters checked text")
Struct = namedtuple("Struct", "file line name fields typedef")
Macro = namedtuple("Macro", "file line name value")

# Programs fill in types whose names end like this, and the types may grow, so they begin with their
# size.
ATTRIBUTES = ("_attr", "_options", "_tuning")
# The library fills these in.
STATISTICS = ("_stats", "_info")
SIZED = ATTRIBUTES + STATISTICS
# The library owns these and passes them to a visitor, so it may append fields.
OF_THE_LIBRARY = {"sn_task_info"}

# The objects that store a deadline, so that another task can move it while a call waits: those with
# a descriptor, and scopes.
STORES_A_DEADLINE = {"stream", "tcp", "unix", "udp", "tcp_listener", "unix_listener", "scope"}

# The error of a writer stays, so that only the flush has to be tested (buffered.h).
MAY_BE_IGNORED = {"sn_writer_write", "sn_writer_print", "sn_writer_vprint"}

# If an object has one of these, each of its siblings must have it, too.
SOCKETS = ("adopt", "local_address", "peer_address", "local", "peer", "cancel", "close", "fd",
           "set_read_deadline", "set_write_deadline")
LISTENERS = ("adopt", "address", "local", "fd", "close")
FAMILIES = {
    "sn_tcp": SOCKETS,
    "sn_unix": ("adopt", "local_address", "peer_address"),
    "sn_udp": SOCKETS,
    "sn_tcp_listener": LISTENERS,
    "sn_unix_listener": ("adopt", "address", "fd", "close"),
}
# Every call on a stream also exists under these names.
STREAMS = ("sn_tcp", "sn_unix")


def without_comments(text):
    """The text with comments and literals blanked, with its lines as they were."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    text = re.sub(r"//[^\n]*", blank, text)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', lambda match: '"' + " " * (len(match[0]) - 2) + '"', text)


def parameter(text):
    """int64_t deadline -> (int64_t, deadline); a function pointer keeps its whole text as type."""
    text = " ".join(text.split())
    match = re.match(r"^(.*?[\s*])([A-Za-z_]\w*)((?:\[[^\]]*\])*)$", text)
    if not match:
        return Parameter(text, "")
    return Parameter((match[1] + "*" * match[3].count("[")).replace(" *", "*").strip(), match[2])


class Headers:
    """What the headers of a folder declare."""

    def __init__(self, folder):
        self.functions, self.structs, self.macros, self.words = [], [], [], []
        for path in sorted(Path(folder).glob("*.h")):
            self.read(path)
        self.names = {function.name for function in self.functions}
        self.names |= {macro.name for macro in self.macros}
        self.handles = {struct.name for struct in self.structs if struct.typedef}

    def read(self, path):
        text = without_comments(path.read_text(encoding="utf-8"))

        def line(position):
            return text.count("\n", 0, position) + 1

        for match in re.finditer(
            r"^#\s*define\s+(\w+)(?:\([^)]*\))?[ \t]*((?:\\\n|[^\n])*)", text, re.M
        ):
            self.macros.append(Macro(path, line(match.start()), match[1], match[2].strip()))
        for match in re.finditer(r"\b[A-Za-z_]\w*", text):
            self.words.append((path, line(match.start()), match[0]))
        code = re.sub(r"^#(?:\\\n|[^\n])*", lambda match: re.sub(r"[^\n]", " ", match[0]), text,
                      flags=re.M)
        for match in re.finditer(r"\b(typedef\s+)?struct\s+(\w+)\s*\{(.*?)^\}", code, re.M | re.S):
            fields = [parameter(each) for each in match[3].split(";") if each.strip()]
            self.structs.append(Struct(path, line(match.start()), match[2], fields, bool(match[1])))
        for match in re.finditer(r"\btypedef\s+struct\s+(\w+)\s+(\w+);", code):
            self.structs.append(Struct(path, line(match.start()), match[2], [], True))
        for match in re.finditer(
            r"^(?:SN_API|(?:extern|static) inline)\b([^;{}=]*?)\b(sn_\w+)"
            r"\(((?:[^()]|\([^()]*\))*)\)([^;{]*)[;{]", code, re.M
        ):
            before, name, parameters, after = match.groups()
            taken = [parameter(each) for each in re.split(r",(?![^()]*\))", parameters)
                     if each.strip() not in ("", "void")]
            checked = "before" if "SN_CHECK_RESULT" in before else ""
            checked = "after" if "SN_CHECK_RESULT" in after else checked
            result = " ".join(before.replace("SN_CHECK_RESULT", "").split()).replace(" *", "*")
            self.functions.append(Function(path, line(match.start()), name, result, taken, checked,
                                           " ".join(match[0].split())))


def ends_with(type_name, endings):
    """The struct of a pointer type when its name ends so, or None."""
    match = re.search(r"\bstruct (sn_\w+)\*?$", type_name)
    return match[1] if match and match[1].endswith(endings) else None


def objects_come_first(headers):
    for function in headers.functions:
        for at, (kind, name) in enumerate(function.parameters):
            match = re.match(r"(?:const )?(?:struct )?(sn_\w+)\*+$", kind)
            if not match or match[1] not in headers.handles or at == 0:
                continue
            first = re.match(r"(?:const )?(?:struct )?(sn_\w+)\*+$", function.parameters[0].type)
            if first and first[1] in headers.handles:
                continue  # a call of that object
            if function.name.startswith(match[1] + "_"):
                yield function, f"{name} is the object of the call, and comes first"
            elif kind.endswith("**") and not function.parameters[0].type.endswith("*"):
                yield function, f"{name} is what the call makes, and comes first"


def deadline_is_last(headers):
    for function in headers.functions:
        for name in [each.name for each in function.parameters[:-1]]:
            if name == "deadline":
                yield function, "the deadline is the last parameter"


def attributes_are_last(headers):
    for function in headers.functions:
        rest = [each for each in function.parameters if each.name != "deadline"]
        for kind, name in rest[:-1]:
            if kind.startswith("const") and ends_with(kind, ATTRIBUTES + ("_ops",)):
                yield function, f"{name} is last, before the deadline if there is one"


def until_has_a_sibling(headers):
    for function in headers.functions:
        has = any(each.name == "deadline" for each in function.parameters)
        if "until" in function.name.split("_"):
            sibling = function.name.replace("_until", "")
            if not has:
                yield function, "_until is for calls with a deadline"
            elif sibling not in headers.names:
                yield function, f"_until is for calls with a sibling without it: {sibling}()"
        setter = re.match(r"sn_(\w+?)_set_(?:\w+_)?deadline$", function.name)
        if setter and setter[1] not in STORES_A_DEADLINE:
            yield function, "only what has a descriptor, and a scope, stores a deadline"


def with_names_the_addition(headers):
    for function in headers.functions:
        if function.name.endswith("_with"):
            yield function, "_with says with what"


def try_is_a_word(headers):
    for function in headers.functions:
        if any(re.match("try.", word) for word in function.name.split("_")):
            yield function, "try is a word of its own: _try_"


def getters_have_one_form(headers):
    for function in headers.functions:
        for kind, _ in function.parameters:
            struct = ends_with(kind, STATISTICS)
            if struct and not kind.startswith("const") and function.name != struct:
                yield function, f"{struct} is filled in by {struct}()"
        if re.search(r"_counters$|_(?:stats|info)_get$", function.name):
            yield function, "statistics are sn_x_stats(struct sn_x_stats *)"
        if function.name.endswith("_get") and function.name[:-3] + "set" not in headers.names:
            yield function, "_get is for what has _set; other getters are a noun"


def done_where_bytes_may_be_lost(headers):
    for function in headers.functions:
        if re.search(r"_(?:all|full|skip)$", function.name) and "ssize_t" in function.result:
            if not any(each == ("size_t*", "done") for each in function.parameters):
                yield function, "says in *done how far it came"


def free_returns_nothing(headers):
    for function in headers.functions:
        if re.search(r"_(?:free|unref)$", function.name) and function.result != "void":
            yield function, "returns void"


def flags_have_one_type(headers):
    for item in headers.functions:
        for kind, name in item.parameters:
            if re.search(r"(?:^|_)flags$", name) and kind != "uint32_t":
                yield item, f"{name} is a uint32_t"
    for item in headers.structs:
        for kind, name in item.fields:
            if re.search(r"(?:^|_)flags$", name) and kind != "uint32_t":
                yield item, f"{item.name}.{name} is a uint32_t"


def alternatives_are_enums(headers):
    def number(value):
        match = re.match(r"^\(?(0x[0-9a-f]+|\d+)(u?)\)?$", value, re.I)
        return (int(match[1], 0), bool(match[2])) if match else None

    groups = {}
    for macro in headers.macros:
        if number(macro.value) and not re.search(r"_(?:MAX|SIZE|MAJOR|MINOR|PATCH)$", macro.name):
            words = macro.name.split("_")
            for length in range(2, len(words)):
                unsigned = number(macro.value)[1]
                key = (macro.file, "_".join(words[:length]), unsigned)
                groups.setdefault(key, []).append(macro)
    told = set()
    for (_, prefix, _), macros in sorted(groups.items(), key=lambda item: -len(item[0][1])):
        values = [number(macro.value) for macro in macros]
        # Bits are distinct powers of two, marked with a u.
        bits = all(unsigned and value and not value & (value - 1) for value, unsigned in values)
        flags = all(unsigned for _, unsigned in values)
        if len(macros) < 2 or bits or flags and prefix.count("_") < 2:
            continue
        first = macros[0]
        numbers = [value for value, _ in values]
        near = max(numbers) - min(numbers) < 2 * len(numbers)
        if near and not told & {macro.name for macro in macros}:
            told |= {macro.name for macro in macros}
            yield first, f"{', '.join(macro.name for macro in macros)}: alternatives are an enum"


def results_are_checked(headers):
    for function in headers.functions:
        if function.checked == "after":
            yield function, "SN_CHECK_RESULT comes after SN_API"
        if function.checked or function.name in MAY_BE_IGNORED or function.result == "void":
            continue
        made = [each.name for each in function.parameters
                if re.match(r"(?:struct )?sn_\w+\*\*$", each.type)]
        if made:
            yield function, f"hands out *{made[0]}: SN_CHECK_RESULT"
        elif function.result.endswith("ssize_t"):
            yield function, "returns how many bytes: SN_CHECK_RESULT"
        elif "try" in function.name.split("_"):
            yield function, "says whether it was done: SN_CHECK_RESULT"


def families_are_complete(headers):
    first = {}
    for function in headers.functions:
        for family in FAMILIES:
            if function.name.startswith(family + "_"):
                first.setdefault(family, function)
    for family, members in FAMILIES.items():
        for member in members:
            if family in first and f"{family}_{member}" not in headers.names:
                yield first[family], f"{family}_{member}() is missing"
    for function in headers.functions:
        member = re.match(r"sn_stream_(\w+)$", function.name)
        for family in STREAMS:
            if member and family in first and f"{family}_{member[1]}" not in headers.names:
                yield function, f"{family}_{member[1]}() is missing"


def what_the_library_allocates_is_a_typedef(headers):
    for function in headers.functions:
        for kind, name in function.parameters:
            match = re.match(r"struct (sn_\w+)\*\*$", kind)
            if match:
                yield function, f"the library allocates *{name}, so {match[1]} is a typedef"


def no_reserved_identifiers(headers):
    told = set()
    for path, line, word in headers.words:
        if re.match(r"(?i)sn\w*__", word) and (path, word) not in told:
            told.add((path, word))
            yield Macro(path, line, word, ""), f"{word}: two underscores are reserved in C++"
    for macro in headers.macros:
        if macro.name.startswith("_"):
            yield macro, f"{macro.name}: a leading underscore is reserved"


def growing_structs_begin_with_their_size(headers):
    for struct in headers.structs:
        if not struct.fields or not struct.name.endswith(SIZED) or struct.name in OF_THE_LIBRARY:
            continue
        kind, name = struct.fields[0]
        if not name.startswith("SN_") and (kind, name) != ("size_t", "size"):
            name = (kind + " " + name).split()
            if name[:2] != ["size_t", "size"]:
                yield struct, f"struct {struct.name} begins with size_t size"
        initializer = struct.name.upper() + "_INIT"
        if initializer not in headers.names:
            yield struct, f"struct {struct.name} has no {initializer}()"


RULES = [value for name, value in list(globals().items())
         if callable(value) and getattr(value, "__code__", None)
         and value.__code__.co_varnames[:1] == ("headers",)]


def violations(folder, rules=None):
    """A line "file:line: rule: what" for each violation."""
    headers = Headers(folder)
    for rule in rules or RULES:
        for item, what in rule(headers):
            name = getattr(item, "name", "")
            said = what if name in what else f"{name}: {what}"
            yield f"{item.file}:{item.line}: {rule.__name__}: {said}"


PLANTED = {
    objects_come_first: [
        "typedef struct sn_egg sn_egg;\n"
        "SN_API SN_CHECK_RESULT int sn_egg_adopt(int fd, sn_egg **egg);",
        "typedef struct sn_egg sn_egg;\nSN_API int sn_egg_boil(const char *how, sn_egg *egg);",
    ],
    deadline_is_last: ["SN_API int sn_boil(int64_t deadline, int n);"],
    attributes_are_last: [
        "SN_API int sn_boil(const struct sn_boil_attr *attr, sn_fn *fn, void *arg);",
        "SN_API int sn_boil(const struct sn_boil_options *options,\n\t\tint n, int64_t deadline);",
    ],
    until_has_a_sibling: [
        "SN_API int sn_boil_until(int n, int64_t deadline);",
        "SN_API int sn_boil(int n);\nSN_API int sn_boil_until(int n, int delimiter);",
        "SN_API int sn_egg_set_deadline(sn_egg *egg, int64_t deadline);",
    ],
    with_names_the_addition: ["SN_API int sn_boil_with(int n);"],
    try_is_a_word: ["SN_API SN_CHECK_RESULT int sn_egg_tryboil(int n);"],
    getters_have_one_form: [
        "SN_API int sn_egg_stats_get(struct sn_egg_stats *stats);",
        "SN_API int sn_egg_counters(int n);",
        "SN_API int sn_egg_get(int n);",
    ],
    done_where_bytes_may_be_lost: [
        "SN_API SN_CHECK_RESULT ssize_t sn_egg_write_all(const void *buf, size_t size);",
    ],
    free_returns_nothing: ["SN_API int sn_egg_free(sn_egg *egg);"],
    flags_have_one_type: [
        "SN_API int sn_boil(unsigned flags);",
        "struct sn_egg {\n\tint n;\n\tint flags; /* of eggs */\n};",
    ],
    alternatives_are_enums: [
        "#define SN_EGG_SOFT 0\n#define SN_EGG_HARD 1",
        "#define SN_EGG_OF_HEN 1u\n#define SN_EGG_OF_DUCK 2u\n#define SN_EGG_OF_GOOSE 3u",
    ],
    results_are_checked: [
        "SN_API int sn_egg_new(sn_egg **egg);",
        "SN_API ssize_t sn_egg_read(void *buf, size_t size);",
        "SN_API int sn_egg_open(int n) SN_CHECK_RESULT;",
        "SN_API int sn_egg_try_boil(int n);",
    ],
    families_are_complete: [
        "SN_API int sn_unix_adopt(int n);",
        "SN_API int sn_stream_fd(int n);\nSN_API int sn_tcp_boil(int n);",
    ],
    what_the_library_allocates_is_a_typedef: [
        "SN_API SN_CHECK_RESULT int sn_egg_new(struct sn_egg **egg);",
    ],
    no_reserved_identifiers: ["struct sn__egg {\n\tint n;\n};", "#define _EGG 1"],
    growing_structs_begin_with_their_size: [
        "struct sn_egg_attr {\n\tint n;\n};\n#define SN_EGG_ATTR_INIT {0}",
        "struct sn_egg_stats {\n\tsize_t size;\n};",
    ],
}

CLEAN = """
/* int sn_boil_with(int64_t deadline, int n); */
typedef struct sn_egg sn_egg;
struct sn_egg_attr {
	size_t size SN_SIZE(struct sn_egg_attr); /* by SN_EGG_ATTR_INIT() */
	uint32_t flags;
};
#define SN_EGG_ATTR_INIT(...) {.size = sizeof(struct sn_egg_attr), __VA_ARGS__}
#define SN_EGG_MAX 1
#define SN_EGG_FLAG_A 1u
#define SN_EGG_FLAG_B 2u
SN_API SN_CHECK_RESULT int sn_egg_new(sn_egg **egg, void (*boil)(void *arg, int64_t deadline),
				      const struct sn_egg_attr *attr, int64_t deadline);
SN_API int sn_egg_boil(sn_egg *egg);
SN_API int sn_egg_boil_until(sn_egg *egg, int64_t deadline);
SN_API void sn_egg_free(sn_egg *egg);
"""


class Interface(unittest.TestCase):
    def planted(self, text, rules=None):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "egg.h").write_text(text + "\n", encoding="utf-8")
            return list(violations(folder, rules))

    def test_the_headers_keep_the_conventions(self):
        found = list(violations(SOURCE / "include/sennit"))
        if found:
            self.fail(f"{len(found)} violations\n" + "\n".join(found))

    def test_every_declaration_is_read(self):
        headers = Headers(SOURCE / "include/sennit")
        text = "".join(without_comments(path.read_text(encoding="utf-8"))
                       for path in (SOURCE / "include/sennit").glob("*.h"))
        kinds = r"^(?:extern )?(?:SN_API|(?:extern|static) inline)\b"
        declared = len(re.findall(kinds, text, re.M))
        variables = len(re.findall(r"^extern SN_API\b", text, re.M))
        self.assertEqual(len(headers.functions), declared - variables)
        self.assertGreater(len(headers.structs), 50)

    def test_each_growing_structure_has_a_program_of_an_older_header(self):
        grows = {struct.name for struct in Headers(SOURCE / "include/sennit").structs
                 if struct.fields and struct.name.endswith(SIZED)} - OF_THE_LIBRARY
        tests = "".join(path.read_text(encoding="utf-8")
                        for path in (SOURCE / "tests").rglob("*_test.cc"))
        tested = set(re.findall(r"expect_(?:takes|gives)<(?:struct )?(sn_\w+)", tests))
        self.assertGreater(len(grows), 10)
        self.assertEqual(set(), grows - tested)

    def test_each_rule_finds_what_is_planted(self):
        self.assertEqual(set(PLANTED), set(RULES))
        for rule, texts in PLANTED.items():
            for text in texts:
                with self.subTest(rule=rule.__name__, text=text):
                    found = self.planted(text, [rule])
                    self.assertTrue(found)
                    self.assertRegex(found[0], rf"/egg\.h:[1-9]\d*: {rule.__name__}: ")

    def test_what_is_right_is_not_reported(self):
        self.assertEqual(self.planted(CLEAN), [])


if __name__ == "__main__":
    if len(sys.argv) == 2 and Path(sys.argv[1]).is_dir():
        listed = list(violations(sys.argv[1]))
        print("\n".join(listed))
        sys.exit(bool(listed))
    sys.exit(unittest.main())
