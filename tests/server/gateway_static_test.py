#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The standalone program: gateway_static_test.py SNAFFLE_GATEWAY MODEL. Speaks TAP."""
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import Gateway, Model, environment, trace_of  # noqa: E402

PROGRAM, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SIZE_MAX = 6_000_000
ANSWER = json.dumps({"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hi"}, "logprobs": None,
     "finish_reason": "stop"}]}).encode()


class Engine(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *args):  # pylint: disable=arguments-differ
        pass


def certificate(folder, names):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-subj", "/CN=x",
                    "-addext", f"subjectAltName={names}"], check=True, capture_output=True)


def tls_engine(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@unittest.skipUnless(os.getuid() == 0, "an empty root needs root's chroot")
class EmptyRoot(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name, "root")
        self.root.mkdir()
        shutil.copy(PROGRAM, self.root / "snaffle-gateway")

    def gateway(self, *args, env=None):
        g = Gateway(["chroot", self.root, "/snaffle-gateway"], *args, folder=self.scratch.name,
                    env=env)
        self.addCleanup(g.stop)
        return g

    def test_it_records_a_call_with_nothing_but_itself(self):
        model = Model(MODEL, self.scratch.name)
        self.addCleanup(model.kill)
        self.assertEqual([p.name for p in self.root.rglob("*")], ["snaffle-gateway"])
        g = self.gateway("--upstream-url", model.url, "--trace", "/t.jsonl", "--workers", "2")
        self.assertEqual(g.call()[0], 200)
        self.assertEqual(g.call(stream=True)[0], 200)
        self.assertIn("calls_stored_total 2", g.metrics())
        self.assertEqual(g.stop(), 0)
        turns = trace_of(self.root / "t.jsonl")
        self.assertEqual([len(t["completion_token_ids"]) > 0 for t in turns], [True, True])

    def test_it_verifies_tls_and_honours_ssl_cert_file(self):
        folder = pathlib.Path(self.scratch.name)
        certificate(folder, "IP:127.0.0.1,DNS:engine.test")
        engine = tls_engine(folder)
        self.addCleanup(engine.shutdown)
        url = f"https://127.0.0.1:{engine.server_address[1]}/v1"
        status, body = self.gateway("--upstream-url", url).call()
        self.assertEqual(status, 502, body)
        self.assertIn("certificate is refused", json.dumps(body))
        shutil.copy(folder / "cert.pem", self.root / "ca.pem")
        g = self.gateway("--upstream-url", url, env={"SSL_CERT_FILE": "/ca.pem"})
        self.assertEqual(g.call()[0], 200)
        (self.root / "etc").mkdir()
        (self.root / "etc" / "hosts").write_text("127.0.0.1 engine.test other.test\n")
        for name, want in (("engine.test", 200), ("other.test", 502)):
            url = f"https://{name}:{engine.server_address[1]}/v1"
            g = self.gateway("--upstream-url", url, env={"SSL_CERT_FILE": "/ca.pem"})
            status, body = g.call()
            self.assertEqual(status, want, body)
        self.assertIn("refused", json.dumps(body))

    def test_the_built_in_certificates_are_those_of_the_building_machine(self):
        """A chain of a root in the bundle can't be signed here; that the bundle is read is seen
        from what a refusal says."""
        bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt").read_text()
        ders = [ssl.PEM_cert_to_DER_cert("-----BEGIN" + part) for part in
                bundle.split("-----BEGIN")[1:]]
        program = pathlib.Path(PROGRAM).read_bytes()
        self.assertGreater(len(ders), 50)
        self.assertTrue(all(der in program for der in ders))

    def test_a_name_that_nobody_knows_is_one_clear_error(self):
        started = time.monotonic()
        status, body = self.gateway("--upstream-url", "http://nowhere.test/v1").call()
        self.assertEqual(status, 502, body)
        self.assertIn("nowhere.test", json.dumps(body))
        self.assertLess(time.monotonic() - started, 60)


class Program(unittest.TestCase):
    def test_it_is_small_and_needs_no_library(self):
        self.assertLessEqual(os.path.getsize(PROGRAM), SIZE_MAX)
        out = subprocess.run(["readelf", "-d", "-l", PROGRAM], capture_output=True, text=True,
                             check=True).stdout
        self.assertNotIn("NEEDED", out)
        self.assertNotIn("INTERP", out)
        self.assertNotIn(b"SQLite format", pathlib.Path(PROGRAM).read_bytes())

    def test_it_says_its_version_and_its_options(self):
        for flag, says in (("--version", "snaffle-gateway "), ("--help", "--upstream-url URL")):
            done = subprocess.run([PROGRAM, flag], env=environment(), capture_output=True,
                                  text=True, timeout=60, check=True)
            self.assertIn(says, done.stdout)
        done = subprocess.run([PROGRAM, "--prot"], env=environment(), capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))

    def test_a_port_that_is_taken_is_told(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = str(s.getsockname()[1])
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    [PROGRAM, "--upstream-url", "http://127.0.0.1:1", "--port", port], cwd=folder,
                    env=environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"port {port}", done.stderr)


if __name__ == "__main__":
    tap.main()
