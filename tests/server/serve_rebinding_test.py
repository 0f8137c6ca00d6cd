#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A model's name that stands for another address by the time of a call:
serve_rebinding_test.py SNAFFLE MODEL LIBRARY. Speaks TAP."""
import json
import os
import pathlib
import shlex
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from served import Place, lacks_sandbox  # noqa: E402

SNAFFLE, MODEL, LIBRARY = map(os.path.abspath, sys.argv[1:4])
LACKS = lacks_sandbox(SNAFFLE)
# Asks twice, with so much time between that the first connection is gone.
TWICE = "python3 -c " + shlex.quote("""
import json, os, time, urllib.error, urllib.request
body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "go"}]}).encode()
for pause in (0, 6):
    time.sleep(pause)
    ask = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
        {"Content-Type": "application/json"})
    try:
        print(urllib.request.urlopen(ask, timeout=60).status)
    except urllib.error.HTTPError as e:
        print(e.code, e.read().decode())
""")


@unittest.skipIf(LACKS, LACKS)
class Rebinding(unittest.TestCase):
    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)

    def rollout(self, good, **arguments):
        """What became of one, and its log; the name is good for so many look-ups."""
        s = self.place.serve(agent=TWICE, env={"LD_PRELOAD": LIBRARY, "REBINDS_AFTER": str(good)})
        call = {"instruction": "go", "model": "scripted", "api_key": "k",
                "base_url": f"http://rebinds.test:{self.place.model.port}/v1", **arguments}
        return s.rpc("tools/call", {"name": "run_rollout", "arguments": call})

    def test_a_name_that_was_good_at_first_is_refused_when_it_is_connected_to(self):
        got = json.loads(self.rollout(good=2)["result"]["data"])
        log = got["agent_log_tail"].splitlines()
        self.assertEqual(log[0], "200")  # The check, and the first call.
        self.assertTrue(log[1].startswith("403 "), log)
        self.assertIn("link-local", log[1])
        errors = [t["upstream_error"] for t in got["proxy_turns"]]
        self.assertIsNone(errors[0])
        self.assertIn("link-local", errors[1])
        self.assertEqual(len(self.place.model.requests()), 1)

    def test_a_name_that_is_bad_at_once_begins_nothing(self):
        error = self.rollout(good=0)["error"]
        self.assertEqual(error["code"], -32603)
        self.assertIn("link-local", error["message"])


if __name__ == "__main__":
    tap.main()
