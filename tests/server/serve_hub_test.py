#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sandboxes elsewhere, that call the server's gateway at a public address: the fake Hub's.

serve_hub_test.py SNAFFLE MODEL FAKE_HUB SBX_DOUBLE. Speaks TAP.
"""
import http.client
import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import environment  # noqa: E402
from served import Place, lacks_sandbox, until  # noqa: E402

SNAFFLE, MODEL, HUB, SBX = (os.path.abspath(a) for a in sys.argv[1:5])
LACKS = lacks_sandbox(SNAFFLE)
TOKEN = "hf_testtoken"
# Tells where it was sent, asks its model, and asks again with what is not its token.
TRIES = "python3 -c " + shlex.quote("""
import json, os, urllib.error, urllib.request
base, token = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "go"}]}).encode()
def ask(url, key):
    request = urllib.request.Request(url + "/chat/completions", body,
        {"Content-Type": "application/json", "Authorization": "Bearer " + key})
    try:
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as e:
        return e.code
root = base.split("/s/")[0]
wrong = "0" * len(token)
open("seen", "w").write(json.dumps({"base": base, "token": token, "got": [
    ask(base, token), ask(base, "any"), ask(root + "/v1", token),
    ask(root + "/v1", wrong), ask(f"{root}/s/{wrong}/v1", token), ask(root + "/s//v1", token)]}))
""")


def free_port():
    """Bound, so that nobody else gets it; who shares the address may still listen there."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    return s


class Hub:
    """The fake one, whose jobs reach some ports of this machine."""

    def __init__(self, folder, *ports):
        port = pathlib.Path(folder) / "hub.port"
        reach = [word for p in ports for word in ("--reach", str(p))]
        self.process = subprocess.Popen(
            [HUB, "--sbx", SBX, "--sbx-words", "protocol=3", "--token", TOKEN, *reach,
             "--port-file", port, "--die-with-parent"], stdout=subprocess.DEVNULL)
        until(lambda: port.exists() and port.read_text().strip(), "the fake Hub")
        self.url = f"http://127.0.0.1:{port.read_text().strip()}"
        self.env = {"HF_ENDPOINT": self.url, "HF_TOKEN": TOKEN}

    def alive(self):
        with urllib.request.urlopen(f"{self.url}/_state") as answer:
            return json.load(answer)["alive"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


@unittest.skipIf(os.geteuid() != 0, "the fake Hub's jobs are containers: needs root")
class Public(unittest.TestCase):
    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)
        self.reserved = free_port()
        self.addCleanup(self.reserved.close)
        self.port = self.reserved.getsockname()[1]
        self.hub = Hub(self.place.folder, self.place.model.port, self.port)
        self.addCleanup(self.hub.stop)
        self.public = ["--public-url", f"http://127.0.0.1:{self.port}/", "--listen",
                       f"127.0.0.1:{self.port}"]

    def serve(self, *args, agent=TRIES):
        return self.place.serve("--allow", "backend=hf", *args, agent=agent, env=self.hub.env)

    def rollout(self, s, **more):
        call = self.place.call(backend="hf", **more)
        got = s.rpc("tools/call", {"name": "run_rollout", "arguments": call})
        return json.loads(got["result"]["data"])

    def refusal(self, s, **more):
        got = s.rpc("tools/call", {"name": "run_rollout", "arguments": self.place.call(**more)})
        return got["error"]["message"]

    def gateway(self, method, path, body=None, **headers):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        conn.request(method, path, body, headers)
        answer = conn.getresponse()
        answer.read()
        conn.close()
        return answer.status

    def test_an_agent_elsewhere_calls_the_gateway_at_its_public_address(self):
        s = self.serve(*self.public)
        got = self.rollout(s, capture="public", verify=["test -s seen"])
        self.assertEqual((got["status"], got["reward"], got["calls"], got["capture_level"]),
                         ("ok", 1.0, 3, "tokens"), got)
        self.assertTrue(all(t["completion_token_ids"] for t in got["proxy_turns"]))
        self.assertEqual(got["isolation"]["model_key"], "enforced: it stays outside")
        (seen,) = (json.loads(t) for p, t in got["files"].items() if p.endswith("/seen"))
        token = seen["token"]
        self.assertEqual(seen["base"], f"http://127.0.0.1:{self.port}/s/{token}/v1")
        # The path's own token opens, whatever the key says; a key does on the bare path.
        self.assertEqual(seen["got"], [200, 200, 200, 401, 401, 401])
        self.assertEqual(self.hub.alive(), 0)
        for secret in (token, TOKEN, "model-key-0123456789"):
            self.assertNotIn(secret, s.errors())
        # Its end ended its token; nothing else stands at that address.
        self.assertEqual(self.gateway("GET", f"/s/{token}/v1/models"), 401)
        self.assertEqual(self.gateway("GET", "/healthz"), 200)
        for path in ("/health", "/mcp", "/metrics", "/ws", "/v1/models", "/", "/docs"):
            self.assertEqual(self.gateway("GET", path), 401, path)
        # Who may not ask is told so before a body is read.
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as c:
            c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                      b"Content-Length: 60000000\r\n\r\n")
            self.assertIn(b" 401 ", c.recv(65536))

    def test_it_may_be_what_calls_have_that_say_nothing(self):
        (self.place.folder / ".env").write_text(  # The Hub's token stands there too.
            "".join(f"{name}={value}\n" for name, value in self.hub.env.items()))
        self.hub.env = {}
        s = self.serve("--capture", "public", *self.public)
        got = self.rollout(s)
        self.assertEqual((got["status"], got["isolation"]["model_key"]),
                         ("ok", "enforced: it stays outside"), got)

    def test_without_an_address_it_is_refused_and_the_flag_named(self):
        s = self.serve()
        for backend in ("hf", "local"):
            self.assertIn("--public-url", self.refusal(s, backend=backend, capture="public"))
        self.assertEqual(self.hub.alive(), 0)

    def test_a_local_sandbox_with_the_model_alone_has_no_way_there(self):
        s = self.serve(*self.public)
        self.assertIn("network", self.refusal(s, capture="public"))
        self.assertFalse((self.place.folder / "runs").exists() and
                         any((self.place.folder / "runs").glob("*/*/task.json")))

    def test_calls_that_say_nothing_go_by_their_backend_s_own_way(self):
        s = self.serve(*self.public)
        got = self.rollout(s, capture="")
        self.assertEqual(got["status"], "ok", got)
        self.assertIn("key_exposed", got["isolation"]["model_key"])


class Away(unittest.TestCase):
    """A Hub that can't be asked."""

    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)

    def test_it_keeps_no_server_from_starting_and_calls_say_so(self):
        with free_port() as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
            s = self.place.serve("--backend", "hf", env={"HF_ENDPOINT": url, "HF_TOKEN": TOKEN})
            self.assertIn("calls will fail: cannot connect to '127.0.0.1'", s.errors())
            self.assertEqual(s.get("/health")[0], 200)
            got = s.rpc("tools/call", {"name": "run_rollout", "arguments": self.place.call()})
            self.assertIn("cannot connect to '127.0.0.1'", got["error"]["message"])


class Listening(unittest.TestCase):
    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)

    def test_where_it_listens_is_told_at_once(self):
        s = self.place.serve("--public-url", "https://gateway.example", "--listen", "127.0.0.1:0")
        found = re.search("reach the gateway at https://gateway.example, which has to lead to "
                          r"127.0.0.1 port (\d+)\n", s.errors())
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=30) as c:
            c.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b" 401 ", c.recv(65536))

    @unittest.skipIf(LACKS, LACKS)
    def test_strangers_who_hold_connections_leave_descriptors_for_rollouts(self):
        few = self.place.folder / "few"  # As few as an old machine's process may have.
        few.write_text(f'#!/bin/sh\nulimit -n 400\nexec {shlex.quote(SNAFFLE)} "$@"\n')
        few.chmod(0o755)
        self.place.program = str(few)
        s = self.place.serve("--public-url", "https://gateway.example", "--listen", "127.0.0.1:0")
        gateway = int(re.search(r"port (\d+)\n", s.errors())[1])
        idle = [socket.create_connection(("127.0.0.1", port)) for port in (gateway, s.port)
                for _ in range(300)]
        self.assertEqual(s.get("/health")[0], 200)
        got = s.rpc("tools/call", {"name": "run_rollout", "arguments": self.place.call()})
        self.assertEqual(json.loads(got["result"]["data"])["status"], "ok")
        for c in idle:
            c.close()

    def test_a_soft_limit_on_descriptors_is_raised(self):
        soft = self.place.folder / "soft"
        soft.write_text(f'#!/bin/sh\nulimit -Sn 200\nexec {shlex.quote(SNAFFLE)} "$@"\n')
        soft.chmod(0o755)
        self.place.program = str(soft)
        s = self.place.serve()
        limits = pathlib.Path(f"/proc/{s.process.pid}/limits").read_text()
        found = re.search(r"Max open files +(\d+) +(\d+)", limits)
        self.assertEqual(found[1], found[2])
        self.assertNotEqual(found[1], "200")

    def test_a_place_that_is_taken_ends_the_server(self):
        with free_port() as taken:
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = subprocess.run(
                [SNAFFLE, "serve", "--port", "0", "--agent", "command", "--agent-cmd", "true",
                 "--public-url", "http://x", "--listen", address], capture_output=True, text=True,
                timeout=60, cwd=self.place.folder, env=environment(self.place.env), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, "cannot listen on '127.0.0.1' port .*in use")


if __name__ == "__main__":
    tap.main()
