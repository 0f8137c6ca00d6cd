# SPDX-License-Identifier: BSD-3-Clause
"""unittest cases as TAP: tap.main() at the end of a test file.

A skipped case keeps its reason. Where a package is missing that a whole file needs, need() prints
one skipped case and ends; SNAFFLE_TEST_PYTHON may name an interpreter that has it.
"""
import importlib.util
import os
import sys
import unittest


def need(package):
    if importlib.util.find_spec(package):
        return
    other = os.environ.get("SNAFFLE_TEST_PYTHON")
    if other and not os.environ.get("SNAFFLE_TEST_PYTHON_TRIED"):
        os.environ["SNAFFLE_TEST_PYTHON_TRIED"] = "1"
        os.execv(other, [other, *sys.argv])
    skip_all(f"no Python package '{package}' here")


def skip_all(reason):
    print(f"1..1\nok 1 - {os.path.basename(sys.argv[0])} # SKIP {reason}")
    raise SystemExit(0)


class Result(unittest.TestResult):
    """Prints each case as it ends."""

    @staticmethod
    def _name(test):
        return test.id().split(".", 1)[-1]

    def addSuccess(self, test):
        print(f"ok {self.testsRun} - {self._name(test)}", flush=True)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._bad(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"ok {self.testsRun} - {self._name(test)} # SKIP {reason}", flush=True)

    def _bad(self, test, err):
        print(f"not ok {self.testsRun} - {self._name(test)}")
        for line in self._exc_info_to_string(err, test).splitlines():
            print(f"# {line}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}", flush=True)
    result = Result()
    suite.run(result)
    raise SystemExit(0 if result.wasSuccessful() else 1)
