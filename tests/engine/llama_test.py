#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A real engine: what the trace has of llama.cpp's answers is what the engine says directly.

llama_test.py SNAFFLE TRACE_OF FOLDER, where FOLDER has the packages of requirements-engine.txt
(tools/run_tests.py brings them). One slot, no cache, temperature 0, one seed: the engine says the same
thing twice. Speaks TAP.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "doubles")]
import tap  # noqa: E402
from servers import Gateway, Program, await_true, environment  # noqa: E402

SNAFFLE, TRACE_OF, FOLDER = (pathlib.Path(p).resolve() for p in sys.argv[1:])
LOAD_S = 120  # Of the model, on a busy machine; 2 s on an idle one.
CALL_S = 120
ALTERNATIVES = 5  # The gateway's default.
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Runs a command.",
          "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}]
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
YES = {"grammar": 'root ::= "yes"'}  # The answer ends by itself, with the model's end token.
# Its bytes are tokens of their own, and the engine tells only of the last of them.
EMOJI = {"grammar": 'root ::= "\u00e9 \U0001f9a3"'}
# Inside a sandbox: it sends the bodies that its task lists.
AGENT = r"""
import json, os, urllib.request
for body in json.load(open("bodies.json")):
    urllib.request.urlopen(urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json",
         "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})).read()
"""
ITS_OWN = ("id", "created", "timings")  # Differ between any two answers.


def body(marker, **more):
    return {"model": "any", "messages": [{"role": "user", "content": f"List the files. {marker}"}],
            "temperature": 0, "seed": 7, "cache_prompt": False, "max_tokens": 8, **more}


def post(url, value):
    """The answer's objects: one, or a stream's."""
    request = urllib.request.Request(url, json.dumps(value).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer any"})
    try:
        with urllib.request.urlopen(request, timeout=CALL_S) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as e:
        raise AssertionError(f"{e.code}: {e.read().decode()}") from e
    if not value.get("stream"):
        return [json.loads(text)]
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    if lines[-1] != "[DONE]":
        raise AssertionError(f"no whole stream: {lines[-1]}")
    return [json.loads(line) for line in lines[:-1]]


def plain(objects):
    return [{k: v for k, v in o.items() if k not in ITS_OWN} for o in objects]


class LlamaServer(Program):
    def __init__(self, folder):
        folder.mkdir()
        super().__init__(folder, [sys.executable, TESTS / "engine" / "llama_server.py",
                                  FOLDER / "model.gguf", folder / "port"],
                         env=environment(PYTHONPATH=str(FOLDER)))
        await_true(lambda: (folder / "port").exists() or self.process.poll() is not None,
                   "the engine's start", LOAD_S)
        if self.process.poll() is not None:
            raise RuntimeError(f"no engine: {(folder / 'stderr').read_text()[-2000:]}")
        self.root = f"http://127.0.0.1:{(folder / 'port').read_text()}"
        self.url = self.root + "/v1"

    def chat(self, value):
        return post(self.url + "/chat/completions", value)


def setUpModule():
    global scratch, engine, gateway
    scratch = tempfile.TemporaryDirectory(prefix="snaffle-engine-")
    folder = pathlib.Path(scratch.name)
    engine = LlamaServer(folder / "engine")
    gateway = Gateway(SNAFFLE, engine.url, folder / "gateway", trace_of=TRACE_OF)


def tearDownModule():
    gateway.stop()
    engine.stop()
    scratch.cleanup()


class Llama(unittest.TestCase):
    def both(self, **more):
        """A call through the gateway, and directly; its line of the trace, and the direct rows."""
        marker = f"{self.id()} {bool(more.get('stream'))}"
        asked = body(marker, **more)
        self.assertEqual(plain(post(gateway.url + "/chat/completions", asked)),
                         plain(engine.chat(asked)))
        # How many alternatives are wanted shows in a value's last digits. With tools it gives none
        # in a stream but by its own name for them.
        want = {"logprobs": True, "top_logprobs": ALTERNATIVES}
        if more.get("tools") and more.get("stream"):
            want = {"n_probs": ALTERNATIVES}
        rows = []
        for part in engine.chat({**want, **asked}):
            for choice in part["choices"]:
                rows += (choice.get("logprobs") or {}).get("content") or []
        line = next(t for t in gateway.trace() if marker in json.dumps(t["request"]))
        self.assertEqual(line["end"], "complete")
        self.assertEqual(line["completion_token_ids"], [row["id"] for row in rows])
        self.assertEqual(line["per_token_logps"], [row["logprob"] for row in rows])
        self.assertEqual(line["logprobs"], rows)
        self.assertFalse(line["prompt_token_ids"])
        self.assertIn("no_prompt_ids", line["findings"])
        self.assertFalse(line["trainable"])
        return line, len(rows)

    def all_of(self, **more):
        """The same, and the engine told of every token."""
        line, rows = self.both(**more)
        self.assertEqual(rows, line["usage"]["completion_tokens"])
        self.assertNotIn("usage_mismatch", line["findings"])

    def test_unary(self):
        self.all_of()

    def test_streamed(self):
        self.all_of(**STREAM)

    def test_unary_with_tools(self):
        self.all_of(tools=TOOLS)

    def test_streamed_with_tools(self):
        # Rows of text that its parser holds back may be missing: see the next but one.
        line, rows = self.both(tools=TOOLS, **STREAM)
        self.assertGreater(rows, 0)
        if rows < line["usage"]["completion_tokens"] - 1:
            self.assertIn("usage_mismatch", line["findings"])

    def test_unary_to_the_model_s_own_end(self):
        self.all_of(**YES)

    def test_streamed_to_the_model_s_own_end(self):
        line, rows = self.both(**YES, **STREAM)
        self.assertEqual(rows, line["usage"]["completion_tokens"] - 1)
        self.assertIn("stop_token_absent", line["findings"])

    def test_tokens_that_the_engine_does_not_tell_of_are_missed(self):
        for more in ({}, STREAM):
            with self.subTest(stream=bool(more)):
                line, rows = self.both(max_tokens=30, **EMOJI, **more)
                self.assertLess(rows, line["usage"]["completion_tokens"] - 1)
                self.assertIn("usage_mismatch", line["findings"])

    def test_log_probabilities_that_the_agent_asked_for(self):
        for more in ({}, STREAM):
            with self.subTest(stream=bool(more)):
                self.both(logprobs=True, top_logprobs=2, **more)

    def test_prompt_ids_are_derived_afterwards_and_marked(self):
        """Not what the call said, so nothing is trainable for them."""
        bodies = [body("afterwards", max_tokens=2, **more)
                  for more in ({}, {"tools": TOOLS}, STREAM, {"tools": TOOLS, **STREAM})]
        folder = pathlib.Path(scratch.name, "derived")
        folder.mkdir()
        (folder / "task.json").write_text(json.dumps({
            "instruction": "go", "verify": ["true"],
            "files": {"agent.py": AGENT, "bodies.json": json.dumps(bodies)}}))
        env = environment()
        ran = subprocess.run(
            [SNAFFLE, "run", "task.json", "--base-url", engine.url, "--model", "any", "--quiet",
             "--agent", "command", "--agent-cmd", "exec python3 agent.py", "--run", "r",
             "--rollout", "r"], cwd=folder, env=env, capture_output=True, text=True, check=False)
        if ran.returncode == 3:
            self.skipTest(ran.stderr.strip())
        plain_lines, derived = (subprocess.run(
            [SNAFFLE, "trace", "r/r", *flags], cwd=folder, env=env, check=True,
            capture_output=True, text=True).stdout.splitlines()
            for flags in ([], ["--derive-prompt-ids", engine.url]))
        self.assertEqual(len(derived), len(bodies))
        for without, line in zip(plain_lines, derived, strict=True):
            turn = json.loads(line)
            ids = turn["derived"]["prompt_token_ids"]
            self.assertTrue(line.startswith(without[:-1] + ',"derived":'))
            self.assertEqual(len(ids), turn["usage"]["prompt_tokens"])
            text, = post(engine.root + "/detokenize", {"tokens": ids})
            self.assertIn("List the files. afterwards", text["content"])
            self.assertFalse(turn["prompt_token_ids"])
            self.assertIn("no_prompt_ids", turn["findings"])
            self.assertFalse(turn["trainable"])
        (folder / "derived.jsonl").write_text("\n".join(derived) + "\n")
        checked = subprocess.run(
            [sys.executable, TESTS / "schema.py", TESTS.parent / "docs/schema/trace.schema.json",
             folder / "derived.jsonl"], capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout.strip()), (0, ""))


if __name__ == "__main__":
    if not os.access(FOLDER / "installed.txt", os.R_OK):
        print("1..1\nok 1 - llama_test.py # SKIP no llama.cpp here: its packages "
              "(tests/requirements-engine.txt) could not be had")
        raise SystemExit(0)
    tap.main()
