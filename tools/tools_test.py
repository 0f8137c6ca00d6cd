#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the counting and of the checks of our own. Speaks TAP."""
import unittest

from cases import Case, FAILED, PASSED, SKIPPED, closing_line, junit_cases, tap_cases
from lint import BANNED_CALL, MACHINE_PATH, without_comments


def statuses(text, code=0):
    return [case.status for case in tap_cases("p", text, code)]


class Tap(unittest.TestCase):
    def test_each_case_counts(self):
        self.assertEqual(statuses("1..2\nok 1 - a\nnot ok 2 - b\n# why\n", 1), [PASSED, FAILED])

    def test_a_skipped_case_of_cmocka_is_no_failure_and_keeps_its_reason(self):
        cases = tap_cases("p", "1..1\n# skipped: no bwrap\nnot ok 1 # SKIP the_case\n", 0)
        self.assertEqual(cases, [Case("p: the_case", SKIPPED, "no bwrap")])

    def test_a_skipped_case_of_plain_tap_keeps_its_reason(self):
        cases = tap_cases("p", "1..1\nok 1 - x # SKIP not here\n", 0)
        self.assertEqual(cases, [Case("p: x", SKIPPED, "not here")])

    def test_a_program_without_a_plan_has_failed(self):
        self.assertEqual(statuses("ok 1 - a\n"), [PASSED, FAILED])
        self.assertEqual(statuses(""), [FAILED])

    def test_a_program_that_dies_early_has_failed(self):
        self.assertEqual(statuses("1..3\nok 1 - a\n", -11), [PASSED, FAILED])

    def test_a_bad_end_after_good_cases_has_failed(self):
        self.assertEqual(statuses("1..1\nok 1 - a\n", 23), [PASSED, FAILED])
        self.assertEqual(statuses("1..1\nok 1 - a\n", None), [PASSED, FAILED])

    def test_a_bad_end_is_counted_once_when_a_case_failed(self):
        self.assertEqual(statuses("1..1\nnot ok 1 - a\n", 1), [FAILED])


class Junit(unittest.TestCase):
    def test_failures_errors_and_skips_are_told_apart(self):
        text = ('<testsuites><testsuite><testcase classname="m" name="a"/>'
                '<testcase classname="m" name="b"><failure message="x">trace</failure></testcase>'
                '<testcase classname="m" name="c"><error message="x"/></testcase>'
                '<testcase classname="m" name="d"><skipped message="why"/></testcase>'
                '</testsuite></testsuites>')
        cases = junit_cases("python", text)
        self.assertEqual([c.status for c in cases], [PASSED, FAILED, FAILED, SKIPPED])
        self.assertEqual(cases[3].detail, "why")


class Closing(unittest.TestCase):
    def test_skips_are_named_only_when_there_are_some(self):
        self.assertEqual(closing_line([Case("a", PASSED)]), "1 passed, 0 failed")
        self.assertEqual(closing_line([Case("a", FAILED), Case("b", SKIPPED)]),
                         "0 passed, 1 failed, 1 skipped")


class Sources(unittest.TestCase):
    def test_banned_calls_are_seen_in_code_only(self):
        self.assertTrue(BANNED_CALL.search("    strcpy(a, b);"))
        self.assertFalse(BANNED_CALL.search("my_system(a); x->system(a); s.system(1); file_system"))
        self.assertFalse(BANNED_CALL.search(without_comments('/* strcpy( */ "system(1)"')))

    def test_paths_of_one_machine_are_told_from_those_of_every_machine(self):
        for bad in ("see {}mnt/x", "'{}home/ada/x'", "({}root/y)"):
            bad = bad.format("/")  # Written so that this file itself passes.
            self.assertTrue(MACHINE_PATH.search(bad), bad)
        for good in ("/home/user/workdir", "/usr/bin/x", "a/mnt/b", "$HOME/root/x", "~/mnt/x"):
            self.assertFalse(MACHINE_PATH.search(good), good)


class TapResult(unittest.TestResult):
    """Prints each case as it ends."""

    def addSuccess(self, test):
        print(f"ok {self.testsRun} - {test.id().split('.', 1)[-1]}")

    def _bad(self, test, err):
        print(f"not ok {self.testsRun} - {test.id().split('.', 1)[-1]}")
        for line in self._exc_info_to_string(err, test).splitlines():
            print(f"# {line}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(__import__("__main__"))
    print(f"1..{suite.countTestCases()}")
    result = TapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    raise SystemExit(main())
