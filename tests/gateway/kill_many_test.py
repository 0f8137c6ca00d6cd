#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Thousands of calls over gateways that are killed: what the clients saw end is in the journal, once.

kill_many_test.py SNAFFLE SCRIPTED_MODEL TRACE_OF [--long]. Speaks TAP.
"""
import collections
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "server"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import Gateway, Model, until  # noqa: E402

SNAFFLE, MODEL, TRACE_OF = (os.path.abspath(p) for p in sys.argv[1:4])
CALLS = 100_000 if "--long" in sys.argv else 10_000
KILLS = 4
CLIENTS = 16
PATIENCE_S = 60
ADMIN = "admin-key-0123456789"
MARKER = re.compile(r"marker-\d+-")
LATE_EVERY = 31  # Calls, of which one is slow enough for a kill to meet it; odd: of both kinds.
SCRIPT = {"any_model": True, "scenes": [
    {"when": {"user_has": "late"}, "delay_ms": 30, "event_delay_ms": 10,
     "reply": {"text": "Yes, late."}},
    {"reply": {"text": "Yes."}}]}


class Load:
    """The calls, by number, each made once; `alive`: the life, its keys, its port."""

    def __init__(self):
        self.lock = threading.Lock()
        self.next, self.alive = 0, None
        self.up = threading.Event()
        self.late = set()  # Clients in the middle of a slow call.
        self.seen = {}     # Marker: the session, and the answer's id as the engine gave it.
        self.unseen = {}   # Marker: the session; the gateway went before the answer's end.
        self.wrong = []

    def take(self):
        with self.lock:
            number, self.next = self.next, self.next + 1
            return number if number < CALLS else None

    def client(self, me):
        number = self.take()
        conn = None
        while number is not None:
            if conn is None:
                self.up.wait()
                _, keys, port = self.alive
                conn = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
                try:
                    conn.connect()
                except OSError:  # Nothing was sent: the call is still to be made.
                    conn = None
                    continue
            if not self.call(conn, number, me, keys[me], f"client-{me}"):
                conn.close()
                conn = None
            number = self.take()

    def call(self, conn, number, me, key, session):
        """False: the connection is of no more use."""
        marker, stream = f"marker-{number}-", number % 2 == 1
        late = number % LATE_EVERY == 0
        body = {"model": "m", "stream": stream, "messages": [
            {"role": "user", "content": marker + ("late" if late else "")}]}
        if late:
            self.late.add(me)
        try:
            conn.request("POST", "/v1/chat/completions", json.dumps(body),
                         {"Authorization": f"Bearer {key}"})
            answer = conn.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            self.unseen[marker] = session
            return False
        finally:
            self.late.discard(me)
        if answer.status != 200 or (stream and not text.endswith("data: [DONE]\n\n")):
            self.wrong.append((marker, answer.status, text[-200:]))
            return False
        first = json.loads(text.split("\n", 1)[0].removeprefix("data: ")) if stream else json.loads(text)
        self.seen[marker] = (session, first["id"])
        return not answer.will_close


class KillMany(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="snaffle-kill-many-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.model = Model(MODEL, self.folder, SCRIPT)
        self.addCleanup(self.model.kill)

    def gateway(self, load, life):
        folder = self.folder / f"life-{life}"
        folder.mkdir()
        g = Gateway([SNAFFLE, "gateway"], "--sessions", "--workers", "2", "--upstream-url",
                    self.model.url, "--journal", self.folder / "journal", folder=folder, key=ADMIN,
                    env={"SNAFFLE_GATEWAY_KEY": ADMIN})
        self.addCleanup(g.stop)
        keys = load.alive[1] if load.alive else []
        while len(keys) < CLIENTS:  # The lives after find them in the journal.
            status, made = g.admin("POST", "/sessions", {"session_id": f"client-{len(keys)}"})
            self.assertEqual(status, 200, made)
            keys.append(made["token"])
        load.alive = (life, keys, g.port)
        load.up.set()
        return g

    def run_load(self, load):
        """Kills a gateway whenever a part of the calls is made, and a slow one is in the middle."""
        threads = [threading.Thread(target=load.client, args=(i,), daemon=True)
                   for i in range(CLIENTS)]
        gateway = self.gateway(load, 0)
        for t in threads:
            t.start()
        for life in range(1, KILLS + 1):
            while load.next < CALLS * life // (KILLS + 1):
                threads[0].join(0.01)
            until(lambda: load.late, "a slow call")
            load.up.clear()
            gateway.process.kill()
            gateway.process.wait(PATIENCE_S)
            gateway = self.gateway(load, life)
        for t in threads:
            t.join()
        self.assertEqual(gateway.stop(), 0, gateway.errors())

    def journal(self):
        """Marker: the calls that hold it, as the journal has them."""
        found = collections.defaultdict(list)
        with subprocess.Popen([TRACE_OF, self.folder / "journal"], stdout=subprocess.PIPE) as reader:
            for line in reader.stdout:
                turn = json.loads(line)
                marker = MARKER.match(turn["request"]["messages"][0]["content"])[0]
                found[marker].append(
                    {"session": turn["session"], "turn": turn["turn"], "end": turn["end"], "findings": turn["findings"],
                     "id": (turn["response"] or {}).get("id"), "usage": turn["usage"],
                     "prompt": turn["prompt_token_ids"], "ids": turn["completion_token_ids"],
                     "logps": turn["per_token_logps"]})
        self.assertEqual(reader.returncode, 0)
        return found

    def assert_whole(self, call, marker):
        self.assertEqual((call["end"], call["findings"]), ("complete", ["raw_logprobs"]), marker)
        self.assertEqual(len(call["ids"]), call["usage"]["completion_tokens"], marker)
        self.assertEqual(len(call["prompt"]), call["usage"]["prompt_tokens"], marker)
        self.assertEqual(len(call["logps"]), len(call["ids"]), marker)

    def test_each_call_that_a_client_saw_end_is_whole_in_the_journal_and_none_is_there_twice(self):
        load = Load()
        self.run_load(load)
        self.assertEqual(load.wrong, [])
        self.assertEqual(len(load.seen) + len(load.unseen), CALLS)
        self.assertGreater(len(load.unseen), 0)
        self.assertLessEqual(len(load.unseen), KILLS * CLIENTS)
        found = self.journal()
        self.assertEqual([m for m, calls in found.items() if len(calls) != 1], [])
        for marker, (session, answer_id) in load.seen.items():
            self.assertEqual([(c["session"], c["id"]) for c in found[marker]], [(session, answer_id)])
            self.assert_whole(found[marker][0], marker)
        numbers = collections.defaultdict(list)
        for calls in found.values():
            numbers[calls[0]["session"]].append(calls[0]["turn"])
        for session, turns in numbers.items():  # One sequence over all lives.
            self.assertEqual(sorted(turns), list(range(1, len(turns) + 1)), session)
        ends = collections.Counter()
        for marker, session in load.unseen.items():
            for call in found.get(marker, []):
                self.assertEqual(call["session"], session)
                ends[call["end"]] += 1
                if call["end"] != "open":
                    self.assert_whole(call, marker)
        self.assertGreater(ends["open"], 0)
        self.assertEqual(set(ends) - {"open", "complete"}, set())
        self.assertEqual(len(found), len(load.seen) + ends["open"] + ends["complete"])
        asked = collections.Counter(MARKER.search(r["body"])[0] for r in self.model.requests())
        self.assertEqual(set(asked.values()), {1})
        self.assertEqual(set(load.seen) - set(asked), set())
        self.assertEqual(set(asked) - set(found), set(), "the engine was asked without a record")
        print(f"# {len(load.seen)} ends seen; of {len(load.unseen)} others {ends['open']} are open, "
              f"{ends['complete']} whole, {len(load.unseen) - ends.total()} never came; "
              f"the engine had {len(asked)}")


if __name__ == "__main__":
    tap.main()
