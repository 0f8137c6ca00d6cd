#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The real OpenCode against every fault of an engine, with the gateway in between and without.

faults_test.py SNAFFLE SCRIPTED_MODEL TRACE_OF PLAN_OF [--all]. Speaks TAP.

The gateway must not make any fault worse, nor hide one. Both sides of a row run at once, against
models of the same script. A row that ends: same exit status, as many requests. One that backs off:
watched 30 s from its first request, as many requests, give or take one. One that loops: requests of
the same kind. --all: every row; else the five that tell most.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "doubles")]
import tap  # noqa: E402
from servers import Gateway, ScriptedModel  # noqa: E402

SNAFFLE, MODEL, TRACE_OF, PLAN_OF = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:5])
ALL = "--all" in sys.argv
KEY = "sk-real-key-of-the-engine"
WATCH_S = 30
END_S = 100    # From its first request; the longest row that ends takes 30 s alone.
START_S = 200  # To that. Some seconds of a processor alone, and a busy machine has none to spare.
ROWS_AT_ONCE = 2  # Each is two agents; a start costs some seconds of a processor.

ECHO = {"name": "bash", "arguments": {"command": "echo one-two-three", "description": "d"}}
READ = {"name": "read", "arguments": {"filePath": "/etc/hostname"}}
OVERFLOW = ("This model's maximum context length is 131072 tokens. However, you requested 140000 "
            "tokens (140000 in the messages). Please reduce the length of the messages.")
WITHOUT_ID = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [
    {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
     "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    for delta, finish in (
        ({"role": "assistant", "content": ""}, None),
        ({"tool_calls": [{"index": 0, "type": "function", "function": {
            "name": "bash", "arguments": json.dumps(ECHO["arguments"])}}]}, None),
        ({}, "tool_calls"))]) + "data: [DONE]\n\n"

ENDS, BACKS_OFF, LOOPS, WAITS = "ends", "backs off", "loops", "waits"


class Row:
    """What the engine does, and what the agent then does by itself.

    `scenes`: of the script, before the plain answer. `code`, `requests`: of a row that ends.
    `mended`: with the gateway it ends well: the answer is whole, its framing is not. `agent_ends`: how the calls' ends are recorded.
    """

    def __init__(self, name, how, *scenes, code=0, requests=None, ends=("complete",), mended=False,
                 model=None, term=False):
        self.name, self.how, self.scenes = name, how, scenes
        self.code, self.requests, self.ends, self.mended = code, requests, set(ends), mended
        self.model, self.term = model, term

    def marker(self):
        return f"[row: {self.name}]"


def status(number, message="scripted", **more):
    body = {"error": {"message": message, "type": "Error", "param": None, "code": number}}
    return {"fault": {"kind": "status", "status": number, "body": body, **more}}


def fault(kind, after=4, **more):
    return {"reply": {"text": "one two three four five six"},
            "fault": {"kind": kind, "after_events": after}, **more}


def says(**scene):
    return {"when": {"call": 1}, **scene}


CUT_CALL = "{\"command\": \"echo half\", \"descr"
ABORT = ("upstream_abort",)
ROWS = [
    Row("400", ENDS, status(400), code=1, requests=1, ends=["error"]),
    Row("context length 400", ENDS, status(400, OVERFLOW), code=1, requests=2, ends=["error"]),
    Row("429 with retry-after", ENDS, status(429, headers={"retry-after": "1"}), code=1,
        requests=6, ends=["error"]),
    Row("503 once", ENDS, {**status(503), "times": 1}, requests=2, ends=["error", "complete"]),
    Row("500 always", BACKS_OFF, status(500), ends=["error"]),
    Row("error event", BACKS_OFF, fault("error_event")),
    Row("reset before the head", BACKS_OFF, fault("reset", -1), ends=["error"]),
    Row("reset", BACKS_OFF, fault("reset"), ends=ABORT),
    Row("cut in a chunk", BACKS_OFF, fault("cut"), ends=ABORT),
    Row("end without finish_reason", LOOPS, fault("eof")),
    Row("last event without blank line", LOOPS, fault("no_blank_line", usage="never"),
        mended=True, requests=1),
    Row("JSON in place of events", LOOPS, fault("json")),
    Row("end in a tool call", ENDS,
        says(reply={"tool_calls": [ECHO]}, fault={"kind": "eof", "after_events": 24}), requests=2),
    Row("open after DONE", WAITS, {"fault": {"kind": "open_after_done"}}, mended=True, requests=1),
    Row("tool call without id", ENDS, {"fault": {"kind": "raw", "file": "without_id"}}, code=1,
        requests=1),
    Row("stop with a tool call", ENDS, says(reply={"tool_calls": [ECHO]}, finish_reason="stop"),
        requests=2),
    Row("cut arguments", ENDS, says(
        reply={"tool_calls": [{"name": "bash", "arguments": CUT_CALL}]}, finish_reason="length"),
        requests=2),
    Row("no bytes", WAITS, fault("hang", -1)),
    Row("two calls at once", ENDS, says(reply={"tool_calls": [ECHO, READ]}), requests=2),
    Row("SIGTERM", ENDS, fault("hang", 3), code=143, requests=1, ends=["client_abort"], term=True),
    Row("unknown model", ENDS, code=1, requests=0, model="intercepted/unheard-of"),
]
SHORT = ("context length 400", "429 with retry-after", "reset", "end without finish_reason",
         "end in a tool call")


def script():
    scenes = []
    for row in ROWS:
        for scene in row.scenes:
            when = {**scene.get("when", {}), "body_has": row.marker()}
            scenes.append({**scene, "when": when})
    return {"api_key": KEY, "scenes": [*scenes, {"reply": {"text": "Done."}}]}


def plan(home, url, row):
    """How Snaffle would start the agent."""
    done = subprocess.run([PLAN_OF, home, url, f"Go. {row.marker()}"], check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout)


class Side:
    """One run of the agent, watched. It has its own model, or the gateway before that."""

    def __init__(self, row, url, model, folder):
        self.row, self.model = row, model
        self.code = None  # Of a run that ended by itself.
        at = plan(folder, url, row)
        for path, content in at["files"].items():
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(path).write_text(content)
        for path in (at["cwd"], os.path.dirname(at["log_path"])):
            os.makedirs(path, exist_ok=True)
        self.log_path = at["log_path"]
        argv = [*at["argv"], "-m", row.model] if row.model else at["argv"]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                argv, env=dict(pair.split("=", 1) for pair in at["env"]), cwd=at["cwd"],
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True)
        self.process.stdin.write(at["input"].encode())
        self.process.stdin.close()

    def requests(self):
        return [r for r in self.model.requests() if self.row.marker() in r["body"]]

    def kinds(self):
        """What it asked: with tools or without, and upon whose message."""
        return collections.Counter(
            (bool(body.get("tools")), body["messages"][-1]["role"])
            for body in (json.loads(r["body"]) for r in self.requests()))

    def runs_until(self, deadline, condition=lambda: False):
        while self.process.poll() is None and time.monotonic() < deadline and not condition():
            time.sleep(0.1)

    def watch(self):
        self.runs_until(time.monotonic() + START_S, self.requests)
        first = time.monotonic()
        if self.row.term:
            time.sleep(1)
            self.process.terminate()
        self.runs_until(first + (END_S if self.row.how == ENDS else WATCH_S))
        self.code = self.process.poll()
        self.seen = self.requests()
        self.seen_kinds = self.kinds()
        if self.code is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.code is not None and self.code < 0:
            self.code = 128 - self.code

    def told(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")

    def __str__(self):
        code = "still running" if self.code is None else f"exit {self.code}"
        return f"{code}, {len(self.seen)} requests"


def run_row(row):
    sides = []
    for name, url, model in (("direct", direct.url, direct), ("through", gateway.url, behind)):
        folder = root / "homes" / f"{ROWS.index(row)}-{name}"
        folder.mkdir(parents=True)
        sides.append(Side(row, url, model, str(folder)))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(Side.watch, sides))
    return sides


def setUpModule():
    global scratch, root, direct, behind, gateway, results
    scratch = tempfile.TemporaryDirectory(prefix="snaffle-faults-", ignore_cleanup_errors=True)
    root = pathlib.Path(scratch.name)
    files = {"without_id": WITHOUT_ID}
    direct = ScriptedModel(MODEL, {**script(), "api_key": "key-of-the-rollout"}, root / "direct",
                           files)
    behind = ScriptedModel(MODEL, script(), root / "behind", files)
    gateway = Gateway(SNAFFLE, behind.url, root / "gateway", key=KEY, trace_of=TRACE_OF)
    rows = [row for row in ROWS if ALL or row.name in SHORT]
    with concurrent.futures.ThreadPoolExecutor(ROWS_AT_ONCE) as pool:
        results = dict(zip([row.name for row in rows], pool.map(run_row, rows)))


def tearDownModule():
    gateway.stop()
    direct.stop()
    behind.stop()
    scratch.cleanup()


class Rows(unittest.TestCase):
    def check_ending(self, row, side):
        self.assertEqual((side.code, len(side.seen)), (row.code, row.requests),
                         f"{side}\n{side.told()[-2000:]}")

    def check(self, row):
        plain, through = results[row.name]
        print(f"# {row.name}: directly {plain}; through the gateway {through}", flush=True)
        if row.how == ENDS:
            self.check_ending(row, plain)
            self.check_ending(row, through)
            self.assertEqual(plain.seen_kinds, through.seen_kinds)
        elif row.mended:
            self.assertIsNone(plain.code, plain.told()[-2000:])
            self.check_ending(row, through)
        else:
            self.assertIsNone(plain.code, plain.told()[-2000:])
            self.assertIsNone(through.code, through.told()[-2000:])
            for side in (plain, through):
                self.assertTrue(side.seen, f"it asked nothing, and said: {side.told()[-2000:]}")
            self.assertEqual(set(plain.seen_kinds), set(through.seen_kinds))
        if row.how == BACKS_OFF:
            self.assertLessEqual(abs(len(plain.seen) - len(through.seen)), 1)
            self.assertGreaterEqual(len(plain.seen), 3)
            self.assertLessEqual(len(plain.seen), 8)
        elif row.how == LOOPS:
            self.assertGreater(len(plain.seen), 8)
            self.assertTrue(row.mended or len(through.seen) > 8)
        elif row.how == WAITS:
            self.assertEqual((len(plain.seen), len(through.seen)), (1, 1))
        self.check_trace(row, through)

    def check_trace(self, row, through):
        """Every request that the engine had is recorded, with an end that is no better."""
        lines = [t for t in gateway.trace() if row.marker() in json.dumps(t["request"])]
        if row.how in (ENDS, BACKS_OFF) or row.mended:
            # One may have come between the count and the end of the watch.
            self.assertLessEqual(abs(len(lines) - len(through.seen)), int(row.how == BACKS_OFF))
        if row.how != WAITS:
            ends = {t["end"] for t in lines}
            if row.how != ENDS:
                ends.discard("client_abort")  # The end of the watch.
            self.assertEqual(ends, row.ends if row.requests != 0 else set())


def add_case(row):
    name = "test_" + row.name.replace(" ", "_").replace("-", "_")
    setattr(Rows, name, lambda self: self.check(row))


for each in ROWS:
    if ALL or each.name in SHORT:
        add_case(each)

if __name__ == "__main__":
    if plan("/nowhere", "http://127.0.0.1:1/v1", ROWS[0]) is None:
        print("1..1\nok 1 - faults_test.py # SKIP opencode is not installed: run 'snaffle agent "
              "install opencode', or set SNAFFLE_TEST_OPENCODE")
        raise SystemExit(0)
    tap.main()
