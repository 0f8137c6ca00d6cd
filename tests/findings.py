#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The catalogue of findings, docs/findings.md, the code and the tests name the same codes.

Argument: the source's folder.
"""
import pathlib
import re
import sys
import unittest

import tap

SOURCE = pathlib.Path(sys.argv[1])
STRING = r'"(?:[^"\\]|\\.)*"'
ROW = re.compile(rf'\{{\s*"([a-z_]+)",\s*([FWI]),\s*((?:{STRING}\s*)+),\s*(NULL|(?:{STRING}\s*)+)\}}')
# The places where a code is given out, each with the code as a literal.
GIVEN = (r'session_finding\(s, "([a-z_]+)"', r'trace_add_finding\([^;]*?, "([a-z_]+)"\)',
         r'find\(\w+, "([a-z_]+)", err\)', r'answer_add_finding\(result, "([a-z_]+)"')
TABLES = {"src/train/judge.c": r'\{[^{}]*?,\s*"([a-z_]+)"\}', "src/gateway/evidence.c": r'"([a-z_]+)"\}',
          "src/rollout/session.c": r'\{"\w+", "([a-z_]+_limit)"\}'}


def text(path):
    return (SOURCE / path).read_text()


def join(literals):
    return "".join(part[1:-1] for part in re.findall(STRING, literals))


def catalogue(name):
    source = text("src/train/finding.c")
    start = source.index(f"finding_kind {name}[] = {{") + len(f"finding_kind {name}[] = {{")
    body = re.sub(r"/\*.*?\*/", "", source[start:source.index("{0},", start)], flags=re.S)
    return {code: (severity, join(meaning), "–" if advice == "NULL" else join(advice))
            for code, severity, meaning, advice in ROW.findall(body)}


def documented():
    """{code: (section, meaning, advice)}"""
    found, section = {}, ""
    for line in text("docs/findings.md").splitlines():
        section = line[3:] if line.startswith("## ") else section
        row = re.fullmatch(r"\| `([a-z_]+)` \| (.*) \| (.*) \|", line)
        if row:
            found[row[1]] = (section, row[2], row[3])
    return found


CALLS, ROLLOUTS = catalogue("finding_of_calls"), catalogue("finding_of_rollouts")


def given():
    """{code: the rooms whose programs give it out}"""
    found = {}

    def add(path, codes):
        for code in codes:
            found.setdefault(code, set()).add(path.relative_to(SOURCE / "src").parts[0])

    for path in SOURCE.glob("src/**/*.c"):
        source = path.read_text()
        for pattern in GIVEN:
            add(path, re.findall(pattern, source))
    for path, pattern in TABLES.items():
        add(SOURCE / path, re.findall(pattern, text(path)))
    judge = SOURCE / "src/train/judge.c"
    add(judge, re.findall(r'\[AGENT_CALL_\w+\] = "(\w+)"', judge.read_text()))
    return found


# Where a room's findings are tested. Another room's test may only hand a code on.
TESTS_OF = {"gateway": ("unit/gateway", "gateway"), "journal": ("unit/journal",),
            "train": ("unit/train",), "server": ("unit/server", "server"),
            "rollout": ("unit/rollout", "rollout", "hostile", "cli")}
ASSERTS = {".c": re.compile(r"\b(assert_\w+|holds|roll|check\w*) *\(|\] = \{"),
           ".py": re.compile(r"\b(assert\w+|equal|holds) *\(|\bwant\b")}


def statements(path):
    """What a test file says, in parts that hold an assertion or none."""
    source = path.read_text()
    if path.suffix == ".py":
        return re.split(r"\n(?=    ? ?\S| {8}\S)", re.sub(r"#.*", "", source))
    return re.sub(r"/\*.*?\*/", "", source, flags=re.S).split(";")


def asserted(rooms):
    """What the assertions of these rooms' tests say, and the tables that they go through."""
    said = []
    for folder in sorted({folder for room in rooms for folder in TESTS_OF[room]}):
        for path in sorted((SOURCE / "tests" / folder).rglob("*")):
            if path.suffix in ASSERTS:
                said += [part for part in statements(path) if ASSERTS[path.suffix].search(part)]
    return "\n".join(said)


class Findings(unittest.TestCase):
    def test_the_catalogue_is_read_whole(self):
        rows = len(re.findall(r'\{\s*"', text("src/train/finding.c")))
        names = 1  # Of the severities.
        self.assertEqual(len(CALLS) + len(ROLLOUTS) + names, rows)
        self.assertGreater(len(CALLS), 40)

    def test_every_code_stands_in_the_page_as_in_the_catalogue(self):
        sections = {"F": "Of a call: fatal", "W": "Of a call: warnings", "I": "Of a call: for the record"}
        want = {code: (sections[row[0]], *row[1:]) for code, row in CALLS.items()}
        want |= {code: ("Of a rollout", *row[1:]) for code, row in ROLLOUTS.items()}
        page = {code: row for code, row in documented().items()}
        self.assertEqual(sorted(page), sorted(want))
        for code, row in want.items():
            self.assertEqual(page[code], row, code)

    def test_every_code_that_is_given_out_is_in_the_catalogue_and_the_reverse(self):
        of_rollouts = {code for code, rooms in given().items() if rooms & {"rollout", "server"}}
        of_calls = {code for code, rooms in given().items() if rooms - {"rollout", "server"}}
        self.assertEqual(sorted(of_rollouts), sorted(ROLLOUTS))
        self.assertEqual(sorted(of_calls), sorted(CALLS))

    def test_every_code_is_asserted_on_where_it_is_given_out(self):
        said = {}
        missing = []
        for code, rooms in sorted(given().items()):
            for room in sorted(rooms):
                said.setdefault(room, asserted([room]))
                if not re.search(rf"(?<![a-z_]){code}(?![a-z_])", said[room]):
                    missing.append(f"{room}: {code}")
        self.assertEqual(missing, [])


tap.main()
