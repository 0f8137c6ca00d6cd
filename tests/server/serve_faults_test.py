#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What clients are told when the server's machine fails: serve_faults_test.py SNAFFLE MODEL.

Speaks TAP.
"""
import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from served import SLOW, Place, lacks_sandbox, until  # noqa: E402

SNAFFLE, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
LACKS = lacks_sandbox(SNAFFLE)


class Case(unittest.TestCase):
    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)

    def told(self, s, **more):
        """All that a client gets, as text."""
        return json.dumps(s.rpc("tools/call", {"name": "run_rollout",
                                               "arguments": self.place.call(**more)}))

    def status(self, text):
        self.assertIn("result", json.loads(text), text)
        return json.loads(json.loads(text)["result"]["data"])["status"]

    def no_path(self, s, text, words):
        """Nothing of this machine's folders, but in the server's own log."""
        self.assertIn("[path]", text)
        self.assertIn(words, text)
        self.assertNotIn(str(self.place.folder), text)
        self.assertIn(str(self.place.folder), s.errors())


class Faults(Case):
    @unittest.skipIf(LACKS, LACKS)
    def test_a_folder_for_runs_that_can_not_be_is_told_without_its_path(self):
        file = self.place.folder / "a file"
        file.touch()
        s = self.place.serve("--runs", file / "runs", "--quiet")
        self.no_path(s, self.told(s), "ot a directory")

    def test_an_agent_that_is_missing_is_told_without_a_path(self):
        s = self.place.serve(agent=None)
        text = self.told(s)
        self.assertIn("opencode", text)
        self.assertNotIn(str(self.place.folder), text)

    def test_what_a_call_names_itself_is_told_as_it_is(self):
        s = self.place.serve()
        self.assertIn("'/no/../way'", self.told(s, sandbox_home="/no/../way"))


@unittest.skipIf(LACKS, LACKS)
@unittest.skipIf(os.geteuid() != 0, "a small disk is mounted: needs root")
class FullDisk(Case):
    def setUp(self):
        super().setUp()
        self.disk = self.place.folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", self.disk], check=True)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.disk], check=True))
        self.place.servers = []  # They end before the disk goes.
        self.addCleanup(lambda: [s.stop() for s in self.place.servers])

    def fill(self):
        with open(self.disk / "rest", "ab", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 4096)
            except OSError:
                pass

    def test_a_disk_that_is_full_is_told_without_its_path(self):
        s = self.place.serve("--runs", self.disk / "runs")
        self.fill()
        self.no_path(s, self.told(s), "full")
        (self.disk / "rest").unlink()
        self.assertEqual(self.status(self.told(s)), "ok")

    def test_a_disk_that_fills_up_meanwhile_ends_calls_as_results(self):
        s = self.place.serve("--runs", self.disk / "runs", agent=SLOW)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(self.told(s, agent_timeout_s=6)))
        asking.start()
        until(self.place.model.requests, "an agent's question")
        self.fill()
        asking.join()
        (text,) = answers
        self.assertEqual(self.status(text), "failed")
        self.no_path(s, text, "No space left on device")
        (self.disk / "rest").unlink()
        self.assertEqual(self.status(self.told(s, agent_timeout_s=2)), "ok")


if __name__ == "__main__":
    tap.main()
