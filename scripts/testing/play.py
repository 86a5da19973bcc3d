# SPDX-License-Identifier: MIT
"""
Runs the cases of a unit (cases.py), and says how each ended.

A process that ends in the middle, or hangs, costs the case that it was running; another process
runs those that are left. A process that fails although each of its cases has passed (a sanitizer
finds something at the end, say) has its cases run again, each in a process of its own. If they
pass, the process is what has failed, under the name of its program.
"""
import dataclasses
import os
import pathlib
import signal
import tempfile
import xml.etree.ElementTree as xml

from testing.cases import FILTER, Case
from testing.process import BEGINS, ENDS, run

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
MOST_OUTPUT = 60000


@dataclasses.dataclass
class Result:
    name: str
    how: str
    why: str = ""  # when it has failed
    seconds: float = 0
    cpu: float = 0  # seconds; of cases that share a process, each has a share as long as it took
    output: str = ""
    load: float = 0  # the machine's, when it had failed
    has_hung: bool = False
    together_with: tuple = ()  # the cases that its process ran, if it is not one of them


def text_of(output):
    return output[-MOST_OUTPUT:].decode(errors="replace")


def ending(outcome):
    if outcome.has_hung:
        return "hangs"
    if outcome.status < 0:
        try:
            return signal.Signals(-outcome.status).name
        except ValueError:
            return f"signal {-outcome.status}"
    return f"exit status {outcome.status}"


def failed(case_name, outcome, why=None, output=None, **more):
    return Result(case_name, FAILED, why or ending(outcome), outcome.seconds, outcome.cpu,
                  text_of(outcome.output if output is None else output), os.getloadavg()[0],
                  outcome.has_hung, **more)


def play_alone(case, most=None):
    """A script, or one case in a process of its own."""
    outcome = run(case.command, case, most)
    if outcome.has_hung or outcome.status not in (0, case.skip_status):
        return failed(case.name, outcome)
    says_so = any(end.group(1).strip() == b"SKIPPED" for end in ENDS.finditer(outcome.output))
    skipped = outcome.status == case.skip_status or (case.within and says_so)
    return Result(case.name, SKIPPED if skipped else PASSED, seconds=outcome.seconds,
                  cpu=outcome.cpu, output=text_of(outcome.output) if skipped else "")


def parts_of(output):
    """The output of each case: from its beginning to that of the next one."""
    begins = list(BEGINS.finditer(output))
    ends = [each.start() for each in begins[1:]] + [len(output)]
    return {each.group(1).decode(): output[each.start():end] for each, end in zip(begins, ends)}


def read_report(report):
    """The testcase elements by name; None if the program ended before it wrote them."""
    try:
        root = xml.parse(report).getroot()
    except (OSError, xml.ParseError):
        return None
    return {f"{each.get('classname')}.{each.get('name')}": each for each in root.iter("testcase")}


def result_of(case, element, outcome, printed):
    if element is None:
        return failed(case.name, outcome, "its program does not know it")
    seconds = float(element.get("time") or 0)
    if element.find("failure") is not None or element.find("error") is not None:
        result = failed(case.name, outcome, "failed", printed.get(case.within))
        result.seconds = seconds
        return result
    skipped = element.find("skipped") is not None or element.get("status") == "notrun"
    return Result(case.name, SKIPPED if skipped else PASSED, seconds=seconds,
                  output=text_of(printed.get(case.within, b"")) if skipped else "")


def share_cpu(results, outcome):
    all_seconds = sum(result.seconds for result in results)
    for result in results:
        share = result.seconds / all_seconds if all_seconds else 1 / len(results)
        result.cpu = outcome.cpu * share


def play_once(cases):
    """Runs one process. Returns the results of some of the cases, and the cases that are left."""
    first = cases[0]
    with tempfile.TemporaryDirectory(prefix="sennit-test-") as folder:
        report = pathlib.Path(folder) / "report.xml"
        chosen = FILTER + ":".join(case.within for case in cases)
        outcome = run((*first.program, chosen, f"--gtest_output=xml:{report}"), first)
        elements = read_report(report)
    printed = parts_of(outcome.output)
    if elements is not None and not outcome.has_hung:
        results = [result_of(case, elements.get(case.within), outcome, printed) for case in cases]
        share_cpu(results, outcome)
        if outcome.status == 0 or any(result.how == FAILED for result in results):
            return results, []
        return finish_doubtful(cases, outcome), []
    return finish_broken(cases, outcome, printed)


def finish_doubtful(cases, outcome):
    """The process has failed, but none of its cases."""
    results = [play_alone(case) for case in cases]
    if all(result.how != FAILED for result in results):
        name = cases[0].name.rsplit("/", 1)[0]
        results.append(failed(name, outcome, f"{ending(outcome)}, though each case passes",
                              together_with=tuple(case.name for case in cases)))
    return results


def finish_broken(cases, outcome, printed):
    """The process did not reach its end, so the last case that has begun has failed."""
    ended = {end.group(2).decode(): end.group(1).strip() for end in ENDS.finditer(outcome.output)}
    results, left = [], []
    culprit = next((name for name in reversed(list(printed)) if name not in ended), None)
    for case in cases:
        how = ended.get(case.within)
        if how == b"FAILED":
            results.append(failed(case.name, outcome, "failed", printed[case.within]))
        elif how is not None:
            results.append(Result(case.name, SKIPPED if how == b"SKIPPED" else PASSED))
        elif case.within == culprit:
            results.append(failed(case.name, outcome, None, printed[culprit]))
        else:
            left.append(case)
    if culprit is None:  # it does not even begin, or fails between two of them
        results += [failed(case.name, outcome) for case in left]
        left = []
    return results, left


def play(unit):
    """All cases of a unit. Returns their results."""
    if len(unit.cases) == 1:
        return [play_alone(unit.first)]
    results, left = [], list(unit.cases)
    while left:
        more, left = play_once(left)
        results += more
    return results


def play_again(cases, result, most=None):
    """Runs a failed case again, alone. cases: all, by name."""
    if not result.together_with:
        return play_alone(cases[result.name], most)
    results, left = play_once([cases[name] for name in result.together_with])
    bad = [each for each in results if each.how == FAILED]
    return bad[0] if bad else Result(result.name, FAILED if left else PASSED)


def by_name(cases: list[Case]):
    return {case.name: case for case in cases}
