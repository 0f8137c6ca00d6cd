#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`snaffle gateway` in the place of the reference's proxy: gateway_single_test.py SNAFFLE MODEL.
Speaks TAP."""
import os
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

tap.need("openai")
import openai  # noqa: E402
from programs import Gateway, Model, environment, trace_of, until  # noqa: E402

SNAFFLE, MODEL = [os.path.abspath(sys.argv[1]), "gateway"], os.path.abspath(sys.argv[2])
KEY = "sk-" + "real-0123456789"
SCRIPT = {"api_key": KEY, "any_model": True, "scenes": [
    {"when": {"user_has": "slow"}, "event_delay_ms": 30}]}


class Single(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.model = Model(MODEL, self.scratch.name, SCRIPT)
        self.addCleanup(self.model.kill)

    def gateway(self, *args, **more):
        more.setdefault("env", {"OPENCODE_UPSTREAM_API_KEY": KEY})
        g = Gateway(SNAFFLE, "--upstream-url", more.pop("upstream", self.model).url, *args, folder=self.scratch.name,
                    **more)
        self.addCleanup(g.stop)
        return g

    def refused(self, *args, env=None, stdin=""):
        done = subprocess.run([*SNAFFLE, *args], cwd=self.scratch.name, env=environment(env),
                              input=stdin, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_it_takes_the_reference_s_flags_and_its_trace_grows_with_each_call(self):
        g = self.gateway("--trace", "trace.jsonl", "--host", "127.0.0.1", "--top-logprobs", "3",
                         "--request-timeout", "60", "--max-tokens-cap", "7", "--disable-thinking",
                         "--model-override", "served")
        self.assertEqual(g.ask("GET", "/healthz"), (200, {"status": "ok"}))
        path = pathlib.Path(self.scratch.name, "trace.jsonl")
        client = openai.OpenAI(base_url=g.url, api_key="intercepted", max_retries=0)
        for n in (1, 2):
            r = client.chat.completions.create(
                model="agent/model", max_tokens=500, stream=n == 2,
                messages=[{"role": "user", "content": f"call {n}"}])
            if n == 2:
                list(r)
            until(lambda: len(path.read_text().splitlines()) == n, f"line {n}")
        client.close()
        for n, turn in enumerate(trace_of(path), 1):
            self.assertEqual(turn["turn"], n)
            sent = turn["request"]
            self.assertEqual((sent["model"], sent["max_tokens"], sent["top_logprobs"]),
                             ("served", 7, 3))
            self.assertIs(sent["chat_template_kwargs"]["enable_thinking"], False)
            self.assertEqual(len(turn["completion_token_ids"]), 7)
            self.assertEqual(len(turn["completion_tokens"]), len(turn["per_token_logps"]))
            self.assertEqual(turn["end"], "complete")
            self.assertEqual({"response", "logprobs", "finish_reason", "latency_s", "timestamp"}
                             - set(turn), set())
        asked = self.model.requests()[0]
        self.assertIn(["Authorization", f"Bearer {KEY}"],
                      [list(h) for h in asked["headers"]])

    def test_a_call_has_the_policy_s_version_that_was_named(self):
        g = self.gateway("--trace", "trace.jsonl", "--policy-version", "weights-7")
        self.assertEqual(g.call()[0], 200)
        g.stop()
        turn, = trace_of(pathlib.Path(self.scratch.name, "trace.jsonl"))
        self.assertEqual(turn["policy_version"], "weights-7")

    def test_nothing_is_written_down_where_nothing_is_to_be_recorded(self):
        g = self.gateway("--no-record", "--no-edits", "--journal", "j")
        self.assertEqual(g.call()[0], 200)
        g.stop()
        kept = b"".join(p.read_bytes() for p in pathlib.Path(self.scratch.name, "j").rglob("*.log"))
        self.assertNotIn(b"messages", kept)
        self.assertEqual(len(self.model.requests()), 1)

    def test_a_body_that_failed_so_often_is_refused_for_a_time(self):
        g = self.gateway("--loop-break", "1", "--loop-break-s", "600",
                         env={"OPENCODE_UPSTREAM_API_KEY": "wrong"})
        self.assertEqual([g.call()[0] for _ in range(4)], [401, 401, 400, 400])
        self.assertEqual(len(self.model.requests()), 2)

    def test_the_trace_is_appended_to_by_the_next_start(self):
        for n in (1, 2):
            g = self.gateway("--trace", "trace.jsonl")
            self.assertEqual(g.call()[0], 200)
            self.assertEqual(g.stop(), 0)
            self.assertEqual(len(trace_of(pathlib.Path(self.scratch.name, "trace.jsonl"))), n)

    def test_the_key_comes_from_either_variable_or_standard_input(self):
        for more in ({"env": {"UPSTREAM_API_KEY": KEY}},
                     {"env": {"OPENCODE_UPSTREAM_API_KEY": KEY, "UPSTREAM_API_KEY": "other"}}):
            g = self.gateway(**more)
            self.assertEqual(g.call()[0], 200)
            self.assertEqual(g.errors(), "")
            g.stop()
        g = self.gateway("--upstream-api-key-stdin", env={"UPSTREAM_API_KEY": "other"},
                         stdin=KEY + "\n")
        self.assertEqual(g.call()[0], 200)

    def test_a_key_on_the_command_line_is_wiped_and_warned_of(self):
        for form in (["--upstream-api-key", KEY], [f"--upstream-api-key={KEY}"]):
            g = self.gateway(*form, env={})
            seen = pathlib.Path(f"/proc/{g.process.pid}/cmdline").read_bytes()
            self.assertNotIn(KEY.encode(), seen)
            self.assertIn(b"--upstream-api-key", seen)
            self.assertEqual(g.call()[0], 200)
            self.assertEqual(len(g.errors().splitlines()), 1)
            self.assertIn("warning: --upstream-api-key", g.errors())
            self.assertNotIn(KEY, g.errors())
            g.stop()

    def test_no_secret_stands_in_trace_or_journal(self):
        g = self.gateway("--trace", "trace.jsonl", "--keep-raw")
        self.assertEqual(g.call()[0], 200)
        g.stop()
        for path in pathlib.Path(self.scratch.name).rglob("*"):
            if path.is_file() and not path.name.startswith("model"):
                self.assertNotIn(KEY.encode(), path.read_bytes(), path.name)

    def test_with_a_key_of_its_own_only_who_shows_it_is_served(self):
        g = self.gateway("--host", "0.0.0.0", env={"UPSTREAM_API_KEY": KEY,
                                                   "SNAFFLE_GATEWAY_KEY": "agents-key"})
        self.assertEqual(g.call()[0], 401)
        self.assertEqual(g.call(key="wrong")[0], 401)
        self.assertEqual(g.call(key="agents-key")[0], 200)
        for field in ("X-Api-Key", "x-goog-api-key"):
            status, _ = g.ask("POST", "/v1/chat/completions",
                              {"model": "m", "messages": [{"role": "user", "content": "x"}]},
                              headers={field: "agents-key"})
            self.assertEqual(status, 200)
        self.assertEqual(g.ask("GET", "/metrics")[0], 401)
        for asked in self.model.requests():
            self.assertNotIn("agents-key", json.dumps(asked))

    def test_what_a_run_can_say_of_its_calls_it_can_say_too(self):
        busy = Model(MODEL, self.scratch.name, {"scenes": [
            {"when": {"user_has": "busy"}, "fault": {"kind": "status", "status": 503}},
            {"reply": {"text": "Yes."}}]}, name="busy")
        self.addCleanup(busy.kill)
        g = self.gateway("--trace", "trace.jsonl", "--engine", "vllm", "--policy-version", "step-7",
                         "--neutral-sampling", "--loop-break", "2", "--loop-break-s", "300",
                         upstream=busy)
        ask = {"model": "scripted", "messages": [{"role": "user", "content": "busy"}]}
        self.assertEqual([g.ask("POST", "/v1/chat/completions", ask)[0] for _ in range(5)],
                         [503] * 3 + [400] * 2)
        self.assertEqual(g.call()[0], 200)
        g.stop()
        self.assertEqual(len(busy.requests()), 4)
        lines = trace_of(pathlib.Path(self.scratch.name, "trace.jsonl"))
        self.assertEqual([t["status"] for t in lines], [503] * 3 + [200])
        self.assertEqual([t["policy_version"] for t in lines], ["step-7"] * 4)
        self.assertEqual([t["engine"] for t in lines], ["vllm"] * 4)
        self.assertEqual(lines[3]["sampling"]["sent"]["top_p"], 1)
        self.assertIn("at most 1000000", self.refused("--upstream-url", busy.url, "--loop-break",
                                                      "1000001"))

    def test_bad_usage_is_one_line_that_says_what_to_do(self):
        url = ["--upstream-url", self.model.url]
        self.assertIn("want --upstream-url", self.refused())
        self.assertIn("needs a key", self.refused(*url, "--host", "0.0.0.0"))
        self.assertIn("needs an admin key", self.refused("--sessions"))
        self.assertIn("at most 65535", self.refused(*url, "--port", "70000"))
        self.assertIn("at most 256", self.refused(*url, "--workers", "1000"))
        self.assertIn("must start with 'http://'", self.refused("--upstream-url", "nowhere",
                                                                "--port", "0"))
        self.assertIn("cannot write the trace", self.refused(*url, "--trace", "no/such/t",
                                                             "--journal", "j", "--port", "0"))
        self.assertIn("no key on standard input", self.refused(*url, "--upstream-api-key-stdin"))
        self.assertIn("is empty", self.refused(*url, "--upstream-api-key-stdin", stdin="\n"))
        self.assertIn("single session", self.refused("--sessions", "--trace", "t", "--key-file",
                                                     "x", env={"SNAFFLE_GATEWAY_KEY": "k"})
                      if pathlib.Path(self.scratch.name, "x").write_text("k") else "")
        self.assertIn("unknown option '--prot'", self.refused(*url, "--prot", "1"))

    def test_a_unix_socket_serves_the_same_session(self):
        g = self.gateway("--unix", "gw.sock", "--trace", "trace.jsonl")
        done = subprocess.run(
            [sys.executable, "-c", "import socket,sys; s=socket.socket(socket.AF_UNIX);"
             "s.connect('gw.sock'); b=b'{\"model\":\"m\",\"messages\":[{\"role\":\"user\","
             "\"content\":\"x\"}]}'; s.sendall(b'POST /v1/chat/completions HTTP/1.1\\r\\nHost: x"
             "\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(b) + b);"
             "print(s.makefile().readline())"],
            cwd=self.scratch.name, capture_output=True, text=True, timeout=60, check=True)
        self.assertIn("200", done.stdout)
        g.stop()
        self.assertEqual(len(trace_of(pathlib.Path(self.scratch.name, "trace.jsonl"))), 1)


if __name__ == "__main__":
    tap.main()
