#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The endpoint's key stays inside: nothing that a gateway writes, says or shows holds it.

secret_test.py SNAFFLE. Speaks TAP.
"""
import base64
import gzip
import http.client
import http.server
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "doubles")]
import tap  # noqa: E402
from servers import Program, await_true, environment  # noqa: E402

SNAFFLE = str(pathlib.Path(sys.argv[1]).resolve())
KEY = "sk-secret-0123456789abcdefghijklmnop"
SPELLINGS = {KEY.encode(), KEY[3:].encode(), base64.b64encode(KEY.encode()), KEY[::-1].encode()}


class Quoter(http.server.BaseHTTPRequestHandler):
    """An engine that says back, in every place of its answer, what it was sent."""

    protocol_version = "HTTP/1.1"
    seen = []  # The keys that came.

    def log_message(self, *_):
        pass

    def do_POST(self):
        said = self.headers["Authorization"]
        self.seen.append(said)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        how = self.headers["X-How"]
        if how == "cut":
            self.wfile.write(f"HTTP/1.1 200 No {said}\r\nX-Key: {said}\r\n".encode())
            self.close_connection = True
            return
        if how == "stream":
            kind, text, status = "text/event-stream", (
                'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
                'data: {"error":{"message":"%s"}}\n\ndata: [DONE]\n\n' % (said, said)), 200
        elif how == "whole":
            kind, text, status = "application/json", (
                '{"choices":[{"index":0,"message":{"content":"%s"}}],"x":%d}' % (said, len(body))), 200
        else:
            kind, text, status = "text/html", "<html>%s is no key</html>" % said, int(how)
        data = text.encode()
        encoding = self.headers.get("X-Encode")
        if encoding:
            data = gzip.compress(data)
        self.send_response(status, f"No {said}")
        self.send_header("Content-Type", kind)
        self.send_header("WWW-Authenticate", said)
        if encoding:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for at in range(0, len(data), 7):  # The key comes in pieces.
            self.wfile.write(data[at:at + 7])


def setUpModule():
    global scratch, engine
    scratch = tempfile.TemporaryDirectory(prefix="snaffle-secret-")
    engine = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quoter)
    threading.Thread(target=engine.serve_forever, daemon=True).start()


def tearDownModule():
    engine.shutdown()
    engine.server_close()
    scratch.cleanup()


class Gateway(Program):
    def __init__(self, name, options, env=None, key_on_stdin=False, upstream=None):
        folder = pathlib.Path(scratch.name) / name
        folder.mkdir()
        upstream = upstream or f"http://127.0.0.1:{engine.server_address[1]}/v1"
        more = {"stdin": subprocess.PIPE} if key_on_stdin else {}
        super().__init__(folder, [SNAFFLE, "gateway", "--port", "0", "--upstream-url", upstream,
                                  "--journal", folder / "journal", "--trace", folder / "trace",
                                  "--keep-raw", *options], env=environment(**(env or {})), **more)
        if key_on_stdin:
            self.process.stdin.write(KEY.encode() + b"\n")
            self.process.stdin.close()
        self.await_ready(lambda: "/v1\n" in self.output())
        self.port = int(self.output().split("/v1\n")[0].rsplit(":", 1)[1])

    def call(self, how, encode=None):
        """All that the agent sees."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = '{"model":"m","stream":%s}' % ("true" if how == "stream" else "false")
        headers = {"X-How": how, **({"X-Encode": encode} if encode else {})}
        c.request("POST", "/v1/chat/completions", body, headers)
        try:
            r = c.getresponse()
            return f"{r.status} {r.reason} {r.getheaders()}".encode() + r.read()
        except http.client.HTTPException as e:
            return repr(e).encode()
        finally:
            c.close()

    def written(self):
        return {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    def shown(self):
        """What anybody may read of the process: its command line, its threads' names."""
        at = pathlib.Path("/proc") / str(self.process.pid)
        return {p: p.read_bytes() for p in [at / "cmdline", at / "status", *at.glob("task/*/comm")]}


class Secret(unittest.TestCase):
    def no_key_in(self, texts):
        self.assertTrue(texts)
        for where, text in texts.items():
            for spelling in SPELLINGS:
                self.assertNotIn(spelling, text, f"the key stands in {where}")

    def use(self, gateway):
        Quoter.seen.clear()
        try:
            self.no_key_in(gateway.shown())
            for how in ("stream", "whole", "401", "400", "422", "500", "cut"):
                for encode in (None, "gzip") if how.isdigit() else (None,):
                    said = gateway.call(how, encode)
                    self.no_key_in({f"the answer to {how}, {encode}": said})
                    if how.isdigit():
                        self.assertIn(b"*" * len(KEY), said)
            self.no_key_in(gateway.shown())
            self.assertTrue(Quoter.seen)
            self.assertEqual(set(Quoter.seen), {f"Bearer {KEY}"})
            trace = gateway.folder / "trace"
            await_true(lambda: trace.exists() and trace.read_bytes().count(b"\n") >= 7, "the trace")
        finally:
            gateway.stop()
        self.assertTrue(any(p.match("journal/*/*.log") for p in gateway.written()))
        self.no_key_in(gateway.written())

    def test_a_key_from_the_environment_is_nowhere_to_be_found(self):
        self.use(Gateway("env", [], env={"UPSTREAM_API_KEY": KEY}))

    def test_a_key_from_standard_input_is_nowhere_to_be_found(self):
        self.use(Gateway("stdin", ["--upstream-api-key-stdin"], key_on_stdin=True))

    def test_a_key_from_the_command_line_is_taken_out_of_it(self):
        self.use(Gateway("argv", ["--upstream-api-key", KEY]))

    def test_an_endpoint_that_cannot_be_reached_says_nothing_of_the_key(self):
        gateway = Gateway("nowhere", [], env={"UPSTREAM_API_KEY": KEY},
                          upstream="http://127.0.0.1:1/v1")
        try:
            self.no_key_in({"the answer": gateway.call("whole")})
        finally:
            gateway.stop()
        self.no_key_in(gateway.written())

    def test_a_key_that_is_none_is_not_repeated(self):
        for bad in (KEY + " x", KEY * 200):
            done = subprocess.run([SNAFFLE, "gateway", "--upstream-url", "http://127.0.0.1:1/v1"],
                                  env=environment(UPSTREAM_API_KEY=bad), capture_output=True,
                                  timeout=60, check=False, cwd=scratch.name)
            self.assertEqual(done.returncode, 2)
            self.no_key_in({"stdout": done.stdout, "stderr": done.stderr})

    def test_other_addresses_than_loopback_want_a_key(self):
        for host in ("0.0.0.0", "::", "192.0.2.1"):
            done = subprocess.run([SNAFFLE, "gateway", "--host", host, "--port", "0",
                                   "--upstream-url", "http://127.0.0.1:1/v1"], env=environment(),
                                  capture_output=True, timeout=60, check=False, cwd=scratch.name)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"needs a key", done.stderr)


if __name__ == "__main__":
    tap.main()
