# SPDX-License-Identifier: BSD-3-Clause
"""Single test cases, as counted by run_tests.py, and the readers of what test programs print."""
import dataclasses
import re
import xml.etree.ElementTree as ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclasses.dataclass
class Case:
    name: str
    status: str
    detail: str = ""


PLAN = re.compile(r"^1\.\.(\d+)")
RESULT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:-\s*)?(.*)$")
DIRECTIVE = re.compile(r"#\s*(SKIP|TODO)\b\s*(.*)$", re.I)
REASON = re.compile(r"^# skipped: (.*)$")


def tap_cases(program, text, exit_code):
    """Cases of one program that speaks TAP.

    cmocka 1.1.5 prints a skipped case as `not ok N # SKIP name`, and the reason, where the case
    gives one, in a line `# skipped: reason` before it. A program that prints no plan, fewer results
    than planned, or ends badly without a failed case has failed, whatever else it printed.
    """
    cases, planned, reason, order = [], None, "", 0
    for line in text.splitlines():
        plan, result, told = PLAN.match(line), RESULT.match(line), REASON.match(line)
        if plan:
            planned = int(plan[1])
        elif told:
            reason = told[1]
        elif result:
            order += 1
            cases.append(_tap_case(program, result, reason, order))
            reason = ""
    bad = any(case.status == FAILED for case in cases)
    if planned is None:
        cases.append(Case(f"{program} (whole program)", FAILED, "it printed no plan"))
    elif len(cases) != planned:
        cases.append(Case(f"{program} (whole program)", FAILED,
                          f"{len(cases)} results of {planned} planned; {ended(exit_code)}"))
    elif exit_code != 0 and not bad:
        cases.append(Case(f"{program} (whole program)", FAILED,
                          f"every case passed, but {ended(exit_code)}"))
    return cases


def _tap_case(program, result, reason, order):
    rest = result[3].strip()
    directive = DIRECTIVE.search(rest)
    name = rest[:directive.start()].strip() if directive else rest
    if directive and directive[1].upper() == "SKIP":
        # cmocka puts the case's name where TAP has the reason.
        text = directive[2].strip()
        return Case(f"{program}: {name or text or order}", SKIPPED, reason or (text if name else ""))
    status = FAILED if result[1] else PASSED
    return Case(f"{program}: {name or order}", status)


def ended(exit_code):
    """A child's end in words."""
    if exit_code is None:
        return "it ran out of time"
    if exit_code < 0:
        return f"killed by signal {-exit_code}"
    return f"exit status {exit_code}"


def junit_cases(program, xml_text):
    """Cases of a JUnit file, as pytest writes it."""
    cases = []
    for element in ElementTree.fromstring(xml_text).iter("testcase"):
        name = f"{program}: {element.get('classname', '')}.{element.get('name', '')}"
        status, detail = PASSED, ""
        for child in element:
            if child.tag in ("failure", "error"):
                status, detail = FAILED, child.text or child.get("message", "")
            elif child.tag == "skipped" and status == PASSED:
                status, detail = SKIPPED, child.get("message", "")
        cases.append(Case(name, status, detail))
    return cases


def closing_line(cases):
    """The last line of a run: `N passed, N failed[, N skipped]`."""
    count = {s: sum(case.status == s for case in cases) for s in (PASSED, FAILED, SKIPPED)}
    line = f"{count[PASSED]} passed, {count[FAILED]} failed"
    return line + (f", {count[SKIPPED]} skipped" if count[SKIPPED] else "")
