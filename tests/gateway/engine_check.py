#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Is the gateway exact and transparent in front of this engine? engine_check.py SNAFFLE URL [MODEL]

Asks the engine directly and through a gateway, at temperature 0 with a fixed seed, unary, streamed and
with tools, and compares what the agent sees and what the trace has. Speaks TAP. About a dozen calls of at
most 64 tokens. The key is read from ENGINE_API_KEY. ENGINE_LEVEL says what is wanted (`tokens`)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

SNAFFLE, URL = os.path.abspath(sys.argv[1]), sys.argv[2].rstrip("/")
MODEL = sys.argv[3] if len(sys.argv) > 3 else ""
KEY = os.environ.get("ENGINE_API_KEY", "none")
LEVEL = os.environ.get("ENGINE_LEVEL", "tokens")
ENGINE = ["--engine", os.environ["ENGINE_NAME"]] if os.environ.get("ENGINE_NAME") else []
PATIENCE_S = 120  # A big model on a busy machine.
TOOL = {"type": "function", "function": {
    "name": "get_time", "description": "Tells the time in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
# Of one answer only; what changes from call to call says nothing.
FLEETING = {"id", "created", "system_fingerprint", "obfuscation", "timings"}
SHAPES = {
    "unary": {},
    "stream": {"stream": True},
    "stream_usage": {"stream": True, "stream_options": {"include_usage": True}},
    "own_logprobs": {"logprobs": True, "top_logprobs": 1, "stream": True},
    "stream_tools": {"stream": True, "tools": [TOOL]},
    "unary_tools": {"tools": [TOOL]},
}


def request(shape):
    text = "What time is it in Paris? Use the tool." if "tools" in shape else "Name three colours."
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 64,
            "temperature": 0, "seed": 7, **SHAPES[shape]}


def post(base, body):
    call = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + KEY})
    try:
        with urllib.request.urlopen(call, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def settled(value):
    if isinstance(value, dict):
        return {k: settled(v) for k, v in value.items() if k not in FLEETING}
    if isinstance(value, list):
        return [settled(v) for v in value]
    return value


def seen(answer):
    """Events or the body, keys in their order."""
    status, text = answer
    if not text.lstrip().startswith(("data:", ":", "event:")):
        return [status, json.dumps(settled(json.loads(text)))]
    parts = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
    return [status] + [p if p == "[DONE]" else json.dumps(settled(json.loads(p))) for p in parts]


class Engine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        global MODEL
        if not MODEL:
            with urllib.request.urlopen(urllib.request.Request(
                    URL + "/models", headers={"Authorization": "Bearer " + KEY}), timeout=30) as r:
                MODEL = json.load(r)["data"][0]["id"]
        cls.dir = tempfile.TemporaryDirectory(prefix="snaffle-engine-")
        cls.trace = pathlib.Path(cls.dir.name) / "trace.jsonl"
        cls.gateway = subprocess.Popen(
            [SNAFFLE, "gateway", "--upstream-url", URL, "--port", "0", "--trace", str(cls.trace),
             "--journal", cls.dir.name + "/journal", *ENGINE],
            stdout=subprocess.PIPE, text=True, cwd=cls.dir.name,
            env={**os.environ, "UPSTREAM_API_KEY": KEY})
        line = cls.gateway.stdout.readline()
        at = line.index("http://")
        cls.base = line[at:].split()[0].rstrip("/,;")
        cls.base += "" if cls.base.endswith("/v1") else "/v1"

    @classmethod
    def tearDownClass(cls):
        cls.gateway.terminate()
        cls.gateway.wait(30)
        cls.gateway.stdout.close()
        cls.dir.cleanup()

    def line_of(self, number):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            text = self.trace.read_text() if self.trace.exists() else ""
            lines = text.split("\n")[:-1]  # What has no end yet is still being written.
            if len(lines) >= number:
                return json.loads(lines[number - 1])
            time.sleep(0.05)
        self.fail("the trace has no line of the call")

    calls = 0

    def check(self, shape):
        # The first call may teach the gateway what engine it is; the second is what counts.
        for _ in range(2):
            Engine.calls += 1
            through = post(self.base, request(shape))
            record = self.line_of(Engine.calls)
        direct = post(URL, request(shape))
        self.assertEqual(seen(through), seen(direct))
        return record, through

    def exact(self, record):
        ids, rows = record["completion_token_ids"], record["per_token_logps"]
        if LEVEL == "text":
            return
        self.assertGreater(len(rows), 0, "no log-probabilities")
        self.assertTrue(all(r is None or r <= 0 for r in rows), rows)
        if LEVEL == "tokens":
            self.assertGreater(len(record["prompt_token_ids"] or []), 0, "no prompt ids")
            self.assertEqual(len(ids), len(rows))
            self.assertEqual(len(ids), record["usage"]["completion_tokens"])


def add_test(shape):
    def test(self):
        record, _ = self.check(shape)
        if shape != "own_logprobs" or LEVEL == "tokens":
            self.exact(record)
    test.__name__ = f"test_{shape}_is_transparent_and_exact"
    setattr(Engine, test.__name__, test)


for each in SHAPES:
    add_test(each)


def unary_equals_streamed(self):
    for shape in ("unary", "stream") * 2:  # The first of each may teach the gateway something.
        post(self.base, request(shape))
    Engine.calls += 4
    one, two = self.line_of(Engine.calls - 1), self.line_of(Engine.calls)
    self.assertEqual(one["completion_token_ids"], two["completion_token_ids"])
    self.assertEqual(one["prompt_token_ids"], two["prompt_token_ids"])


Engine.test_unary_and_streamed_ids_are_the_same = unary_equals_streamed

if __name__ == "__main__":
    tap.main()
