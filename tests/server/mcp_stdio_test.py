#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`snaffle mcp` as a program, message by message: however its input is cut, and however it ends.

mcp_stdio_test.py SNAFFLE SCRIPTED_MODEL. Speaks TAP.
"""
import json
import pathlib
import signal
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "server")]
import tap  # noqa: E402

tap.need("jsonschema")
from ground import DO, KEY, PATIENCE_S, WAIT, Ground, check_result  # noqa: E402

GROUND = Ground(*sys.argv[1:3])
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}
PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}


def call(arguments, number=1, progress=True):
    meta = {"_meta": {"progressToken": 7}} if progress else {}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": "run_rollout", "arguments": arguments, **meta}}


class Mcp:
    def __init__(self, *flags):
        self.process = subprocess.Popen([GROUND.program, "mcp", *GROUND.flags(), *flags],
                                        cwd=GROUND.folder, env=GROUND.environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def send(self, *messages):
        self.write("".join(json.dumps(m) + "\n" for m in messages).encode())

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def read_until(self, phase):
        """The messages up to the one that tells of this phase."""
        seen = [self.read()]
        while phase not in seen[-1].get("params", {}).get("message", ""):
            seen.append(self.read())
        return seen

    def answer(self):
        """The next message that is no notification."""
        message = self.read()
        while "method" in message:
            message = self.read()
        return message

    def end(self):
        """Exit status, and what it still said."""
        for name in ("stdin", "stdout"):
            if getattr(self.process, name).closed:
                setattr(self.process, name, None)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, (out or b"").decode(), err.decode()


class Stdio(unittest.TestCase):
    def setUp(self):
        if GROUND.lacks:
            self.skipTest(GROUND.lacks)

    def test_messages_are_the_same_byte_by_byte(self):
        mcp = Mcp()
        for byte in "\n".join(json.dumps(m) for m in (INITIALIZE, PING)).encode() + b"\r\n":
            mcp.write(bytes([byte]))
        self.assertEqual([mcp.read()["id"], mcp.read()["id"]], [0, "p"])
        mcp.write(json.dumps(PING).encode())  # The input's end ends a message too.
        code, out, err = mcp.end()
        self.assertEqual((code, json.loads(out)["id"], err), (0, "p", ""))

    def test_what_is_no_message_is_told_and_the_next_is_read(self):
        mcp = Mcp()
        mcp.write(b"\n\xff\xfe\n{\n[]\n")
        self.assertEqual([mcp.read()["error"]["code"] for _ in range(3)],
                         [-32700, -32700, -32600])
        mcp.send(PING)
        self.assertEqual(mcp.read()["result"], {})
        self.assertEqual(mcp.end()[0], 0)

    def test_standard_output_holds_nothing_but_messages(self):
        mcp = Mcp()
        mcp.send(INITIALIZE, call({**DO, "base_url": "http://127.0.0.1:9/v1", "model": "m"}),
                 call({}, number=2))
        answers = [mcp.answer() for _ in range(3)]
        self.assertEqual(sorted(a["id"] for a in answers), [0, 1, 2])
        code, out, err = mcp.end()
        self.assertEqual((code, out), (0, ""))
        self.assertNotIn(KEY, err + json.dumps(answers))

    def test_further_calls_wait_in_their_order_and_say_so(self):
        mcp = Mcp("--max-concurrent", "1")
        mcp.send(INITIALIZE, call(WAIT))
        mcp.read_until("agent running")
        mcp.send(call(DO, number=2))
        mcp.read_until("waiting: all places are taken, 0 before this one")
        mcp.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                  "params": {"requestId": 1, "reason": "make room"}})
        answer = mcp.answer()
        self.assertEqual(answer["id"], 2)
        check_result(answer["result"]["content"][0]["text"])
        self.assertEqual(mcp.end()[0], 0)
        GROUND.until_empty()

    def ends_a_running_rollout(self, how):
        mcp = Mcp()
        mcp.send(INITIALIZE, call(WAIT))
        mcp.read_until("agent running")
        self.assertEqual(len(GROUND.boxes()), 1)
        how(mcp)
        code, _, _ = mcp.end()
        self.assertEqual(code, 0)
        self.assertEqual(GROUND.boxes(), [])

    def test_the_end_of_its_input_ends_a_rollout(self):
        self.ends_a_running_rollout(lambda mcp: mcp.process.stdin.close())

    def test_sigterm_ends_a_rollout(self):
        self.ends_a_running_rollout(lambda mcp: mcp.process.send_signal(signal.SIGTERM))

    def test_an_output_that_nobody_reads_any_more_ends_a_rollout(self):
        self.ends_a_running_rollout(lambda mcp: (mcp.process.stdout.close(), mcp.send(PING)))

    def test_a_client_that_does_not_read_does_not_keep_it_alive(self):
        mcp = Mcp()
        mcp.send(PING)
        mcp.read()  # It has begun, and takes signals.
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        mcp.send(*[ask] * 100)  # Far more than a pipe holds.
        mcp.process.send_signal(signal.SIGTERM)
        mcp.process.send_signal(signal.SIGTERM)
        self.assertEqual(mcp.process.wait(PATIENCE_S), 0)
        mcp.end()


try:
    tap.main()
finally:
    GROUND.close()
