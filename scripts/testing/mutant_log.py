# SPDX-License-Identifier: MIT
"""
The results of scripts/mutants, a line of JSON each, written as they come, so that a run which was
interrupted can be continued.

The first line says what the run is: its options, with the seed, and a digest of the sources. The
others are results, in the order in which the mutants are tried. A line that was cut off by the
interruption counts as not written.
"""
import hashlib
import json
import os


class Broken(Exception):
    """Why a run cannot be continued."""


def digest_of(directories):
    """One digest of the names and the contents of all files below directories."""
    whole = hashlib.sha256()
    for top in directories:
        for directory, folders, files in os.walk(top):
            folders.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
                whole.update(f"{os.path.relpath(path, top)}\0{content}\n".encode())
    return whole.hexdigest()


class Log:
    """Begins a log, with the results that there are. It replaces another one in one step."""

    def __init__(self, path, options, digest, results=()):
        self.path, self.options, self.results = path, options, list(results)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            for each in {"options": options, "sources": digest}, *results:
                file.write(json.dumps(each) + "\n")
        os.replace(f"{path}.new", path)

    def add(self, result):
        """A dictionary."""
        self.results.append(result)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")


def options_of(path):
    """The options of the run whose log that is."""
    return _read(path)[0]["options"]


def resume(path, digest):
    """The log of a run that was interrupted, with its results. The sources must be the same."""
    first, *results = _read(path)
    if first["sources"] != digest:
        raise Broken("the sources have changed since that run; begin another one, without --resume")
    return Log(path, first["options"], digest, results)


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("\n")]
    except OSError as error:
        raise Broken(f"there is no run to continue: {path}: {error.strerror}") from error
    try:
        whole = [json.loads(line) for line in lines]
        if not whole or not {"options", "sources"} <= set(whole[0]):
            raise ValueError
    except ValueError as error:
        raise Broken(f"there is no run to continue: {path} is not a log of one") from error
    return whole
