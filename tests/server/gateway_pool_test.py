#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several engines of one model behind one gateway: gateway_pool_test.py SNAFFLE MODEL.
Speaks TAP."""
import os
import collections
import json
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import Gateway, Model, side_by_side, until  # noqa: E402

SNAFFLE, MODEL = [os.path.abspath(sys.argv[1]), "gateway"], os.path.abspath(sys.argv[2])
ADMIN = "admin-key-0123456789"
SCRIPT = {"any_model": True, "scenes": [
    {"when": {"user_has": "slow"}, "event_delay_ms": 40, "reply": {"words": 40}}]}


class Pool(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.models = [Model(MODEL, self.scratch.name, SCRIPT, f"m{i}") for i in range(3)]
        for m in self.models:
            self.addCleanup(m.kill)

    def gateway(self, *args):
        g = Gateway(SNAFFLE, "--sessions", *args, folder=self.scratch.name, key=ADMIN,
                    env={"SNAFFLE_GATEWAY_KEY": ADMIN})
        self.addCleanup(g.stop)
        return g

    def pooled(self, *args):
        return self.gateway(*[a for m in self.models for a in ("--upstream-url", m.url)], *args)

    @staticmethod
    def create(g, **body):
        status, made = g.admin("POST", "/sessions", body)
        assert status == 200, made
        return made

    def counts(self):
        return [len(m.requests()) for m in self.models]

    def engine_of(self, mark):
        """Which engines were asked with this text."""
        return [i for i, m in enumerate(self.models) for r in m.requests() if mark in r["body"]]

    def test_sessions_are_spread_and_each_stays_where_it_is(self):
        g = self.pooled("--workers", "2")
        made = [self.create(g) for _ in range(6)]
        for n in range(4):
            for i, s in enumerate(made):
                self.assertEqual(g.call(f"mark-{i}- call {n}", key=s["token"])[0], 200)
        places = [self.engine_of(f"mark-{i}-") for i in range(6)]
        for p in places:
            self.assertEqual((len(p), len(set(p))), (4, 1), places)
        self.assertEqual(sorted(collections.Counter(p[0] for p in places).values()), [2, 2, 2])

    def test_a_new_session_goes_to_the_least_busy(self):
        g = self.pooled()
        busy = [self.create(g) for _ in range(2)]

        def work(i):
            if i < 2:
                self.assertEqual(g.call(f"slow busy-{i}-", key=busy[i]["token"], stream=True)[0],
                                 200)
                return
            until(lambda: g.metrics().count("calls_open 2\n"), "two open calls")
            taken = set(self.engine_of("busy-"))
            for n in range(3):
                fresh = self.create(g)
                self.assertEqual(g.call(f"fresh-{n}-", key=fresh["token"])[0], 200)
                self.assertNotIn(self.engine_of(f"fresh-{n}-")[0], taken)
        self.assertEqual(side_by_side(3, work), [])

    def test_an_engine_that_dies_is_left_out_without_a_failed_call_and_comes_back(self):
        g = self.pooled("--workers", "2")
        made = [self.create(g) for _ in range(6)]
        for s in made:
            self.assertEqual(g.call("warm", key=s["token"])[0], 200)
        self.models[0].kill()
        before = self.counts()
        raised = side_by_side(6, lambda i: [
            self.assertEqual(g.call("x", key=made[i]["token"])[0], 200) for _ in range(5)])
        self.assertEqual(raised, [])
        after = self.counts()
        self.assertEqual(after[0], before[0])
        self.assertEqual(sum(after) - sum(before), 30)
        _, shown = g.admin("GET", "/upstreams")
        self.assertEqual({u["llm_url"]: u["available"] for u in shown["upstreams"]}[
            self.models[0].url], False)
        self.assertIn("calls_moved_total", g.metrics())
        _, health = g.admin("GET", "/metrics")
        self.assertIn(f'upstream_up{{upstream="{self.models[0].url}"}} 0', health)
        self.models[0].start()

        def is_back():
            fresh = self.create(g)
            self.assertEqual(g.call("fresh", key=fresh["token"])[0], 200)
            return len(self.models[0].requests()) > before[0]
        until(is_back, "the engine to be asked again")
        _, shown = g.admin("GET", "/upstreams")
        self.assertTrue(all(u["available"] for u in shown["upstreams"]))

    def test_when_all_are_dead_the_agent_is_told_and_all_come_back(self):
        g = self.pooled()
        s = self.create(g)
        for m in self.models:
            m.kill()
        status, body = g.call("x", key=s["token"])
        self.assertEqual(status, 502, body)
        self.assertIn("cannot connect", json.dumps(body))
        for m in self.models:
            m.start()
        until(lambda: g.call("x", key=s["token"])[0] == 200, "an answer")

    def test_upstreams_are_replaced_by_the_admin_for_each_call_after(self):
        g = self.gateway("--upstream-url", self.models[0].url, "--workers", "2")
        s = self.create(g)
        self.assertEqual(g.call("one", key=s["token"])[0], 200)
        status, _ = g.admin("PUT", "/upstreams", {"llm_urls": [self.models[1].url]})
        self.assertEqual(status, 200)
        self.assertEqual(side_by_side(
            6, lambda i: self.assertEqual(g.call("two", key=s["token"])[0], 200)), [])
        self.assertEqual(self.counts(), [1, 6, 0])

    def test_sighup_reads_the_upstream_file_again_and_keeps_what_was_if_it_is_bad(self):
        path = pathlib.Path(self.scratch.name, "upstreams")
        path.write_text(f"# the first\n\n  {self.models[0].url}  \r\n")
        g = self.gateway("--upstream-file", path)
        s = self.create(g)
        self.assertEqual(g.call("one", key=s["token"])[0], 200)
        path.write_text("nowhere\n")
        g.process.send_signal(signal.SIGHUP)
        until(lambda: "stay as they were" in g.errors(), "the complaint")
        self.assertEqual(g.call("two", key=s["token"])[0], 200)
        self.assertEqual(self.counts(), [2, 0, 0])
        path.write_text(self.models[2].url)
        g.process.send_signal(signal.SIGHUP)
        until(lambda: self.models[2].url in json.dumps(g.admin("GET", "/sessions/"
                                                                + s["session_id"])[1]), "the new")
        self.assertEqual(g.call("three", key=s["token"])[0], 200)
        self.assertEqual(self.counts(), [2, 0, 1])

    def test_a_session_may_have_a_pool_of_its_own(self):
        g = self.gateway("--upstream-url", self.models[0].url)
        s = self.create(g, llm_urls=[self.models[1].url, self.models[2].url])
        self.assertEqual(s["llm_urls"], [self.models[1].url, self.models[2].url])
        self.models[1].kill()
        for _ in range(3):
            self.assertEqual(g.call("x", key=s["token"])[0], 200)
        self.assertEqual(self.counts()[0], 0)
        self.assertEqual(self.counts()[2], 3)


if __name__ == "__main__":
    tap.main()
