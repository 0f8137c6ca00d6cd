#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reload and end under load, without a lost call: gateway_drain_test.py SNAFFLE MODEL.
Speaks TAP."""
import os
import http.client
import json
import pathlib
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import Gateway, Model, side_by_side, trace_of, until  # noqa: E402

SNAFFLE, MODEL = [os.path.abspath(sys.argv[1]), "gateway"], os.path.abspath(sys.argv[2])
CLIENTS = 12
SCRIPT = {"any_model": True, "scenes": [
    {"when": {"user_has": "slow"}, "event_delay_ms": 100, "reply": {"words": 300}},
    {"event_delay_ms": 3, "reply": {"words": 15}}]}


def body_of(text):
    return json.dumps({"model": "m", "stream": True,
                       "messages": [{"role": "user", "content": text}]})


class Client:
    """Calls over one connection as long as the gateway takes them."""

    def __init__(self, port):
        self.conn = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.answered = 0
        self.broken = []  # A request was sent, and no whole answer came.

    def call(self):
        """False: the gateway is gone, and said so before it took a request."""
        try:
            if self.conn.sock is None:
                self.conn.connect()
        except OSError:
            return False
        try:
            self.conn.request("POST", "/v1/chat/completions", body_of("x"))
            answer = self.conn.getresponse()
            text = answer.read().decode()
            if answer.status != 200 or "[DONE]" not in text:
                self.broken.append((answer.status, text[-80:]))
            self.answered += 1
            return True
        except (OSError, http.client.HTTPException) as e:
            self.broken.append(repr(e))
            return False


class Drain(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.models = [Model(MODEL, self.scratch.name, SCRIPT, f"m{i}") for i in range(2)]
        for m in self.models:
            self.addCleanup(m.kill)
        self.trace = pathlib.Path(self.scratch.name, "trace.jsonl")

    def gateway(self, *args):
        g = Gateway(SNAFFLE, "--trace", self.trace, *args, folder=self.scratch.name)
        self.addCleanup(g.stop)
        return g

    def load(self, g, meanwhile):
        clients = [Client(g.port) for _ in range(CLIENTS)]
        stop = threading.Event()

        def work(i):
            if i == CLIENTS:
                meanwhile()
                stop.set()
                return
            while not stop.is_set() and clients[i].call():
                pass
        self.assertEqual(side_by_side(CLIENTS + 1, work), [])
        return clients

    def check(self, clients):
        self.assertEqual([b for c in clients for b in c.broken], [])
        turns = trace_of(self.trace)
        self.assertEqual(len(turns), sum(c.answered for c in clients))
        self.assertEqual({t["end"] for t in turns}, {"complete"})
        self.assertEqual(sorted(t["turn"] for t in turns), list(range(1, len(turns) + 1)))
        return len(turns)

    def test_sigterm_under_load_loses_no_call(self):
        for workers in (1, 3):
            self.trace.unlink(missing_ok=True)
            g = self.gateway("--upstream-url", self.models[0].url, "--workers", workers)

            def end():
                until(lambda: "calls_stored_total 3" in g.metrics(), "thirty calls or more")
                g.process.send_signal(signal.SIGTERM)
                g.process.wait(30)
            clients = self.load(g, end)
            self.assertEqual(g.stop(), 0)
            self.assertGreater(self.check(clients), CLIENTS)

    def test_reloads_under_load_lose_no_call(self):
        path = pathlib.Path(self.scratch.name, "upstreams")
        path.write_text(self.models[0].url)
        g = self.gateway("--upstream-file", path, "--workers", "2")

        def reload():
            for n in range(20):
                path.write_text(self.models[n % 2].url + "\n")
                g.process.send_signal(signal.SIGHUP)
                time.sleep(0.03)
        clients = self.load(g, reload)
        self.assertEqual(g.stop(), 0)
        self.check(clients)
        for m in self.models:
            self.assertGreater(len(m.requests()), 0)

    def test_what_does_not_end_in_time_is_aborted_and_recorded(self):
        g = self.gateway("--upstream-url", self.models[0].url, "--drain", "0.5")
        self.slow_call_ends(g, 1)

    def test_a_second_signal_does_not_wait(self):
        g = self.gateway("--upstream-url", self.models[0].url, "--drain", "600")
        self.slow_call_ends(g, 2)

    def slow_call_ends(self, g, signals):
        conn = http.client.HTTPConnection("127.0.0.1", g.port, timeout=60)
        conn.request("POST", "/v1/chat/completions", body_of("slow"))
        answer = conn.getresponse()
        self.assertTrue(answer.fp.readline())
        for _ in range(signals):
            g.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        with self.assertRaises((http.client.HTTPException, OSError)):
            while answer.read(65536):
                pass
        self.assertEqual(g.process.wait(30), 0)
        conn.close()
        turns = trace_of(self.trace)
        self.assertEqual([t["end"] for t in turns], ["client_abort"])
        self.assertGreater(len(turns[0]["completion_token_ids"]), 0)


if __name__ == "__main__":
    tap.main()
