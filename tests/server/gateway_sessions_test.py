#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Many sessions for an admin: gateway_sessions_test.py SNAFFLE MODEL. Speaks TAP."""
import http.client
import os
import json
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

tap.need("openai")
tap.need("prometheus_client")
import openai  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from programs import Gateway, Model, side_by_side, until  # noqa: E402

SNAFFLE, MODEL = [os.path.abspath(sys.argv[1]), "gateway"], os.path.abspath(sys.argv[2])
ADMIN = "admin-key-0123456789"
ENGINE_KEY = "engine-key-0123456789"
SLOW = {"when": {"user_has": "slow"}, "event_delay_ms": 50, "reply": {"words": 100}}


class Sessions(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.model = self.new_model("model")

    def new_model(self, name, **script):
        model = Model(MODEL, self.scratch.name, {"scenes": [SLOW], "any_model": True, **script},
                      name)
        self.addCleanup(model.kill)
        return model

    def gateway(self, *args, sessions="--sessions", upstream=True):
        url = ["--upstream-url", self.model.url] if upstream else []
        g = Gateway(SNAFFLE, sessions, *url, *args, folder=self.scratch.name, key=ADMIN,
                    env={"SNAFFLE_GATEWAY_KEY": ADMIN, "UPSTREAM_API_KEY": ENGINE_KEY})
        self.addCleanup(g.stop)
        return g

    def create(self, g, **body):
        status, made = g.admin("POST", "/sessions", body)
        self.assertEqual(status, 200, made)
        return made

    def test_a_session_is_opened_used_read_and_ended(self):
        g = self.gateway()
        made = self.create(g, session_id="task-1", metadata={"seed": 3}, model="served")
        self.assertEqual((made["session_id"], made["name"], made["metadata"]),
                         ("task-1", "task-1", {"seed": 3}))
        self.assertEqual((made["capture_level"], made["rollout_type"], made["model"]),
                         ("tokens", "train", "served"))
        self.assertEqual(made["llm_url"], self.model.url)
        self.assertNotEqual(made["token"], made["session_id"])
        with openai.OpenAI(base_url=g.url, api_key=made["token"], max_retries=0) as client:
            client.chat.completions.create(model="x", messages=[{"role": "user", "content": "a"}])
        with openai.OpenAI(base_url=f"http://127.0.0.1:{g.port}/s/{made['token']}/v1",
                           api_key="any", max_retries=0) as client:
            client.chat.completions.create(model="x", messages=[{"role": "user", "content": "b"}])
        _, shown = g.admin("GET", "/sessions/task-1")
        self.assertEqual((shown["n_turns"], shown["n_open"], shown["upstream_errors"]), (2, 0, 0))
        self.assertGreater(shown["completion_tokens"], 0)
        self.assertNotIn("token", shown)
        _, listed = g.admin("GET", "/sessions")
        self.assertEqual([s["session_id"] for s in listed["sessions"]], ["task-1"])
        _, lines = g.admin("GET", "/sessions/task-1/trace")
        turns = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([t["turn"] for t in turns], [1, 2])
        self.assertEqual({t["session"] for t in turns}, {"task-1"})
        self.assertEqual(turns[0]["request"]["model"], "served")
        _, got = g.admin("GET", "/sessions/task-1/trace_entries")
        self.assertEqual((got["session_id"], len(got["entries"])), ("task-1", 2))
        for e in got["entries"]:
            n, all_ids = len(e["prompt_token_ids"]), len(e["loss_mask"])
            self.assertEqual(all_ids, n + len(e["completion_token_ids"]))
            self.assertEqual(e["loss_mask"], [0] * n + [1] * (all_ids - n))
            self.assertEqual(len(e["per_token_logps"]), all_ids - n)
            self.assertEqual(e["request"]["messages"][0]["role"], "user")
            self.assertEqual(len(e["response"]["choices"]), 1)
        self.assertEqual(g.admin("DELETE", "/sessions/task-1"), (200, {"deleted": True}))
        self.assertEqual(g.admin("GET", "/sessions/task-1"),
                         (404, {"error": "unknown session"}))
        self.assertEqual(g.call(key=made["token"])[0], 401)
        self.create(g, session_id="task-1")  # The name is free again.

    def test_the_admin_s_key_and_a_session_s_are_not_one_another_s(self):
        g = self.gateway()
        made = self.create(g)
        for key in (None, "wrong", made["token"]):
            for method, path in (("GET", "/sessions"), ("POST", "/sessions"),
                                 ("DELETE", f"/sessions/{made['session_id']}"),
                                 ("PUT", "/upstreams"), ("GET", "/metrics")):
                self.assertEqual(g.ask(method, path, key=key)[0], 401, (method, path, key))
        self.assertEqual(g.call(key=ADMIN)[0], 401)
        self.assertEqual(g.call()[0], 401)
        self.assertEqual(g.call(key=made["token"])[0], 200)
        status, health = g.ask("GET", "/health")
        self.assertEqual((status, health["status"], health["sessions"], health["upstreams"]),
                         (200, "ok", 1, []))
        self.assertEqual(len(g.admin("GET", "/health")[1]["upstreams"]), 1)
        self.assertNotIn(ENGINE_KEY, json.dumps(g.admin("GET", "/health")))

    def test_with_openenv_sessions_the_id_is_the_token_and_stands_in_no_record(self):
        g = self.gateway(sessions="--openenv-sessions")
        made = self.create(g, session_id="s-secret-0123456789abcdef")
        self.assertEqual(made["token"], made["session_id"])
        self.assertNotEqual(made["name"], made["session_id"])
        self.assertEqual(g.call(key=made["session_id"])[0], 200)
        _, lines = g.admin("GET", f"/sessions/{made['session_id']}/trace")
        self.assertEqual(json.loads(lines)["session"], made["name"])
        generated = self.create(g)
        self.assertRegex(generated["session_id"], r"^s[0-9a-f]{24}$")
        self.assertEqual(g.call(key=generated["session_id"])[0], 200)
        g.stop()
        for path in pathlib.Path(self.scratch.name, "gateway-journal").rglob("*.log"):
            self.assertNotIn(made["session_id"].encode(), path.read_bytes())

    def test_sessions_have_their_own_engine_key_model_and_level(self):
        g = self.gateway()
        other = self.new_model("other", api_key="other-key-0123456789")
        one = self.create(g, llm_url=other.url, api_key="other-key-0123456789", model="m2",
                          level="logprobs")
        self.assertEqual((one["llm_url"], one["capture_level"], one["rollout_type"]),
                         (other.url, "logprobs", "eval"))
        keyless = self.create(g, llm_url=other.url)
        self.assertEqual(g.call(key=one["token"])[0], 200)
        self.assertEqual(g.call(key=keyless["token"])[0], 401)  # The engine's own answer.
        asked = other.requests()
        self.assertEqual(json.loads(asked[0]["body"])["model"], "m2")
        self.assertNotIn("return_token_ids", json.loads(asked[0]["body"]))
        self.assertNotIn(ENGINE_KEY, json.dumps(asked))
        self.assertEqual(self.model.requests(), [])

    def test_without_any_engine_a_call_says_so(self):
        g = self.gateway(upstream=False)
        made = self.create(g)
        status, body = g.call(key=made["token"])
        self.assertEqual(status, 503)
        self.assertIn("no inference engine", json.dumps(body))

    def test_a_change_holds_for_each_call_begun_after_its_answer(self):
        g = self.gateway("--workers", "3")
        made = self.create(g, session_id="v", policy_version=0)
        stop = threading.Event()
        changed = [0]
        wrong = []

        def change():
            for version in range(1, 60):
                assert g.admin("PATCH", "/sessions/v", {"policy_version": version})[0] == 200
                changed[0] = version
            stop.set()

        def work(i):
            if i == 0:
                change()
                return
            while not stop.is_set():
                least = changed[0]
                status, body = g.call(f"least {least}", key=made["token"])
                if status != 200:
                    wrong.append(body)
        self.assertEqual(side_by_side(5, work), [])
        self.assertEqual(wrong, [])
        _, lines = g.admin("GET", "/sessions/v/trace")
        turns = [json.loads(line) for line in lines.splitlines()]
        self.assertGreater(len(turns), 20)
        for t in turns:
            least = int(t["request"]["messages"][0]["content"].split()[1])
            self.assertGreaterEqual(t["policy_version"], least)

    def test_a_changed_engine_takes_every_call_begun_after(self):
        g = self.gateway("--workers", "2")
        other = self.new_model("other")
        made = self.create(g, session_id="m")
        self.assertEqual(g.call("one", key=made["token"])[0], 200)
        status, shown = g.admin("PATCH", "/sessions/m", {"llm_url": other.url, "model": "new"})
        self.assertEqual((status, shown["llm_url"], shown["model"]), (200, other.url, "new"))
        self.assertEqual(side_by_side(
            8, lambda i: self.assertEqual(g.call("two", key=made["token"])[0], 200)), [])
        self.assertEqual(len(self.model.requests()), 1)
        self.assertEqual(len(other.requests()), 8)

    def test_an_end_aborts_open_calls_or_waits_for_them(self):
        g = self.gateway()
        for name, query, end in (("a", "", "client_abort"), ("b", "?wait_s=60", "complete")):
            made = self.create(g, session_id=name)
            done = []
            t = threading.Thread(target=lambda: done.append(self.try_slow(g, made["token"])))
            t.start()
            until(lambda: g.admin("GET", f"/sessions/{name}")[1]["n_open"] == 1, "an open call")
            self.assertEqual(g.admin("DELETE", f"/sessions/{name}{query}"),
                             (200, {"deleted": True}))
            t.join()
            self.assertEqual(done[0], end == "complete")

    def test_the_program_s_end_does_not_wait_for_an_end_that_waits(self):
        g = self.gateway("--drain", "0.2")
        made = self.create(g, session_id="a")
        self.create(g, session_id="idle")
        calls = [threading.Thread(target=self.try_slow, args=(g, made["token"])),
                 threading.Thread(target=self.try_admin, args=(g, "/sessions/a?wait_s=60"))]
        calls[0].start()
        until(lambda: g.admin("GET", "/sessions/a")[1]["n_open"] == 1, "an open call")
        calls[1].start()
        until(lambda: g.admin("GET", "/sessions/a")[0] == 404, "the end's begin")
        self.assertNotEqual(g.call("late", key=made["token"])[0], 200)
        before = time.monotonic()
        g.process.send_signal(signal.SIGTERM)
        self.assertEqual(g.process.wait(30), 0, g.errors())
        self.assertLess(time.monotonic() - before, 20)
        for t in calls:
            t.join()

    @staticmethod
    def try_admin(g, path):
        try:
            g.admin("DELETE", path)
        except (OSError, ValueError, http.client.HTTPException):
            pass  # It may be cut off with the program.

    def test_many_admins_and_agents_at_random_do_not_disturb_the_end(self):
        g = self.gateway("--workers", "3", "--drain", "0.3")
        stop = threading.Event()

        def work(number):
            chance = random.Random(number)
            tokens = ["none"]
            while not stop.is_set():
                one = f"/sessions/s{chance.randrange(4)}"
                steps = {
                    "open": lambda one=one: tokens.append(g.admin(
                        "POST", "/sessions", {"session_id": one[10:]})[1].get("token", "none")),
                    "end": lambda one=one: self.try_admin(
                        g, f"{one}?wait_s={chance.choice((0, 60))}&forget={chance.randrange(2)}"),
                    "change": lambda one=one: g.admin("PATCH", one, {"policy_version": number}),
                    "trace": lambda one=one: g.admin("GET", f"{one}/trace"),
                    "entries": lambda one=one: g.admin("GET", f"{one}/trace_entries"),
                    "list": lambda: g.admin("GET", "/sessions"),
                    "call": lambda: g.call(chance.choice(("x", "slow")), key=tokens[-1]),
                }
                try:
                    steps[chance.choice(list(steps))]()
                except (OSError, http.client.HTTPException):
                    pass  # The gateway ends meanwhile.
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        time.sleep(2)
        g.process.send_signal(signal.SIGTERM)
        self.assertEqual(g.process.wait(30), 0, g.errors())
        stop.set()
        for t in threads:
            t.join()

    def records(self):
        return sum(p.stat().st_size for p in pathlib.Path(self.scratch.name, "j").rglob("*.log"))

    def test_the_records_of_a_session_go_when_the_admin_says_so_and_no_sooner(self):
        for args, query, goes in (((), "?wait_s=1&forget=1", True), ((), "", False),
                                  (("--forget",), "", True), (("--forget",), "?forget=0", False)):
            g = self.gateway(*args, "--journal", "j")
            for name in ("a", "b"):
                made = self.create(g, session_id=name)
                self.assertEqual(g.call(key=made["token"])[0], 200)
            told = {"deleted": True, **({"forgotten": True} if goes else {})}
            self.assertEqual(g.admin("DELETE", f"/sessions/a{query}"), (200, told))
            self.assertGreater(self.records(), 1000, "the other session's are there")
            self.assertEqual(g.admin("DELETE", f"/sessions/b{query}"), (200, told))
            g.stop()
            self.assertEqual(self.records() > 0, not goes, (args, query))
            for old in pathlib.Path(self.scratch.name, "j").rglob("*.log"):
                old.unlink()

    @staticmethod
    def try_slow(g, token):
        try:
            status, body = g.call("slow", key=token, stream=True)
            return status == 200 and "[DONE]" in body
        except (OSError, ValueError, Exception):  # pylint: disable=broad-except
            return False

    def test_an_admin_s_body_has_a_limit_of_its_own_and_an_agent_s_does_not_share_it(self):
        g = self.gateway()
        empty = json.dumps({"session_id": "big", "metadata": {"note": ""}})
        fits = empty[:-3] + "x" * ((1 << 20) - len(empty)) + empty[-3:]
        self.assertEqual(len(fits), 1 << 20)
        status, made = g.admin("POST", "/sessions", fits)
        self.assertEqual(status, 200, made)
        for headers in ({}, {"Transfer-Encoding": "chunked"}):
            conn = http.client.HTTPConnection("127.0.0.1", g.port, timeout=30)
            conn.putrequest("POST", "/sessions")
            for field, value in {"Authorization": f"Bearer {g.key}", **(
                    headers or {"Content-Length": str((1 << 20) + 1)})}.items():
                conn.putheader(field, value)
            conn.endheaders()
            if headers:
                conn.send(f"{(1 << 20) + 1:x}\r\n".encode() + b" " * ((1 << 20) + 1))
            self.assertEqual(conn.getresponse().status, 413)
            conn.close()
        # Of an agent's token nothing is read here, however little it is.
        conn = http.client.HTTPConnection("127.0.0.1", g.port, timeout=30)
        conn.putrequest("POST", "/sessions")
        conn.putheader("Authorization", f"Bearer {made['token']}")
        conn.putheader("Content-Length", "1000")
        conn.endheaders()
        answer = conn.getresponse()
        self.assertEqual((answer.status, answer.getheader("Connection")), (401, "close"))
        conn.close()
        self.assertEqual(g.call(user="x" * (2 << 20), key=made["token"])[0], 200)

    def test_bad_input_is_one_clear_line_and_a_4xx(self):
        g = self.gateway()
        self.create(g, session_id="taken")
        for method, path, body, status, says in (
                ("POST", "/sessions", "{", 400, "no valid JSON"),
                ("POST", "/sessions", [], 400, "want an object"),
                ("POST", "/sessions", {"modle": 1}, 400, "did you mean 'model'"),
                ("POST", "/sessions", {"model": 1}, 400, "want a string"),
                ("POST", "/sessions", {"session_id": "../x"}, 400, "session_id"),
                ("POST", "/sessions", {"session_id": "taken"}, 409, "end it first"),
                ("POST", "/sessions", {"llm_url": "ftp://x"}, 400, "http://"),
                ("POST", "/sessions", {"llm_urls": []}, 400, "at least one"),
                ("POST", "/sessions", {"level": "all"}, 400, "none of"),
                ("POST", "/sessions", {"policy_version": 1.5}, 400, "policy_version"),
                ("POST", "/sessions", {"auth_header": "x-api-key"}, 501, "auth_header"),
                ("PATCH", "/sessions/taken", {"session_id": "x"}, 400, "unknown field"),
                ("PATCH", "/sessions/none", {}, 404, "unknown session"),
                ("DELETE", "/sessions/taken?wait_s=x", None, 400, "wait_s"),
                ("DELETE", "/sessions/taken?forget=2", None, 400, "forget"),
                ("PUT", "/sessions/taken", {}, 405, "GET, PATCH or DELETE"),
                ("PUT", "/upstreams", {}, 400, "llm_url"),
                ("POST", "/metrics", None, 405, "GET"),
                ("GET", "/sessions/taken/rollouts", None, 404, "no such path")):
            got, answer = g.admin(method, path, body)
            self.assertEqual(got, status, (path, body, answer))
            self.assertIn(says, answer["error"], (path, body))
            self.assertNotIn("\n", answer["error"])

    def test_the_official_parser_reads_the_metrics_and_they_add_up(self):
        g = self.gateway("--workers", "2")
        made = self.create(g)
        self.assertEqual(side_by_side(
            10, lambda i: self.assertEqual(g.call(key=made["token"])[0], 200)), [])
        values = {}
        kinds = {}
        for family in text_string_to_metric_families(g.metrics()):
            kinds[family.name] = family.type
            for s in family.samples:
                values[(s.name, *sorted(s.labels.items()))] = s.value
        p = "snaffle_gateway_"
        self.assertEqual(kinds[p + "added_seconds"], "histogram")
        self.assertEqual(kinds[p + "calls"], "counter")
        self.assertEqual(values[(p + "calls_begun_total",)], 10)
        self.assertEqual(values[(p + "calls_stored_total",)], 10)
        self.assertEqual(values[(p + "calls_unstored",)], 0)
        self.assertEqual(values[(p + "calls_total", ("end", "complete"))], 10)
        self.assertEqual(values[(p + "calls_total", ("end", "client_abort"))], 0)
        self.assertGreater(values[(p + "tokens_total", ("kind", "completion"))], 0)
        self.assertGreater(values[(p + "tokens_total", ("kind", "prompt"))], 0)
        self.assertEqual(values[(p + "added_seconds_count",)], 10)
        self.assertEqual(values[(p + "added_seconds_bucket", ("le", "+Inf"))], 10)
        self.assertGreater(values[(p + "resident_memory_bytes",)], 1e6)
        self.assertEqual(values[(p + "upstream_up", ("upstream", self.model.url))], 1)


if __name__ == "__main__":
    tap.main()
