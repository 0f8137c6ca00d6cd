#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients that go without a word, and sessions that are joined: serve_leaving_test.py SNAFFLE MODEL.

Speaks TAP.
"""
import json
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import PATIENCE_S  # noqa: E402
from rawsocket import Closed, RawSocket  # noqa: E402
from served import SLOW, Case, lacks_sandbox, until  # noqa: E402

SNAFFLE = os.path.abspath(sys.argv[1])
LACKS = lacks_sandbox(SNAFFLE)
PINGS_S = 20  # Between two, and as long for the answer.
ALONE_S = 10  # What a session keeps after its WebSocket.


@unittest.skipIf(LACKS, LACKS)
class Silence(Case):
    def test_a_peer_that_answers_no_ping_loses_its_rollout_and_its_place(self):
        s = self.place.serve(agent=SLOW, env={"MAX_CONCURRENT_ENVS": "1"})
        ws = self.socket(s)
        ws.send(json.dumps({"type": "step", "data": {"tool_name": "run_rollout",
                                                     "arguments": self.place.call()}}))
        until(self.place.model.requests, "an agent's question")
        began = time.monotonic()
        while self.place.boxes():  # Its socket stays open, and nobody reads it.
            self.assertLess(time.monotonic() - began, 2 * PINGS_S + PATIENCE_S)
            time.sleep(0.5)
        self.assertGreater(time.monotonic() - began, PINGS_S)

        def is_free():
            return self.socket(s).talk({"type": "state"})["type"] == "state"
        until(is_free, "its place")


class Sessions(Case):
    def refused(self, s, path, words):
        got = json.loads(self.socket(s, path).receive())
        self.assertEqual(got["type"], "error")
        self.assertIn(words, got["data"]["message"])

    def test_a_session_made_over_http_is_joined_by_one_socket_and_outlives_it_a_little(self):
        s = self.place.serve(env={"MAX_CONCURRENT_ENVS": "1"})
        one = s.rpc("openenv/session/create")["result"]["session_id"]
        path = f"/ws?session_id={one}"
        ws = self.socket(s, path)
        self.assertEqual(ws.talk({"type": "reset", "data": {"episode_id": "e"}})["type"],
                         "observation")
        self.refused(s, path, "already has an attached WebSocket")
        self.refused(s, "/ws?session_id=none", "Unknown session_id: none")
        self.refused(s, "/ws?x=1&session_id=" + "y" * 5000, "Unknown session_id: yyy")
        ws.drop()

        def joined():
            again = RawSocket(s.port, path)
            try:
                return again.talk({"type": "state"})["data"].get("episode_id") == "e"
            except Closed:
                return False
            finally:
                again.drop()
        until(joined, "that it can be joined again")
        gone = time.monotonic()
        until(lambda: "result" in s.rpc("openenv/session/create"), "its end")
        self.assertGreater(time.monotonic() - gone, ALONE_S - 2)
        self.refused(s, path, "Unknown session_id")


if __name__ == "__main__":
    tap.main()
