#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`./dev test cloud hf`, without a token and on a fake Hub: cloud_test.py TEST SNAFFLE GUEST HUB SBX.
Speaks TAP."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "tools")]
import tap  # noqa: E402
import run_cloud  # noqa: E402
from cases import PASSED, SKIPPED, closing_line  # noqa: E402

TEST, SNAFFLE, GUEST, HUB, SBX = (os.path.abspath(path) for path in sys.argv[1:6])
PROGRAMS = {"test": TEST, "snaffle": SNAFFLE, "guest": GUEST}
TOKEN = "hf_testtoken"
START_S = 20


class Cloud(unittest.TestCase):
    def start_hub(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        port = pathlib.Path(scratch.name, "port")
        hub = subprocess.Popen([HUB, "--sbx", SBX, "--token", TOKEN, "--port-file", port,
                                "--die-with-parent"], stdout=subprocess.DEVNULL)
        self.addCleanup(hub.wait)
        self.addCleanup(hub.terminate)
        deadline = time.monotonic() + START_S
        while not port.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return f"http://127.0.0.1:{port.read_text().strip()}"

    def test_1_without_a_token_one_case_is_skipped_and_says_what_is_missing(self):
        os.environ.pop("HF_TOKEN", None)
        cases = run_cloud.run(PROGRAMS)
        self.assertEqual(closing_line(cases), "0 passed, 0 failed, 1 skipped")
        self.assertIn("HF_TOKEN is not set", cases[0].detail)
        done = subprocess.run([sys.executable, "-c", "import sys, run_cloud, run_tests; "
                               "sys.exit(run_tests.report(run_cloud.run({})))"],
                              cwd=ROOT / "tools", capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)

    def test_2_with_one_the_contract_runs_bounded_and_nothing_is_left(self):
        if os.geteuid() != 0:
            self.skipTest("the fake Hub's jobs are containers: needs root")
        url = self.start_hub()
        os.environ |= {"HF_TOKEN": TOKEN, "HF_ENDPOINT": url}
        cases = run_cloud.run(PROGRAMS)
        bad = [(case.name, case.detail) for case in cases if case.status not in (PASSED, SKIPPED)]
        self.assertEqual(bad, [])
        self.assertGreater(sum(case.status == PASSED for case in cases), 20)
        with urllib.request.urlopen(f"{url}/_state") as answer:
            state = json.load(answer)
        self.assertEqual(state["alive"], 0)
        self.assertLessEqual(len(state["jobs"]), 60)
        self.assertEqual({job["flavor"] for job in state["jobs"]}, {"cpu-basic"})


if __name__ == "__main__":
    tap.main()
