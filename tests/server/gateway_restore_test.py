#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sessions outlive a kill of their gateway: gateway_restore_test.py SNAFFLE MODEL. Speaks TAP."""
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import Gateway, Model, until  # noqa: E402

SNAFFLE, MODEL = [os.path.abspath(sys.argv[1]), "gateway"], os.path.abspath(sys.argv[2])
ADMIN = "admin-key-0123456789"
ENGINE_KEY = "engine-key-0123456789"
OTHER_KEY = "other-key-0123456789"
SLOW = {"when": {"user_has": "slow"}, "event_delay_ms": 50, "reply": {"words": 2000}}


class Restore(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.model = self.new_model("model", api_key=ENGINE_KEY)
        self.lives = 0

    def new_model(self, name, **script):
        model = Model(MODEL, self.scratch.name, {"scenes": [SLOW], "any_model": True, **script},
                      name)
        self.addCleanup(model.kill)
        return model

    def gateway(self, *args, sessions="--sessions", engine_key=ENGINE_KEY):
        self.lives += 1
        folder = pathlib.Path(self.scratch.name, f"life-{self.lives}")
        folder.mkdir()
        env = {"SNAFFLE_GATEWAY_KEY": ADMIN}
        if engine_key:
            env["UPSTREAM_API_KEY"] = engine_key
        g = Gateway(SNAFFLE, sessions, "--upstream-url", self.model.url, "--journal", self.journal,
                    *args, folder=folder, key=ADMIN, env=env)
        self.addCleanup(g.stop)
        return g

    @property
    def journal(self):
        return pathlib.Path(self.scratch.name, "journal")

    def create(self, g, **body):
        status, made = g.admin("POST", "/sessions", body)
        self.assertEqual(status, 200, made)
        return made

    def call(self, g, token, text="hello", want=200):
        status, body = g.call(text, key=token)
        self.assertEqual(status, want, body)
        return body

    def turns(self, g, session):
        status, lines = g.admin("GET", f"/sessions/{session}/trace")
        self.assertEqual(status, 200, lines)
        return [json.loads(line) for line in lines.splitlines()]

    def leave_open(self, g, token):
        """A call that is in the middle of its answer."""
        before = len(self.model.requests())
        thread = threading.Thread(target=self.ignore, args=(g, token))
        thread.start()
        self.addCleanup(thread.join)
        until(lambda: len(self.model.requests()) > before, "a call at the engine")

    @staticmethod
    def ignore(g, token):
        try:
            g.call("slow", key=token, stream=True)
        except Exception:  # pylint: disable=broad-except
            pass  # Its gateway is killed.

    def test_a_killed_gateway_s_sessions_go_on_with_their_tokens_and_numbers(self):
        g = self.gateway()
        made = self.create(g, session_id="task-1", metadata={"seed": 3}, model="served",
                           policy_version=7)
        other = self.create(g, session_id="task-2")
        for text in ("one", "two"):
            self.call(g, made["token"], text)
        self.leave_open(g, made["token"])
        g.stop(signal.SIGKILL)
        g = self.gateway()
        _, listed = g.admin("GET", "/sessions")
        self.assertEqual([s["session_id"] for s in listed["sessions"]], ["task-1", "task-2"])
        _, shown = g.admin("GET", "/sessions/task-1")
        self.assertEqual((shown["n_turns"], shown["n_open"], shown["metadata"], shown["model"],
                          shown["policy_version"], shown["lacks_key"]),
                         (3, 0, {"seed": 3}, "served", 7, False))
        self.call(g, made["token"], "four")
        self.call(g, other["token"], "first")
        turns = self.turns(g, "task-1")
        self.assertEqual([(t["turn"], t["end"]) for t in turns],
                         [(1, "complete"), (2, "complete"), (3, "open"), (4, "complete")])
        self.assertEqual([t["request"]["messages"][0]["content"] for t in turns],
                         ["one", "two", "slow", "four"])
        self.assertEqual({t["policy_version"] for t in turns}, {7})
        self.assertEqual([t["turn"] for t in self.turns(g, "task-2")], [1])

    def test_what_was_changed_is_restored_and_a_second_kill_too(self):
        g = self.gateway()
        elsewhere = self.new_model("elsewhere")
        made = self.create(g, session_id="t")
        self.call(g, made["token"])
        g.admin("PATCH", "/sessions/t", {"llm_urls": [elsewhere.url, self.model.url]})
        g.admin("PATCH", "/sessions/t", {"llm_url": elsewhere.url, "level": "logprobs"})
        g.admin("PATCH", "/sessions/t", {"policy_version": "step-9", "model": "m9"})
        for life in range(2):
            g.stop(signal.SIGKILL)
            g = self.gateway()
            _, shown = g.admin("GET", "/sessions/t")
            self.assertEqual((shown["llm_urls"], shown["capture_level"], shown["policy_version"],
                              shown["model"], shown["n_turns"]),
                             ([elsewhere.url], "logprobs", "step-9", "m9", 1 + life))
            self.call(g, made["token"])
        self.assertEqual([t["turn"] for t in self.turns(g, "t")], [1, 2, 3])
        self.assertEqual(len(elsewhere.requests()), 2)
        self.assertNotIn(ENGINE_KEY, json.dumps(elsewhere.requests()))

    def test_a_session_whose_key_came_inline_answers_401_until_it_is_given_again(self):
        g = self.gateway()
        other = self.new_model("other", api_key=OTHER_KEY)
        made = self.create(g, session_id="k", llm_url=other.url, api_key=OTHER_KEY)
        self.call(g, made["token"])
        g.stop(signal.SIGKILL)
        g = self.gateway()
        self.assertTrue(g.admin("GET", "/sessions/k")[1]["lacks_key"])
        body = self.call(g, made["token"], want=401)
        self.assertIn("give it again", body["error"]["message"])
        self.assertEqual(len(other.requests()), 1)
        self.assertEqual(g.admin("PATCH", "/sessions/k", {"policy_version": 1})[0], 200)
        self.call(g, made["token"], want=401)
        status, shown = g.admin("PATCH", "/sessions/k", {"api_key": OTHER_KEY})
        self.assertEqual((status, shown["lacks_key"]), (200, False))
        self.call(g, made["token"])
        self.assertEqual([t["turn"] for t in self.turns(g, "k")], [1, 2])
        for path in self.journal.rglob("*.log"):
            for secret in (OTHER_KEY, ENGINE_KEY, made["token"]):
                self.assertNotIn(secret.encode(), path.read_bytes())

    def test_a_gateway_that_has_no_key_any_more_does_not_send_without(self):
        g = self.gateway()
        made = self.create(g, session_id="k")
        g.stop(signal.SIGKILL)
        g = self.gateway(engine_key=None)
        self.call(g, made["token"], want=401)
        self.assertEqual(self.model.requests(), [])
        g.stop(signal.SIGKILL)
        g = self.gateway()
        self.call(g, made["token"])

    def test_an_id_that_is_the_token_is_known_again_by_its_digest(self):
        g = self.gateway(sessions="--openenv-sessions")
        made = self.create(g, session_id="s-secret-0123456789abcdef")
        self.call(g, made["token"])
        g.stop(signal.SIGKILL)
        g = self.gateway(sessions="--openenv-sessions")
        _, listed = g.admin("GET", "/sessions")
        self.assertEqual([(s["session_id"], s["name"]) for s in listed["sessions"]],
                         [(None, made["name"])])
        self.call(g, made["token"])
        self.assertEqual(len(self.turns(g, made["session_id"])), 2)
        self.assertEqual(g.admin("POST", "/sessions", {"session_id": made["session_id"]})[0], 409)
        self.assertEqual(g.admin("DELETE", f"/sessions/{made['session_id']}")[0], 200)
        self.call(g, made["token"], want=401)
        g.stop(signal.SIGKILL)
        g = self.gateway(sessions="--openenv-sessions")
        self.assertEqual(g.admin("GET", "/sessions")[1]["sessions"], [])

    def test_what_was_ended_stays_ended_and_lends_nothing_to_its_name(self):
        g = self.gateway()
        first = self.create(g, session_id="t")
        for _ in range(3):
            self.call(g, first["token"], "of the first")
        g.admin("DELETE", "/sessions/t")
        gone = self.create(g, session_id="gone")
        g.admin("DELETE", "/sessions/gone")
        second = self.create(g, session_id="t")
        self.call(g, second["token"], "of the second")
        g.stop(signal.SIGKILL)
        g = self.gateway()
        self.assertEqual(g.admin("GET", "/sessions/gone")[0], 404)
        for token in (first["token"], gone["token"]):
            self.call(g, token, want=401)
        self.call(g, second["token"], "of the second")
        self.assertEqual([(t["turn"], t["request"]["messages"][0]["content"])
                          for t in self.turns(g, "t")],
                         [(1, "of the second"), (2, "of the second")])
        g.stop(signal.SIGTERM)  # An orderly end ends its sessions.
        g = self.gateway()
        self.assertEqual(g.admin("GET", "/sessions")[1]["sessions"], [])

    def test_of_gateways_that_start_at_once_one_has_each_session(self):
        g = self.gateway()
        tokens = {i: self.create(g, session_id=f"t-{i}")["token"] for i in range(20)}
        for token in tokens.values():
            self.call(g, token)
        g.stop(signal.SIGKILL)
        started = []
        threads = [threading.Thread(target=lambda: started.append(self.gateway()))
                   for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(started), 4)
        owners = {}
        for g in started:
            for s in g.admin("GET", "/sessions")[1]["sessions"]:
                self.assertNotIn(s["session_id"], owners)
                owners[s["session_id"]] = g
        self.assertEqual(sorted(owners), sorted(f"t-{i}" for i in tokens))
        for i, token in tokens.items():
            for g in started:
                self.call(g, token, want=200 if g is owners[f"t-{i}"] else 401)
            self.assertEqual([t["turn"] for t in self.turns(owners[f"t-{i}"], f"t-{i}")], [1, 2])


if __name__ == "__main__":
    tap.main()
