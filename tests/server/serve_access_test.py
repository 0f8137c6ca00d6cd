#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who may ask, and how much: serve_access_test.py SNAFFLE MODEL. Speaks TAP."""
import os
import pathlib
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import environment  # noqa: E402
from rawsocket import RawSocket  # noqa: E402
from served import Place  # noqa: E402

SNAFFLE, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
KEY = "serve-key-0123456789"


class Access(unittest.TestCase):
    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)

    def refused(self, *args, env=None):
        done = subprocess.run([SNAFFLE, "serve", "--port", "0", *args], capture_output=True,
                              text=True, timeout=60, cwd=self.place.folder,
                              env=environment(env), check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_elsewhere_than_on_loopback_a_key_is_needed(self):
        self.assertIn("SNAFFLE_SERVE_KEY", self.refused("--host", "0.0.0.0"))
        s = self.place.serve("--host", "0.0.0.0", env={"SNAFFLE_SERVE_KEY": KEY})
        self.assertEqual(s.get("/state")[0], 401)
        s = self.place.serve("--host", "0.0.0.0", "--allow-anonymous")
        self.assertEqual(s.get("/state")[0], 200)
        self.assertIn("--allow-anonymous", s.errors())

    def test_wrong_settings_are_one_clear_line(self):
        self.assertIn("'many'", self.refused(env={"MAX_CONCURRENT_ENVS": "many"}))
        self.assertIn("MAX_CONCURRENT_ENVS", self.refused(env={"MAX_CONCURRENT_ENVS": "0"}))
        self.assertIn("--max-concurrent", self.refused("--max-concurrent", "0"))
        self.assertIn("70000", self.refused("--port", "70000"))
        self.assertIn("no-such", self.refused("--tasks", "no-such"))
        self.assertIn("'anything'", self.refused("--allow", "anything"))
        (self.place.folder / "empty").touch()
        self.assertIn("empty", self.refused("--key-file", "empty"))

    def test_a_variable_s_name_says_whose_key_it_is(self):
        self.assertIn("'NO_SUCH_KEY' is not set", self.refused("--key-env", "NO_SUCH_KEY"))
        self.assertIn("--key-env", self.refused("--api-key-env", "OWN_KEY", env={"OWN_KEY": KEY}))
        self.assertIn("--key-env", self.refused("--host", "0.0.0.0", "--api-key-env", "OWN_KEY",
                                                env={"OWN_KEY": KEY}))
        self.assertIn("one key", self.refused("--key-env", "A", "--key-file", "b"))
        s = self.place.serve("--host", "0.0.0.0", "--key-env", "OWN_KEY", "--base-url",
                             self.place.model.url, "--model", "m", "--api-key-env", "ENGINE_KEY",
                             env={"OWN_KEY": KEY, "ENGINE_KEY": "engine-key-0123456789",
                                  "SNAFFLE_SERVE_KEY": "another-key-0123456789"})
        for shown, status in ((KEY, 200), ("engine-key-0123456789", 401),
                              ("another-key-0123456789", 401)):
            self.assertEqual(s.get("/state", Authorization=f"Bearer {shown}")[0], status)

    def test_what_no_call_could_use_is_refused_at_once(self):
        for words, *args in (("--base-url or --endpoint", "--model", "m"),
                             ("'NO_SUCH' is not set", "--api-key-env", "NO_SUCH"),
                             ("base_url", "--base-url", "ftp://x"),
                             ("--public-url", "--capture", "public"),
                             ("public_url", "--public-url", "ftp://x"),
                             ("has a query", "--public-url", "http://x/?q"),
                             ("ADDRESS:PORT", "--public-url", "http://x", "--listen", "7000"),
                             ("--public-url", "--listen", "127.0.0.1:1"),
                             ("image", "--image", "python"), ("flavor", "--flavor", "cpu"),
                             ("namespace", "--namespace", "n"), ("env", "--env", "A=b"),
                             ("forward_hf_token", "--forward-hf-token"),
                             ("capture", "--capture", "sandbox"), ("rootfs", "--rootfs", "/none")):
            self.assertIn(words, self.refused(*args, "--agent", "command", "--agent-cmd", "true"))
        self.assertIn("agent_cmd", self.refused("--agent-cmd", "true"))
        (self.place.folder / "c.json").write_text('{"model": "m"}')
        self.assertIn("config", self.refused("--config", "c.json"))

    def test_what_the_machine_lacks_is_a_warning(self):
        s = self.place.serve(agent=None)  # OpenCode, which this state does not have.
        self.assertIn("warning: calls will fail: opencode", s.errors())
        self.assertEqual(s.get("/health")[0], 200)

    def test_the_options_are_the_defaults_that_clients_are_shown(self):
        s = self.place.serve("--mode", "black_box", "--proxy-max-tokens-cap", "0",
                             "--proxy-top-logprobs", "2", "--agent-timeout-s", "77",
                             "--setup-s", "11")
        (tool,) = s.rpc("tools/list")["result"]["tools"]
        shown = {n: tool["inputSchema"]["properties"][n]["default"]
                 for n in ("mode", "max_tokens_cap", "top_logprobs", "agent_timeout_s")}
        self.assertEqual(shown, {"mode": "black_box", "max_tokens_cap": None, "top_logprobs": 2,
                                 "agent_timeout_s": 77})
        self.assertIn("setup 11, agent 77,", tool["description"])
        (tool,) = self.place.serve().rpc("tools/list")["result"]["tools"]
        self.assertEqual(tool["inputSchema"]["properties"]["mode"]["default"], "transparent_proxy")
        self.assertEqual(tool["inputSchema"]["properties"]["agent_timeout_s"]["default"], 600)

    def test_the_key_comes_as_a_field_or_in_the_path(self):
        file = self.place.folder / "key"
        file.write_text(KEY + "\n")
        s = self.place.serve("--key-file", file)
        self.assertEqual(s.get("/health"), (200, {"status": "healthy"}))
        for path in ("/state", "/metadata", "/docs", "/metrics", "/", "/nowhere", "/k/wrong/state", "/k/",
                     f"/k/{KEY}x/state", f"/k/{KEY[:-1]}/state"):
            status, body = s.get(path)
            self.assertEqual(status, 401, path)
            self.assertNotIn(KEY, str(body))
        self.assertEqual(s.get("/state", Authorization="Bearer wrong")[0], 401)
        self.assertEqual(s.get("/state", Authorization=f"Bearer {KEY}")[0], 200)
        self.assertEqual(s.get("/state", Authorization=f"bearer {KEY}")[0], 200)
        self.assertEqual(s.get("/state", X_Api_Key=KEY)[0], 200)
        self.assertEqual(s.get(f"/k/{KEY}/state")[0], 200)
        self.assertEqual(s.get(f"/k/{KEY}/nowhere")[0], 404)
        ws = RawSocket(s.port, f"/k/{KEY}/ws")
        self.assertEqual((ws.status, ws.talk({"type": "state"})["type"]), (101, "state"))
        ws.drop()
        ws = RawSocket(s.port, "/ws", [f"Authorization: Bearer {KEY}"])
        self.assertEqual(ws.status, 101)
        ws.drop()
        ws = RawSocket(s.port, "/ws")
        self.assertEqual(ws.status, 401)
        ws.drop()
        status, got = s.ask("POST", f"/k/{KEY}/mcp", {"jsonrpc": "2.0", "id": 1,
                                                      "method": "tools/list"})
        self.assertEqual((status, got["id"]), (200, 1))
        self.assertEqual(s.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1,
                                                "method": "tools/list"})[0], 401)

    def test_a_redirect_does_not_say_the_key(self):
        s = self.place.serve(env={"SNAFFLE_SERVE_KEY": KEY})
        for path in ("/", "/web"):
            with socket.create_connection(("127.0.0.1", s.port), timeout=30) as c:
                c.sendall(f"GET /k/{KEY}{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                          .encode())
                got = b""
                while more := c.recv(65536):
                    got += more
            self.assertIn(b" 307 ", got)
            self.assertIn(b"Location: web/\r\n", got)
            self.assertNotIn(KEY.encode(), got)

    def test_pages_of_other_sites_may_not_ask(self):
        s = self.place.serve()
        for origin, host, status in (
                ("http://localhost:6274", None, 200), ("http://127.0.0.1:1", None, 200),
                ("http://[::1]:80", None, 200), ("https://evil.example", None, 403),
                ("null", None, 403), ("http://evil.example:8000", "evil.example:8000", 403),
                ("http://127.0.0.1.evil.example", None, 403), ("", None, 403)):
            more = {"Host": host} if host else {}
            self.assertEqual(s.get("/state", Origin=origin, **more)[0], status, origin)
        ws = RawSocket(s.port, "/ws", ["Origin: https://evil.example"])
        self.assertEqual(ws.status, 403)
        ws.drop()
        s = self.place.serve(env={"SNAFFLE_SERVE_KEY": KEY})
        auth = {"Authorization": f"Bearer {KEY}"}
        self.assertEqual(s.get("/state", Origin="https://a.example", Host="a.example", **auth)[0],
                         200)
        self.assertEqual(s.get("/state", Origin="https://b.example", Host="a.example", **auth)[0],
                         403)

    def test_what_is_too_much_is_refused_before_it_is_read(self):
        s = self.place.serve(env={"SNAFFLE_SERVE_KEY": KEY})
        auth = f"Authorization: Bearer {KEY}\r\n"

        def begin(head, body=b""):
            with socket.create_connection(("127.0.0.1", s.port), timeout=30) as c:
                c.sendall(head.encode())
                try:
                    c.sendall(body)
                except OSError:
                    pass
                return c.recv(65536).split(b"\r\n")[0]
        post = "POST /reset HTTP/1.1\r\nHost: x\r\n"
        self.assertIn(b" 413 ", begin(f"{post}{auth}Content-Length: {33 << 20}\r\n\r\n"))
        self.assertIn(b" 405 ", begin("POST /health HTTP/1.1\r\nHost: x\r\n"
                                      f"Content-Length: {30 << 20}\r\n\r\n"))
        self.assertIn(b" 401 ", begin(f"{post}Content-Length: {30 << 20}\r\n\r\n"))
        self.assertIn(b" 431 ", begin(f"{post}X: {'x' * 70000}\r\n\r\n"))
        status, _ = s.ask("POST", "/reset", b'{"x":"' + b"y" * (20 << 20) + b'"}',
                          {"Authorization": f"Bearer {KEY}"})
        self.assertEqual(status, 200)

    def test_a_client_that_sends_too_many_messages_at_once_goes(self):
        s = self.place.serve("--max-concurrent", "1", agent="sleep 120")
        ws = RawSocket(s.port, "/ws")
        call = self.place.call()
        ws.send('{"type":"step","data":{"tool_name":"run_rollout","arguments":' +
                str(call).replace("'", '"') + "}}")
        for _ in range(65):
            ws.send('{"type":"state"}', may_fail=True)
        self.assertEqual(ws.closed(), 1008)

    def test_health_answers_while_many_connections_ask_nothing(self):
        s = self.place.serve()
        idle = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(500)]
        started = time.monotonic()
        self.assertEqual(s.get("/health")[0], 200)
        self.assertLess(time.monotonic() - started, 2)
        for c in idle:
            c.close()


if __name__ == "__main__":
    tap.main()
