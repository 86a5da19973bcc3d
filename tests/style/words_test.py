#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Comments, documents and messages use the words of CONTRIBUTING.md ("The language").

WORDS have a better word in every sense in which this tree has used them: one of them is a failure.
RATCHET has words that are right in one sense and misleading in another ("behind" a queue, "behind"
for "after"). Only a reader can tell which one is meant, so these are counted: no folder may have
more of them than the table LEFT allows. Whoever rewords some lowers the numbers; nobody raises them
to get a commit through.

A phrase is found across the end of a line. In C, C++, Promela and Python only comments and strings
are looked at, since identifiers have names of their own; in all other files everything is.

By hand, without a build:

    python3 tests/style/words_test.py              the test
    python3 tests/style/words_test.py --list src   each word of RATCHET under src/, with its place
    python3 tests/style/words_test.py --table      LEFT as it would be now
"""
import bisect
import fnmatch
import functools
import io
import os
import re
import subprocess
import sys
import tokenize
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SENNIT_SOURCE_DIR") or Path(__file__).resolve().parents[2])

# What is not to be said, and what to say instead.
WORDS = [
    (r"for ever", "forever, or without a limit, or until ..."),
    (r"heed(?:s|ed|ing)?", "honour, obey or react to; not heed: ignore"),
    (r"anew", "again, afresh, or from the beginning"),
    (r"of ours", "name the owner: sennit's, the library's, the caller's"),
    (r"be it", "whether ... or, or: such as"),
    (r"but for", "except, or except for"),
    (r"the former", "name it; before a noun: the previous"),
    (r"the latter", "name it"),
    (r"told from", "distinguished from"),
    (r"told apart", "distinguished"),
    (r"had better", "should"),
    (r"what (?:comes|came|has come|will come) of", "the result of, or what happened to"),
]

# Legitimate in one sense; what to say in the other.
RATCHET = {
    "at once": "immediately; or: at the same time",
    "behind": "after",
    "by then": "before that, or until then",
    "goes on": "continues",
    "meanwhile": "say during what: while the lock is released",
    "told": "reported, notified, or distinguished",
}

# How many of them are left. The numbers may only get smaller.
LEFT = {
    ".": {"at once": 1, "behind": 1},
    "bench": {"at once": 7, "behind": 1, "told": 1},
    "docs": {"at once": 11, "behind": 15, "goes on": 1, "meanwhile": 8},
    "include": {"behind": 6},
    "models": {"behind": 2, "meanwhile": 1},
    "packaging": {"behind": 1, "meanwhile": 1},
    "scripts": {"behind": 3, "meanwhile": 1},
    "src": {"at once": 5, "behind": 14, "meanwhile": 4},
    "tests": {"at once": 8, "behind": 28, "by then": 1, "goes on": 2, "meanwhile": 3, "told": 6},
    "tools": {"at once": 1, "behind": 5, "meanwhile": 4, "told": 2},
}

# Files that are not looked at, and why; a name that ends with / is a folder.
EXCEPT = {
    "LICENSE": "a legal text",
    "tests/style/words_test.py": "names the words",
    "CONTRIBUTING.md": "names the words",
    "fuzz/": "seeds are input, except LOOKED_AT_IN_FUZZ",
}
LOOKED_AT_IN_FUZZ = (".cc", ".hpp", ".md", ".txt")
C_LIKE = (".c", ".h", ".cc", ".hpp", ".pml", ".S", ".rs", ".go", ".js", ".java")

C_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |R"(?P<mark>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=mark)"
    |"(?P<string>(?:[^"\\\n]|\\.)*)"
    |(?<![0-9a-zA-Z_])'(?:[^'\\\n]|\\.)+'""",
    re.S | re.X,
)
# What stands at the beginning of a line of a comment, and is not part of the sentence.
LEADER = re.compile(r"^[ \t]*(?://+|/\*+|\*+/?|#+|>|\.\\\")?[ \t]*")


def blank(text):
    """The text as spaces, with its lines."""
    return re.sub(r"[^\n]", " ", text)


def c_prose(text):
    """Only the comments and strings of a C file, the rest blank. Two strings, or a string and a
    comment, do not make a sentence together, unless the compiler joins them."""
    parts, end = [], 0
    for match in C_TOKEN.finditer(text):
        between = text[end:match.start()]
        # A code character between two of them ends the sentence.
        parts.append(re.sub(r"[^\s]", "\0", between))
        if match["string"] is not None:
            # An #include names a file.
            line = text.rfind("\n", 0, match.start()) + 1
            include = text[line:match.start()].lstrip().startswith("#")
            parts.append(blank(match[0]) if include else " " + match["string"] + " ")
        elif match["comment"] is not None:
            block = match["comment"].startswith("/*")
            parts.append(match[0][:-2] + "\0\0" if block else match[0])
        else:
            parts.append(match[0] if match["raw"] is not None else blank(match[0]))
        end = match.end()
    return "".join(parts) + blank(text[end:])


def python_prose(text):
    """Only the comments and strings of a Python file, the rest blank."""
    lines = text.splitlines(keepends=True)
    kept = [blank(line) for line in lines]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return text
    for token in tokens:
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            continue
        (first, left), (last, right) = token.start, token.end
        for number in range(first, last + 1):
            line = lines[number - 1]
            begin = left if number == first else 0
            end = right if number == last else len(line)
            kept[number - 1] = kept[number - 1][:begin] + line[begin:end] + kept[number - 1][end:]
    return "".join(kept)


def prose(name, text):
    """The text of a file in which words are looked for. It has the lines of the file."""
    if name.endswith(C_LIKE):
        return c_prose(text)
    if name.endswith(".py"):
        return python_prose(text)
    return text


@functools.cache  # both tests look at each file
def sentences(name, text):
    """The prose with its lines joined by spaces, and the offsets at which the lines begin."""
    joined, starts, at = [], [], 0
    for line in prose(name, text).split("\n"):
        line = LEADER.sub("", line).rstrip() + " "
        starts.append(at)
        joined.append(line)
        at += len(line)
    return "".join(joined), starts


def uses(name, text, phrases):
    """(line, what was found, the phrase) for each use of one of the phrases."""
    phrases = list(phrases)
    # One group for each, to see which was found. A hyphen or _ makes it a part of another word.
    spaced = "|".join(f"({phrase})" for phrase in phrases).replace(" ", r"[\s\"]+")
    joined, starts = sentences(name, text)
    for match in re.finditer(rf"(?<![\w-])(?:{spaced})(?![\w-])", joined, re.I):
        found = re.sub(r"[\s\"]+", " ", match[0])
        yield bisect.bisect_right(starts, match.start()), found, phrases[match.lastindex - 1]


def tracked():
    """The names of the files that are looked at."""
    listed = subprocess.run(["git", "-C", str(SOURCE), "ls-files", "-z"], capture_output=True,
                            text=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.split("\0")
    else: # an archive
        names = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*")
                 if "build" not in path.relative_to(SOURCE).parts]
    for name in sorted(names):
        left_out = any(name == each or (each.endswith("/") and name.startswith(each))
                       for each in EXCEPT)
        if name.startswith("fuzz/") and name.endswith(LOOKED_AT_IN_FUZZ):
            left_out = False
        if name and not left_out and (SOURCE / name).is_file():
            yield name


def texts():
    """(name, text) of each file that is text."""
    for name in tracked():
        try:
            yield name, (SOURCE / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            pass


def folder(name):
    """The row of LEFT to which a file belongs."""
    return name.split("/")[0] if "/" in name else "."


def forbidden(name, text):
    """A line for each use of WORDS, as the test prints it."""
    instead = dict(WORDS)
    return [f"{name}:{line}: \"{found}\"; say: {instead[phrase]}"
            for line, found, phrase in uses(name, text, instead)]


def count():
    """How often each folder has each word of RATCHET: {folder: {word: number}}."""
    counts = {}
    for name, text in texts():
        for _, _, phrase in uses(name, text, RATCHET):
            row = counts.setdefault(folder(name), {})
            row[phrase] = row.get(phrase, 0) + 1
    return counts


def too_many(counts, left):
    """A line for each folder that has more of a word than it may."""
    return [f"{where}/ has \"{word}\" {number} times, {left.get(where, {}).get(word, 0)} are "
            f"allowed; say: {RATCHET[word]}"
            for where, row in sorted(counts.items()) for word, number in sorted(row.items())
            if number > left.get(where, {}).get(word, 0)]


def rows(counts):
    """LEFT as Python text."""
    return "".join(
        f"    \"{where}\": {{" + ", ".join(f"\"{word}\": {number}" for word, number
                                          in sorted(row.items())) + "},\n"
        for where, row in sorted(counts.items()))


class Tree(unittest.TestCase):
    def test_no_comment_document_or_message_has_a_word_with_a_better_one(self):
        found = [line for name, text in texts() for line in forbidden(name, text)]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_no_folder_has_more_words_with_two_senses_than_before(self):
        counts = count()
        self.assertFalse(too_many(counts, LEFT), "\n" + "\n".join(
            too_many(counts, LEFT) + ["words_test.py --list FOLDER shows where they are"]))
        lower = [(where, word) for where, row in LEFT.items() for word, number in row.items()
                 if counts.get(where, {}).get(word, 0) < number]
        if lower:
            print("LEFT can be lowered (words_test.py --table):", lower)

    def test_the_files_that_are_looked_at_are_those_of_the_tree(self):
        names = set(tracked())
        for name in ("README.md", "docs/design.md", "Makefile", "src/CMakeLists.txt"):
            self.assertIn(name, names)
        for pattern in ("src/*.c", "include/*.hpp", "models/*.pml", "tools/*.cc", "tests/*.py"):
            self.assertTrue(fnmatch.filter(names, pattern), pattern)


class Checker(unittest.TestCase):
    """Each of these texts is planted, and has to be found or to be left alone."""

    def lines(self, name, text):
        return [int(line.split(":")[1]) for line in forbidden(name, text)]

    def test_a_word_in_a_comment_is_found_with_its_line(self):
        text = "int a;\n/* Waits for ever. */\nint b; // all but for one\n"
        self.assertEqual([2, 3], self.lines("a.c", text))
        self.assertEqual(["a.c:2: \"for ever\"; say: " + dict(WORDS)["for ever"]],
                         forbidden("a.c", "\n/* for ever */"))

    def test_a_phrase_across_lines_is_found_where_it_begins(self):
        self.assertEqual([2], self.lines("a.h", "/*\n * It waits for\n * ever.\n */\n"))
        self.assertEqual([1], self.lines("a.cc", "// The\n// former one.\n"))
        self.assertEqual([1], self.lines("a.md", "all but\nfor one\n"))
        self.assertEqual([1], self.lines("a.sh", "# all but\n# for one\n"))

    def test_a_message_is_found_also_when_its_string_is_split(self):
        self.assertEqual([1], self.lines("a.c", "log(\"it waits for ever\");"))
        self.assertEqual([1], self.lines("a.c", "log(\"it waits for \"\n    \"ever\");"))
        self.assertEqual([1], self.lines("a.cc", "auto a = R\"(the latter)\";"))
        self.assertEqual([1], self.lines("a.py", "print('begins anew')"))

    def test_code_is_not_prose(self):
        self.assertEqual([], self.lines("a.c", "static void heed(int anew) { be(it); }"))
        self.assertEqual([], self.lines("a.c", "#include \"the/former.h\"\nint heed;"))
        self.assertEqual([], self.lines("a.c", "/* all but */ for (;;) {}"))
        self.assertEqual([], self.lines("a.c", "f(\"all but\", \"for one\");"))
        self.assertEqual([], self.lines("a.py", "heed = anew\n"))
        self.assertEqual([], self.lines("a.c", "char quote = '\"'; int heed; char other = '\"';"))

    def test_longer_words_are_other_words(self):
        self.assertEqual([], self.lines("a.md", "for every one; heedless; tours; the formerly"))

    def test_every_word_is_found_and_names_what_to_say(self):
        for phrase, instead in WORDS:
            planted = phrase.split("(?:s|")[0]
            planted = re.sub(r"\(\?:([^|)]*)[^)]*\)\??", r"\1", planted)
            self.assertEqual(1, len(forbidden("a.md", f"x {planted} y")), planted)
            self.assertTrue(instead)

    def test_one_more_than_before_is_too_many_and_fewer_are_not(self):
        self.assertEqual([], too_many({"src": {"told": 2}}, {"src": {"told": 2}}))
        self.assertEqual([], too_many({"src": {"told": 1}}, {"src": {"told": 2}}))
        self.assertEqual(1, len(too_many({"src": {"told": 3}}, {"src": {"told": 2}})))
        self.assertEqual(1, len(too_many({"new": {"told": 1}}, {"src": {"told": 2}})))
        planted = list(uses("src/a.c", "/* It is told at once; it waits\n * behind. */", RATCHET))
        self.assertEqual([(1, "at once"), (1, "told"), (2, "behind")],
                         sorted((line, found) for line, found, _ in planted))


def main(arguments):
    """What is asked for by hand; nothing: the test."""
    if arguments[:1] == ["--table"]:
        print(rows(count()), end="")
    elif arguments[:1] == ["--list"]:
        for name, text in texts():
            if len(arguments) < 2 or name.startswith(tuple(arguments[1:])):
                for line, found, phrase in sorted(uses(name, text, RATCHET)):
                    print(f"{name}:{line}: \"{found}\"; or: {RATCHET[phrase]}")
    else:
        unittest.main()


if __name__ == "__main__":
    main(sys.argv[1:])
