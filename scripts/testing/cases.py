# SPDX-License-Identifier: MIT
"""
The tests of a build, as ctest lists them, and which of them run in one process.

A case of a GoogleTest program runs in one process with others of its program, unless the label
own-process is set. That saves the start of a process for each case, which costs most under a
sanitizer or an emulator.
"""
import dataclasses
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILTER = "--gtest_filter="
OWN_PROCESS = "own-process"

# The most cases in a process. More would leave one process running at the end, when the other CPUs
# have nothing to do.
MOST_AT_ONCE = 40


@dataclasses.dataclass(frozen=True)
class Case:
    """One test of ctest."""

    name: str  # as in "sched/timer/TimerStress.StopAgainstFire"
    command: tuple  # the words that run it, and nothing else
    directory: str
    environment: tuple  # "NAME=value", beyond what the runner has
    timeout: float  # seconds
    serial: bool  # nothing else may run at the same time
    skip_status: int  # exit status that means "skipped"; -1: none
    alone: bool  # in a process of its own
    is_long: bool  # begins first

    @property
    def within(self):
        """The case's name within its GoogleTest program; nothing for a script."""
        for word in self.command:
            if word.startswith(FILTER):
                return word[len(FILTER):]
        return None

    @property
    def program(self):
        """The words that start the case's program, without those that select the case."""
        return tuple(word for word in self.command if not word.startswith(FILTER))


@dataclasses.dataclass(frozen=True)
class Unit:
    """The cases that one process runs."""

    cases: tuple

    @property
    def first(self):
        return self.cases[0]

    @property
    def name(self):
        if len(self.cases) == 1:
            return self.first.name
        return f"{self.first.name.rsplit('/', 1)[0]} ({len(self.cases)} cases)"


def environment_of(preset):
    """The environment of the preset's tests, as "NAME=value". A preset inherits at most one other
    here. Tests under an emulator have G_SLICE: otherwise a child that is forked while another
    thread of qemu allocates by GLib may wait for that thread's lock forever."""
    presets = {each["name"]: each for each in
               json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]}
    if preset not in presets:
        raise SystemExit(f"unknown preset: {preset}")
    variables = {}
    while preset:
        variables = {**presets[preset].get("environment", {}), **variables}
        preset = presets[preset].get("inherits")
    return tuple(f"{name}={value}" for name, value in variables.items())


def list_cases(preset, selection, must_be_built=True, directory=None):
    """The tests of the preset's build that the words `selection` of ctest select; of that in
    `directory`, if there is one. Tests whose programs were not built are left out, unless
    must_be_built is set."""
    where = ["--test-dir", directory] if directory else ["--preset", preset]
    listed = subprocess.run(["ctest", *where, *selection, "--show-only=json-v1"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if listed.returncode != 0:
        raise SystemExit(f"ctest lists no tests: exit status {listed.returncode}")
    extra = environment_of(preset)
    cases = []
    for test in json.loads(listed.stdout)["tests"]:
        has = {each["name"]: each["value"] for each in test.get("properties", [])}
        if has.get("DISABLED"):
            continue
        if "command" not in test:
            if must_be_built:
                raise SystemExit(f"{test['name']} has no program: was it built?")
            continue
        cases.append(Case(
            name=test["name"],
            command=tuple(test["command"]),
            directory=has.get("WORKING_DIRECTORY", str(ROOT)),
            environment=extra + tuple(has.get("ENVIRONMENT", ())),
            timeout=float(has.get("TIMEOUT", 300)),
            serial=bool(has.get("RUN_SERIAL")),
            skip_status=int(has.get("SKIP_RETURN_CODE", -1)),
            alone=OWN_PROCESS in has.get("LABELS", ()),
            is_long=float(has.get("COST", 0)) > 0))
    return cases


def units_of(cases, own_process=False):
    """Cases that can share a process, together; the longest first. own_process: none shares one."""
    groups = {}
    for case in cases:
        shares = case.within is not None and not case.alone and not own_process
        key = (case.program, case.directory, case.environment, case.serial,
               None if shares else case.name)
        groups.setdefault(key, []).append(case)
    units = []
    for group in groups.values():
        parts = -(-len(group) // MOST_AT_ONCE)
        size = -(-len(group) // parts)
        units += [Unit(tuple(group[at:at + size])) for at in range(0, len(group), size)]
    return sorted(units, key=lambda unit: (not unit.first.is_long, -len(unit.cases)))
