#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the environment, .env and --allow make of calls: serve_settings_test.py SNAFFLE MODEL.

Speaks TAP.
"""
import json
import os
import pathlib
import signal
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from rawsocket import RawSocket  # noqa: E402
from served import SLOW, Place, lacks_sandbox, until  # noqa: E402

SNAFFLE, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
LACKS = lacks_sandbox(SNAFFLE)
KEY = "serve-key-0123456789"
KINDS = {"vllm": ("VLLM_URL", "VLLM_API_KEY", "VLLM_MODEL"),
         "openai": ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"),
         "hf_router": ("HF_ROUTER_BASE_URL", "HF_ROUTER_API_KEY", "HF_ROUTER_MODEL")}


class Case(unittest.TestCase):
    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)

    def ask(self, s, **arguments):
        call = {"name": "run_rollout", "arguments": arguments}
        status, got = s.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                             "params": call}, {"Authorization": f"Bearer {KEY}"})
        self.assertEqual(status, 200)
        return got

    def refused(self, s, words, **arguments):
        got = self.ask(s, **arguments)
        self.assertIn("error", got)
        self.assertIn(words, got["error"]["message"])

    def metric(self, s, name):
        (line,) = (one for one in s.get("/metrics")[1].splitlines()
                   if one.startswith(f"snaffle_serve_{name} "))
        return float(line.split()[1])


@unittest.skipIf(LACKS, LACKS)
class Environment(Case):
    def test_each_kind_s_variables_come_from_a_file_and_the_environment_weighs_more(self):
        root = self.place.model.url.removesuffix("/v1")  # What the catalog puts behind it.
        lines = [f"{name}={value}\n" for kind, names in KINDS.items()
                 for name, value in zip(names, (root, f"key-of-{kind}-0123456789", f"m-{kind}"))]
        (self.place.folder / ".env").write_text("".join(lines))
        s = self.place.serve(env={"VLLM_MODEL": "m-real"})
        for kind in KINDS:
            got = self.ask(s, endpoint=kind, instruction="go")
            rollout = json.loads(got["result"]["data"])
            self.assertEqual((rollout["status"], len(rollout["proxy_turns"])), ("ok", 1), got)
            asked = self.place.model.requests()[-1]
            model = "m-real" if kind == "vllm" else f"m-{kind}"
            self.assertIn(model, json.dumps(asked))
            self.assertEqual(rollout["model"], model)
            self.assertNotIn(f"key-of-{kind}", json.dumps(got) + s.errors())

    def test_as_many_rollouts_run_as_there_are_sessions_unless_it_is_said(self):
        s = self.place.serve(agent=SLOW, env={"MAX_CONCURRENT_ENVS": "1"})
        calls = [threading.Thread(target=self.ask, args=(s,), kwargs=self.place.call())
                 for _ in range(2)]
        for c in calls:
            c.start()
        until(lambda: (self.metric(s, "rollouts_running"), self.metric(s, "rollouts_waiting")) ==
              (1, 1), "one that runs and one that waits")
        s.process.send_signal(signal.SIGTERM)
        for c in calls:
            c.join()

    def test_who_waits_when_the_server_ends_is_told_so(self):
        s = self.place.serve("--max-concurrent", "1", "--drain", "1", agent=SLOW)
        first, second = RawSocket(s.port, "/ws"), RawSocket(s.port, "/ws")
        call = json.dumps({"type": "step", "data": {"tool_name": "run_rollout",
                                                    "arguments": self.place.call()}})
        first.send(call)
        until(lambda: self.metric(s, "rollouts_running") == 1, "a rollout")
        second.send(call)
        until(lambda: self.metric(s, "rollouts_waiting") == 1, "a call that waits")
        s.process.send_signal(signal.SIGTERM)
        got = json.loads(second.receive())["data"]["observation"]
        self.assertIn("the server is ending", got["error"]["message"])
        got = json.loads(first.receive())["data"]["observation"]
        self.assertEqual(json.loads(got["result"]["data"])["status"], "cancelled")
        self.assertEqual(s.stop(), 0)

    def test_a_third_signal_tears_down_at_once(self):
        s = self.place.serve("--drain", "600", agent=SLOW)
        ws = RawSocket(s.port, "/ws")
        ws.send(json.dumps({"type": "step", "data": {"tool_name": "run_rollout",
                                                     "arguments": self.place.call()}}))
        until(self.place.model.requests, "an agent's question")
        for _ in range(3):
            s.process.send_signal(signal.SIGTERM)
        self.assertEqual(s.stop(), 0)
        self.assertEqual(self.place.boxes(), [])


class Allowed(Case):
    """Off loopback, with a key: what a call may ask for, and the flag that it takes."""

    def serve(self, *args, **env):
        return self.place.serve("--host", "0.0.0.0", *args,
                                env={"SNAFFLE_SERVE_KEY": KEY, **env})

    def test_each_refusal_names_the_rule_that_would_allow_it(self):
        s = self.serve()
        for words, more in (("--allow 'upstream=127.0.0.1'", {}),
                            ("--allow network=full", {"network": "full"}),
                            ("--allow backend=hf", {"backend": "hf"}),
                            ("--allow image=GLOB", {"image": "python:3"}),
                            ("--allow flavor=GLOB", {"flavor": "cpu-basic"})):
            self.refused(s, words, **self.place.call(**more))
        for host in ("169.254.169.254", "[fe80::1]", "[fd00:ec2::254]"):
            self.refused(s, "link-local", **self.place.call(base_url=f"http://{host}/v1"))
        for name in ("mounts", "rootfs", "files", "extra_env", "agent_cmd"):
            self.refused(s, f"'{name}'", **self.place.call(**{name: "/etc"}))

    @unittest.skipIf(LACKS, LACKS)
    def test_an_upstream_that_is_allowed_or_configured_is_asked(self):
        model = self.place.model
        for s, call in ((self.serve("--allow", "network=full", "--allow",
                                    f"upstream=http://127.*:{model.port}/*"), self.place.call()),
                        (self.serve(VLLM_URL=model.url), self.place.call()),
                        (self.serve(VLLM_URL=model.url),
                         {"endpoint": "vllm", "model": "scripted", "instruction": "go"})):
            got = self.ask(s, **call)
            self.assertIn("result", got, got)
            self.assertEqual(json.loads(got["result"]["data"])["status"], "ok")
        self.refused(self.serve("--allow", "upstream=https://127.0.0.1"), "--allow 'upstream=",
                     **self.place.call())


class Pages(Case):
    def test_docs_name_every_route_of_the_document(self):
        s = self.place.serve()
        document = s.get("/openapi.json")[1]
        self.assertIsInstance(document["info"]["version"], str)
        self.assertEqual(document["info"]["version"], "1.0.0")
        for path in ("/health", "/metadata", "/schema", "/mcp", "/reset", "/step", "/state"):
            self.assertIn(path, document["paths"])
        for page in ("/docs", "/redoc", "/web/"):
            status, text = s.get(page)
            self.assertEqual(status, 200, page)
            self.assertIn("<!doctype html>", text.lower())
            for foreign in ('src="http', "src='http", '<link rel="stylesheet" href="http'):
                self.assertNotIn(foreign, text)  # A page of our own, which asks nobody else.


if __name__ == "__main__":
    tap.main()
