#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Pace, faults, log and script errors of the scripted model, seen from a bare socket:
scripted_model_test.py PROGRAM. Speaks TAP."""
import json
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

PROGRAM = sys.argv[1]
PATIENCE_S = 20  # A busy machine is slow; a hang is told from it by this.


def scene(word, **fields):
    return {"when": {"user_has": word}, **fields}


def fault(word, kind, **fields):
    return scene(word, fault={"kind": kind, **fields})


SCRIPT = {"scenes": [
    fault("status", "status", status=418, headers={"X-One": "1", "Content-Type": "text/plain"},
          body="short and stout"),
    fault("reset-late", "reset", after_events=2),
    fault("reset-early", "reset", after_events=-1),
    fault("eof-late", "eof", after_events=2),
    fault("eof-early", "eof", after_events=-1),
    fault("cut", "cut", after_events=2),
    fault("hang-late", "hang", after_events=2),
    fault("hang-early", "hang", after_events=-1),
    fault("error-event", "error_event", after_events=1, body={"message": "boom"}),
    fault("no-done", "no_done"),
    fault("no-blank", "no_blank_line"),
    fault("open", "open_after_done"),
    fault("json", "json"),
    fault("raw", "raw", file="raw.sse"),
    scene("slow", delay_ms=300),
    scene("late-usage", usage_delay_ms=300),
    scene("paced", reply={"text": "abcdefgh"}, event_delay_ms=50),
    scene("nan", bad_logprob="NaN"),
    scene("no-ids", no_ids_from=2),
    scene("late-ids", late_ids=True),
    scene("usage-never", usage="never"),
    scene("usage-always", usage="always"),
    scene("usage-edit", usage={"completion_tokens": 7}),
    scene("null-finish", finish_reason=None),
    scene("strange-finish", finish_reason="abort"),
    scene("grouped", tokens_per_event=3, reply={"text": "abcdefghij"}),
    scene("twice", times=2, reply={"text": "one of two"}),
    {"reply": {"text": "Hi."}}]}


class Reply:
    """All bytes of an answer, and how it ended: fin, reset or open."""

    def __init__(self, sock, wait_s=PATIENCE_S):
        self.raw, self.end = b"", "open"
        sock.settimeout(wait_s)
        try:
            while piece := sock.recv(65536):
                self.raw += piece
            self.end = "fin"
        except ConnectionResetError:
            self.end = "reset"
        except TimeoutError:
            pass
        self.head, _, rest = self.raw.partition(b"\r\n\r\n")
        self.body, self.whole = (self.dechunk(rest) if b"chunked" in self.head.lower()
                                 else (rest, True))

    @staticmethod
    def dechunk(rest):
        body = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16)
            if n == 0:
                return body, True
            if len(rest) < n + 2:
                return body + rest, False
            body, rest = body + rest[:n], rest[n + 2:]
        return body, False

    @property
    def status(self):
        return int(self.head.split()[1]) if self.head else None

    @property
    def events(self):
        return [e[6:] for e in self.body.decode().split("\n\n") if e.startswith("data: ")]

    @property
    def chunks(self):
        return [json.loads(e) for e in self.events if e != "[DONE]"]


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        (cls.path / "script.json").write_text(json.dumps(SCRIPT))
        (cls.path / "raw.sse").write_bytes(b"data: {broken\r\rdata: \xff\n\n")
        cls.process = subprocess.Popen(
            [PROGRAM, "--script", cls.path / "script.json", "--port-file", cls.path / "port",
             "--log", cls.path / "log", "--die-with-parent"], stdout=subprocess.PIPE, text=True)
        cls.hello = cls.process.stdout.readline()
        cls.port = int((cls.path / "port").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        assert cls.process.wait(PATIENCE_S) == 0
        cls.process.stdout.close()
        cls.folder.cleanup()

    def log(self):
        return [json.loads(line) for line in (self.path / "log").read_text().splitlines()]

    def open(self, word, **more):
        more.setdefault("stream", True)
        if more["stream"]:
            more.setdefault("stream_options", {"include_usage": True})
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": word}],
                           **more}).encode()
        sock = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(sock.close)
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return sock

    def ask(self, word, **more):
        return Reply(self.open(word, **more))

    def test_it_says_what_it_is(self):
        self.assertEqual(self.hello, "scripted model (not a real model) listening on "
                                     f"http://127.0.0.1:{self.port}/v1\n")

    def test_a_stream_ends_with_done_and_the_body_s_end(self):
        r = self.ask("x")
        self.assertEqual((r.status, r.whole, r.end, r.events[-1]), (200, True, "fin", "[DONE]"))

    def test_a_status_fault_has_its_headers_and_body(self):
        r = self.ask("status")
        self.assertEqual((r.status, r.body), (418, b"short and stout"))
        self.assertIn(b"X-One: 1", r.head)
        self.assertIn(b"Content-Type: text/plain", r.head)
        self.assertNotIn(b"application/json", r.head)

    def test_a_reset_comes_after_its_events_or_before_the_head(self):
        late, early = self.ask("reset-late"), self.ask("reset-early")
        self.assertEqual((late.end, len(late.events), late.whole), ("reset", 2, False))
        self.assertEqual((early.end, early.raw), ("reset", b""))

    def test_a_clean_end_lacks_the_finish_reason(self):
        late, early = self.ask("eof-late"), self.ask("eof-early")
        self.assertEqual((late.end, late.whole, len(late.events)), ("fin", True, 2))
        self.assertTrue(all(c["choices"][0]["finish_reason"] is None for c in late.chunks))
        self.assertEqual((early.end, early.raw), ("fin", b""))

    def test_a_cut_ends_inside_a_chunk(self):
        r = self.ask("cut")
        self.assertEqual((r.end, r.whole), ("fin", False))
        self.assertFalse(r.body.endswith(b"\n\n"))

    def test_a_hang_lasts_until_the_client_leaves(self):
        for word, n in (("hang-late", 2), ("hang-early", 0)):
            sock = self.open(word)
            r = Reply(sock, wait_s=0.5)
            self.assertEqual((r.end, len(r.events)), ("open", n))
            sock.close()
            self.wait_for_end("gone", n)

    def wait_for_end(self, how, events):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            last = self.log()[-1]
            if last["event"] == "end":
                self.assertEqual((last["how"], last["events"]), (how, events))
                return
            time.sleep(0.01)
        self.fail(f"no end in the log: {how}")

    def test_a_client_that_resets_is_noted(self):
        sock = self.open("hang-late")
        Reply(sock, wait_s=0.2)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        self.wait_for_end("gone", 2)

    def test_an_error_event_is_followed_by_done(self):
        r = self.ask("error-event")
        self.assertEqual(json.loads(r.events[1]), {"error": {"message": "boom"}})
        self.assertEqual((r.events[2], r.whole), ("[DONE]", True))

    def test_done_may_be_missing(self):
        r = self.ask("no-done")
        self.assertEqual((r.whole, "usage" in r.chunks[-1]), (True, True))
        self.assertNotIn("[DONE]", r.events)

    def test_the_last_blank_line_may_be_missing(self):
        r = self.ask("no-blank")
        self.assertTrue(r.whole and r.body.endswith(b"}"))

    def test_the_body_may_stay_open_after_done(self):
        r = Reply(self.open("open"), wait_s=0.5)
        self.assertEqual((r.events[-1], r.end, r.whole), ("[DONE]", "open", False))

    def test_json_may_come_though_a_stream_was_asked_for(self):
        r = self.ask("json")
        self.assertEqual(json.loads(r.body)["object"], "chat.completion")

    def test_raw_bytes_are_sent_as_they_are(self):
        self.assertEqual(self.ask("raw").body, b"data: {broken\r\rdata: \xff\n\n")

    def test_unary_answers_break_in_their_middle(self):
        reset = self.ask("reset-late", stream=False)
        cut = self.ask("cut", stream=False)
        self.assertEqual((reset.end, cut.end), ("reset", "fin"))
        for r in (reset, cut):
            length = int(r.head.lower().split(b"content-length: ")[1].split()[0])
            self.assertTrue(0 < len(r.body) < length)

    def test_delays_are_kept(self):
        for word, at_least in (("slow", 0.3), ("late-usage", 0.3), ("paced", 6 * 0.05)):
            start = time.monotonic()
            self.assertTrue(self.ask(word).whole)
            self.assertGreaterEqual(time.monotonic() - start, at_least)

    def test_a_value_may_be_no_number(self):
        self.assertIn(b'"logprob":NaN', self.ask("nan", logprobs=True).body)

    @staticmethod
    def ids(reply):
        return [c["choices"][0].get("token_ids") for c in reply.chunks[1:] if c["choices"]]

    def test_ids_may_go_missing_or_come_late(self):
        plain = self.ids(self.ask("x", return_token_ids=True))
        gone = self.ids(self.ask("no-ids", return_token_ids=True))
        late = self.ids(self.ask("late-ids", return_token_ids=True))
        self.assertTrue(all(plain))
        self.assertTrue(gone[0] and not any(gone[1:]))
        self.assertEqual(late[-2], None)
        self.assertEqual(late[-1], [65793])

    def test_usage_may_be_missing_unasked_or_wrong(self):
        self.assertFalse(any(c.get("usage") for c in self.ask("usage-never").chunks))
        always = self.ask("usage-always", stream_options=None).chunks
        self.assertEqual(always[-1]["choices"], [])
        self.assertEqual(self.ask("usage-edit").chunks[-1]["usage"]["completion_tokens"], 7)

    def test_the_finish_reason_may_be_another_or_none(self):
        def reasons(word):
            return {c["choices"][0]["finish_reason"] for c in self.ask(word).chunks if c["choices"]}
        self.assertEqual(reasons("null-finish"), {None})
        self.assertEqual(reasons("strange-finish"), {None, "abort"})

    def test_several_tokens_may_share_an_event(self):
        r = self.ask("grouped", return_token_ids=True)
        self.assertEqual([len(i) for i in self.ids(r)], [3, 2, 1])

    def test_a_scene_fits_so_often(self):
        said = [json.loads(self.ask("twice", stream=False).body)["choices"][0]["message"]["content"]
                for _ in range(3)]
        self.assertEqual(said, ["one of two", "one of two", "Hi."])

    def test_the_log_has_headers_and_body_as_sent(self):
        self.ask("the log")
        line = [x for x in self.log() if x["event"] == "request"][-1]
        self.assertIn(["Connection", "close"], line["headers"])
        self.assertEqual(json.loads(line["body"])["messages"][0]["content"], "the log")
        self.assertEqual((line["method"], line["path"]), ("POST", "/v1/chat/completions"))


class Script(unittest.TestCase):
    def start(self, script):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            f.write(script if isinstance(script, str) else json.dumps(script))
            f.flush()
            done = subprocess.run([PROGRAM, "--script", f.name], capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        return done.stderr

    def test_a_bad_script_is_told_in_one_line(self):
        self.assertIn("no valid JSON", self.start("{"))
        self.assertIn("want an object", self.start([]))
        self.assertIn("did you mean 'scenes'", self.start({"scene": []}))
        self.assertIn("scene 1: want an object", self.start({"scenes": [3]}))
        self.assertIn("did you mean 'reply'", self.start({"scenes": [{"repply": {}}]}))
        self.assertIn("did you mean 'reset'",
                      self.start({"scenes": [{"fault": {"kind": "resett"}}]}))
        self.assertIn("needs a file", self.start({"otherwise": {"fault": {"kind": "raw"}}}))
        self.assertIn("needs a name", self.start({"otherwise": {"reply": {"tool_calls": [{}]}}}))
        self.assertIn("tokens_per_event", self.start({"otherwise": {"tokens_per_event": 0}}))
        self.assertIn("unasked", self.start({"unasked": "maybe"}))


if __name__ == "__main__":
    tap.main()
