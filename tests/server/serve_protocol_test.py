#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What OpenEnv's clients may send and get: serve_protocol_test.py SNAFFLE MODEL. Speaks TAP."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from programs import environment  # noqa: E402
from served import ASKS, SLOW, Case, lacks_sandbox, until  # noqa: E402

SNAFFLE = os.path.abspath(sys.argv[1])
LACKS = lacks_sandbox(SNAFFLE)
WAITS_FOR_A_FILE = "while ! [ -e go ]; do sleep 0.05; done"


class Http(Case):
    def test_it_says_what_it_is(self):
        s = self.place.serve()
        self.assertEqual(s.get("/health"), (200, {"status": "healthy"}))
        meta = s.get("/metadata")[1]
        self.assertEqual(set(meta), {"name", "description", "readme_content", "version", "author",
                                     "documentation_url"})
        schema = s.get("/schema")[1]
        self.assertEqual(set(schema), {"action", "observation", "state"})
        self.assertEqual(schema["action"]["required"], ["tool_name"])
        status, page = s.get("/docs")
        self.assertEqual(status, 200)
        self.assertIn("run_rollout", page)
        self.assertEqual(s.get("/nowhere"), (404, {"detail": "Not Found"}))
        self.assertEqual(s.get("/reset"), (405, {"detail": "Method Not Allowed"}))
        self.assertEqual(s.ask("DELETE", "/health")[0], 405)

    def test_the_web_s_paths_are_redirected(self):
        s = self.place.serve()
        for path in ("/", "/web"):
            conn = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)
            conn.request("GET", path)
            answer = conn.getresponse()
            self.assertEqual((answer.status, answer.getheader("Location")), (307, "/web/"))
            conn.close()
            self.assertEqual(s.ask("POST", path)[0], 405)
        self.assertEqual(s.get("/web/")[0], 200)
        self.assertIn("/web/reset", s.get("/openapi.json")[1]["paths"])
        self.assertEqual(s.get("/web/metadata")[1]["name"], "opencode_env")
        self.assertEqual(s.ask("POST", "/web/reset", {"episode_id": "w", "x": 1})[0], 200)
        self.assertEqual(s.get("/web/state")[1]["episode_id"], "w")
        for arguments in ({"instruction": ""}, '{"instruction": ""}'):
            got = s.ask("POST", "/web/step", {"action": {"tool_name": "run_rollout",
                                                         "arguments": arguments}})[1]
            self.assertIn("instruction", got["observation"]["error"]["message"])
        self.assertEqual(s.ask("POST", "/web/step", {"action": {"tool_name": "run_rollout",
                                                                "arguments": "{"}})[0], 422)
        self.assertEqual(s.get("/web/state")[1]["step_count"], 2)
        off = self.place.serve(env={"ENABLE_WEB_INTERFACE": "false"})
        self.assertEqual(off.get("/")[0], 404)
        self.assertNotIn("/web/reset", off.get("/openapi.json")[1]["paths"])

    def test_who_looks_at_the_web_s_episode_is_told_of_it(self):
        s = self.place.serve()

        def told(ws):
            got = json.loads(ws.receive())
            self.assertEqual((got["type"], set(got)), ("state_update", {"type", "episode_state"}))
            return got["episode_state"]
        one = self.socket(s, "/ws/ui")
        self.assertEqual(told(one), {"episode_id": None, "step_count": 0, "action_logs": [],
                                     "current_observation": None, "is_reset": False})
        s.ask("POST", "/web/reset", {"episode_id": "seen"})
        state = told(one)
        self.assertEqual((state["episode_id"], state["is_reset"]), ("seen", True))
        self.assertEqual(state["current_observation"]["metadata"]["status"], "ready")
        one.send("ping")  # Keeps it alive, and is passed over.
        action = {"tool_name": "dance", "arguments": {}}
        s.ask("POST", "/web/step", {"action": action})
        state = told(one)
        self.assertEqual((state["step_count"], state["is_reset"]), (1, False))
        (log,) = state["action_logs"]
        self.assertEqual(set(log), {"timestamp", "action", "observation", "reward", "done",
                                    "step_count"})
        self.assertEqual((log["action"], log["observation"]["error"]["error_type"]),
                         (action, "tool_not_found"))
        two = self.socket(s, "/ws/ui")
        self.assertEqual(told(two), state)
        for i in range(1001):
            s.ask("POST", "/web/step", {"action": {"tool_name": f"dance {i}"}})
            state = told(one)
        self.assertEqual((len(state["action_logs"]), state["step_count"]), (1000, 1002))
        self.assertEqual(state["action_logs"][-1]["action"]["tool_name"], "dance 1000")
        s.ask("POST", "/reset", {"episode_id": "other"})  # Not the web's.
        s.ask("POST", "/web/reset")
        self.assertEqual(told(one)["action_logs"], [])
        off = self.place.serve(env={"ENABLE_WEB_INTERFACE": "false"})
        self.assertEqual(self.socket(off, "/ws/ui").status, 404)

    def test_each_state_is_of_a_fresh_episode(self):
        s = self.place.serve()
        one, two = s.get("/state")[1], s.get("/state")[1]
        self.assertNotEqual(one["episode_id"], two["episode_id"])
        self.assertEqual((one["step_count"], one["last_reward"]), (0, None))

    def test_a_reset_takes_what_it_knows_and_more(self):
        s = self.place.serve()
        for body in (None, "", "null", {}, {"seed": 3, "episode_id": "e", "else": [1]},
                     {"seed": None}):
            status, got = s.ask("POST", "/reset", body)
            self.assertEqual(status, 200, body)
            self.assertEqual((got["reward"], got["done"]), (None, False))
            self.assertEqual(got["observation"]["metadata"]["status"], "ready")
        for body, loc in (({"seed": -1}, ["body", "seed"]), ({"seed": "x"}, ["body", "seed"]),
                          ({"episode_id": "x" * 256}, ["body", "episode_id"])):
            status, got = s.ask("POST", "/reset", body)
            self.assertEqual((status, got["detail"][0]["loc"]), (422, loc))
            self.assertEqual(set(got["detail"][0]), {"type", "loc", "msg", "input"})
        self.assertEqual(s.ask("POST", "/reset", {"episode_id": "a\0b"})[0], 422)
        self.assertEqual(s.ask("POST", "/reset", "not json")[0], 422)
        self.assertEqual(s.ask("POST", "/reset", [])[0], 422)
        self.assertEqual(s.ask("POST", "/reset", {"episode_id": "ä" * 255})[0], 200)

    def test_a_step_is_checked_before_it_is_done(self):
        s = self.place.serve()
        for body, loc in (({}, ["body", "action"]), ({"action": 3}, ["body", "action"]),
                          ({"action": {"type": "list_tools"}, "timeout_s": 0},
                           ["body", "timeout_s"]),
                          ({"action": {"type": "list_tools", "x": 1}}, ["x"]),
                          ({"action": {"tool_name": "t", "arguments": 3}}, ["arguments"])):
            status, got = s.ask("POST", "/step", body)
            self.assertEqual((status, got["detail"][0]["loc"]), (422, loc), body)
        status, got = s.ask("POST", "/step", {"action": {"type": "list_tools"}, "more": 1})
        self.assertEqual([t["name"] for t in got["observation"]["tools"]], ["run_rollout"])
        self.assertEqual(set(got["observation"]["tools"][0]) & {"name", "input_schema"},
                         {"name", "input_schema"})
        got = s.ask("POST", "/step", {"action": {"tool_name": "dance"}})[1]["observation"]
        self.assertEqual(got["error"]["error_type"], "tool_not_found")
        self.assertEqual(set(got["error"]), {"error_type", "message"})
        got = s.ask("POST", "/step", {"action": {"tool_name": "run_rollout\0"}})[1]["observation"]
        self.assertEqual((got["tool_name"], got["error"]["error_type"]),
                         ("run_rollout\0", "tool_not_found"))
        got = s.ask("POST", "/step", {"action": {"tool_name": "run_rollout"}})[1]["observation"]
        self.assertEqual((got["result"], got["error"]["error_type"]), (None, "invalid_args"))
        self.assertIn("instruction", got["error"]["message"])

    def test_production_has_no_reset_step_and_state(self):
        for args, env in ((["--openenv-mode", "production"], {}),
                          ([], {"OPENENV_MODE": "production"})):
            s = self.place.serve(*args, env=env)
            for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state")):
                self.assertEqual(s.ask(method, path, {} if method == "POST" else None)[0], 404)
            paths = s.get("/openapi.json")[1]["paths"]
            self.assertFalse({"/reset", "/step", "/state"} & set(paths))
            self.assertIn("/mcp", paths)
            self.assertEqual(s.rpc("tools/list")["result"]["tools"][0]["name"], "run_rollout")
            self.assertEqual(self.socket(s).talk({"type": "reset"})["type"], "observation")
        with self.assertRaisesRegex(AssertionError, "simulation or production"):
            self.place.serve(env={"OPENENV_MODE": "dance"})
        flag_wins = self.place.serve("--openenv-mode", "simulation",
                                     env={"OPENENV_MODE": "production"})
        self.assertEqual(flag_wins.get("/state")[0], 200)

    def test_settings_come_from_a_file_but_the_environment_weighs_more(self):
        (self.place.folder / ".env").write_text("MAX_CONCURRENT_ENVS=1\nOPENENV_MODE=production\n")
        s = self.place.serve()
        self.assertEqual(s.get("/state")[0], 404)
        s.rpc("openenv/session/create")
        self.assertEqual(s.rpc("openenv/session/create")["error"]["data"]["max_sessions"], 1)
        s = self.place.serve(env={"MAX_CONCURRENT_ENVS": "2", "OPENENV_MODE": "simulation"})
        self.assertEqual(s.get("/state")[0], 200)
        for _ in range(2):
            self.assertIn("result", s.rpc("openenv/session/create"))

    def test_a_connection_behaves_however_it_is_used(self):
        s = self.place.serve()
        with socket.create_connection(("127.0.0.1", s.port), timeout=30) as c:
            def read(words):
                got = b""
                while words not in got:
                    more = c.recv(65536)
                    if not more:
                        raise AssertionError(f"{words} not in {got}")
                    got += more
                return got
            for piece in (b"GET /health HT", b"TP/1.1\r\nHost: x", b"\r\n\r\n"):  # Paused.
                c.sendall(piece)
                time.sleep(0.05)
            read(b"healthy")
            c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3)  # Pipelined.
            got = read(b"healthy")
            while got.count(b"healthy") < 3:
                got += read(b"healthy")
            c.sendall(b"POST /reset HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                      b"Content-Length: 10\r\n\r\n")
            read(b"100 Continue\r\n\r\n")
            c.sendall(b'{"seed":1}')
            read(b"ready")
            c.sendall(b"POST /reset HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                      b"5\r\n{\"see\r\n6\r\nd\": 1}\r\n0\r\n\r\n")
            read(b"ready")
            c.sendall(b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            got = read(b"\r\n\r\n")
            while more := c.recv(65536):
                got += more
            self.assertTrue(got.endswith(b"\r\n\r\n"), got)
            self.assertIn(b"200 OK", got)


class Rpc(Case):
    def test_what_is_no_request_is_answered_all_the_same(self):
        s = self.place.serve()
        for body, code in (("{}", -32600), ("not json", -32700), ("[]", -32700),
                           ('{"jsonrpc":"1.0","method":"tools/list","id":1}', -32600),
                           ('{"jsonrpc":"2.0","method":"dance","id":1}', -32601)):
            status, got = s.ask("POST", "/mcp", body)
            self.assertEqual((status, got["jsonrpc"]), (200, "2.0"), body)
            self.assertIn(got["error"]["code"], (code, -32600), body)
            self.assertNotIn("result", got)

    def test_tools_are_listed_and_wrong_calls_are_errors(self):
        s = self.place.serve()
        for number in (7, "seven"):
            got = s.rpc("tools/list", {}, number)["result"]
            self.assertEqual([t["name"] for t in got["tools"]], ["run_rollout"])
            self.assertNotIn("reward", got)
        got = s.rpc("tools/call", {})["error"]
        self.assertEqual(got["code"], -32602)
        self.assertIn("name", got["message"])
        for name in ("dance", "run_rollout\0"):
            got = s.rpc("tools/call", {"name": name})["error"]
            self.assertEqual(got["code"], -32603)
            self.assertIn("Unknown tool", got["message"])
        got = s.rpc("tools/call", {"name": "run_rollout", "arguments": {"mode": "dance",
                                                                        "instruction": "x"}})
        self.assertEqual(got["error"]["code"], -32603)

    def test_sessions_are_made_used_and_ended_by_messages(self):
        s = self.place.serve(env={"MAX_CONCURRENT_ENVS": "2"})
        one = s.rpc("openenv/session/create")["result"]["session_id"]
        self.assertEqual(s.rpc("tools/list", {"session_id": one})["result"]["tools"][0]["name"],
                         "run_rollout")
        two = s.rpc("openenv/session/create", {})["result"]["session_id"]
        self.assertNotEqual(one, two)
        full = s.rpc("openenv/session/create")["error"]
        self.assertEqual((full["code"], full["data"]),
                         (-32000, {"active_sessions": 2, "max_sessions": 2}))
        got = s.rpc("openenv/session/close", {"session_id": one})["result"]
        self.assertEqual(got, {"session_id": one, "closed": True})
        self.assertEqual(s.rpc("openenv/session/close", {"session_id": one})["error"]["code"],
                         -32602)
        got = s.rpc("openenv/session/close", {})["error"]
        self.assertEqual(got["code"], -32602)
        self.assertIn("session_id", got["message"])
        for method in ("tools/list", "tools/call"):
            got = s.rpc(method, {"name": "run_rollout", "session_id": one})["error"]
            self.assertEqual(got["code"], -32602)
            self.assertIn("Unknown session_id", got["message"])
        s.rpc("openenv/session/create")["result"]


class WebSocket(Case):
    def expect_error(self, ws, text, code, words=""):
        got = ws.talk(text)
        self.assertEqual((got["type"], got["data"]["code"]), ("error", code), text)
        self.assertIn(words, got["data"]["message"])
        return got["data"]

    def test_each_message_has_one_answer_in_its_order(self):
        ws = self.socket(self.place.serve())
        messages = [
            ({"type": "reset", "data": {"episode_id": "e"}}, "observation"),
            ({"type": "step", "data": {"type": "list_tools"}}, "observation"),
            ({"type": "step", "data": {"type": "call_tool", "tool_name": "run_rollout",
                                       "arguments": {}}}, "observation"),
            ({"type": "state"}, "state"),
            ({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 4, "method": "tools/list"}}, "mcp"),
            ({"type": "reset"}, "observation"),
            ({"type": "step", "data": {"tool_name": "dance"}}, "observation"),
        ]
        for message, _ in messages:  # All at once.
            ws.send(json.dumps(message))
        got = [json.loads(ws.receive()) for _ in messages]
        self.assertEqual([g["type"] for g in got], [kind for _, kind in messages])
        self.assertEqual(got[3]["data"]["episode_id"], "e")
        self.assertEqual(got[3]["data"]["step_count"], 1)
        self.assertEqual(got[2]["data"]["observation"]["error"]["error_type"], "invalid_args")
        self.assertEqual(got[4]["data"]["id"], 4)
        ws.send('{"type":"close"}')
        self.assertEqual(ws.closed(), 1000)

    def test_what_is_wrong_is_told_and_it_goes_on(self):
        ws = self.socket(self.place.serve())
        self.expect_error(ws, "{", "INVALID_JSON")
        self.expect_error(ws, "{}", "UNKNOWN_TYPE", "Unknown message type: None")
        self.expect_error(ws, '{"type":"dance"}', "UNKNOWN_TYPE", "Unknown message type: dance")
        self.expect_error(ws, '{"type":"close\\u0000"}', "UNKNOWN_TYPE")
        for text in ('{"type":"step"}', '{"type":"step","data":3}', '{"type":"state","data":{}}',
                     '{"type":"reset","more":1}', '{"type":"close","x":1}', '{"type":"mcp"}',
                     '{"type":"step","data":{"tool_name":"t","x":1}}',
                     '{"type":"step","data":{"type":"call_tool"}}'):
            got = self.expect_error(ws, text, "VALIDATION_ERROR", "Invalid message")
            self.assertEqual(set(got["errors"][0]), {"type", "loc", "msg", "input"})
            self.assertEqual(ws.talk({"type": "state"})["type"], "state")
        self.expect_error(ws, "[]", "SESSION_ERROR")
        self.assertEqual(ws.closed(), 1000)

    def test_a_session_of_its_own_is_named_and_not_ended_by_a_message(self):
        s = self.place.serve()
        ws = self.socket(s)

        def rpc(method, params=None):
            return ws.talk({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": method,
                                                    "params": params or {}}})["data"]
        one = rpc("openenv/session/create")["result"]["session_id"]
        self.assertEqual(rpc("openenv/session/create")["result"]["session_id"], one)
        self.assertEqual(rpc("openenv/session/close", {"session_id": one})["error"]["code"], -32600)
        self.assertEqual(rpc("tools/list", {"session_id": one})["result"]["tools"][0]["name"],
                         "run_rollout")
        bare = self.socket(s, "/mcp")
        bare.send("{")
        self.assertEqual(json.loads(bare.receive())["error"]["code"], -32700)
        got = bare.talk({"jsonrpc": "2.0", "id": "a", "method": "tools/list"})
        self.assertEqual((got["id"], got["result"]["tools"][0]["name"]), ("a", "run_rollout"))

    def test_there_are_as_many_sessions_as_places(self):
        s = self.place.serve(env={"MAX_CONCURRENT_ENVS": "1"})
        first = self.socket(s)
        first.talk({"type": "state"})
        second = self.socket(s)
        got = json.loads(second.receive())
        self.assertEqual(got["data"]["code"], "CAPACITY_REACHED")
        self.assertEqual((got["data"]["active_sessions"], got["data"]["max_sessions"]), (1, 1))
        second.closed()
        bare = self.socket(s, "/mcp")
        self.assertEqual(json.loads(bare.receive())["error"]["data"],
                         {"active_sessions": 1, "max_sessions": 1})
        bare.closed()
        first.drop()  # Without a word.

        def is_free():
            third = self.socket(s)
            free = third.talk({"type": "state"})["type"] == "state"
            third.drop()
            return free
        until(is_free, "a place")

    def test_fragments_pings_and_closes_are_as_the_standard_has_them(self):
        s = self.place.serve()
        ws = self.socket(s)
        text = '{"type":"reset","data":{"episode_id":"ä€\U0001f600"}}'.encode()
        cuts = [text[:11], text[11:42], text[42:43], text[43:]]
        ws.frame(1, cuts[0], fin=False)
        ws.frame(9, b"inside")
        ws.frame(0, cuts[1], fin=False)
        ws.frame(0, b"", fin=False)
        ws.frame(0, cuts[2], fin=False)
        ws.frame(9, b"again")
        ws.frame(0, cuts[3])
        self.assertEqual(json.loads(ws.receive())["type"], "observation")
        ws.wait_pong(b"again")
        self.assertEqual(ws.pongs, [b"inside", b"again"])
        self.assertEqual(ws.talk({"type": "state"})["data"]["episode_id"], "ä€\U0001f600")
        for frames, code in (([(1, b"\xff", True)], 1007), ([(0, b"x", True)], 1002),
                             ([(2, b"bytes", True)], 1003),
                             ([(1, b"a", False), (1, b"b", True)], 1002),
                             ([(8, (1001).to_bytes(2, "big"), True)], 1001)):
            ws = self.socket(s)
            for opcode, payload, fin in frames:
                ws.frame(opcode, payload, fin=fin)
            self.assertEqual(ws.closed(), code)

    def test_twenty_megabytes_pass_and_a_longer_message_than_allowed_does_not(self):
        s = self.place.serve()
        ws = self.socket(s)
        long = "ä" * (10 << 20)
        got = ws.talk({"type": "step", "data": {"tool_name": "t", "x": long, "arguments": {}}})
        self.assertEqual(got["data"]["errors"][0]["input"], long)  # 20 MB in, 20 MB out.
        self.assertEqual(ws.talk({"type": "state"})["type"], "state")
        ws.send("x" * ((32 << 20) + 1), may_fail=True)
        self.assertEqual(ws.closed(), 1009)

    def test_text_survives_with_everything_in_it(self):
        ws = self.socket(self.place.serve())
        odd = "nul \0 ä € \U0001f600 \x7f \" \\ \u2028"
        got = ws.talk({"type": "step", "data": {"tool_name": "t", "x": odd}})
        self.assertEqual(got["data"]["errors"][0]["input"], odd)


@unittest.skipIf(LACKS, LACKS)
class Rollouts(Case):
    def wait_agent(self, n):
        until(lambda: len(self.place.model.requests()) >= n, "an agent's question")

    def test_a_rollout_s_result_comes_by_every_way(self):
        s = self.place.serve()
        call = self.place.call(verify=["test -e done"], task_id="t-1")
        ws = self.socket(s)
        got = ws.talk({"type": "step", "data": {"tool_name": "run_rollout", "arguments": call}})
        result = got["data"]["observation"]["result"]
        self.assertIsNone(got["data"]["observation"]["error"])
        self.assertEqual(result["structured_content"], {"result": result["data"]})
        self.assertEqual(result["content"][0]["text"], result["data"])
        rollout = json.loads(result["data"])
        self.assertEqual((rollout["task_id"], rollout["reward"], len(rollout["proxy_turns"])),
                         ("t-1", 1.0, 1))
        state = ws.talk({"type": "state"})["data"]
        self.assertEqual((state["step_count"], state["rollouts_completed"], state["last_reward"],
                          state["last_task_id"]), (1, 1, 1.0, "t-1"))
        self.assertEqual(state["last_sandbox_id"], rollout["sandbox_id"])
        status, got = s.ask("POST", "/step", {"action": {"tool_name": "run_rollout",
                                                         "arguments": call}})
        self.assertEqual(json.loads(got["observation"]["result"]["data"])["reward"], 1.0)
        got = s.rpc("tools/call", {"name": "run_rollout", "arguments": call})["result"]
        self.assertEqual(json.loads(got["data"])["reward"], 1.0)
        self.assertEqual((got["isError"], got["is_error"]), (False, False))
        got = ws.talk({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                               "params": {"name": "run_rollout",
                                                          "arguments": call}}})["data"]
        self.assertEqual(json.loads(got["result"]["data"])["reward"], 1.0)
        self.assertEqual(ws.talk({"type": "state"})["data"]["step_count"], 2)
        for text in (json.dumps(rollout), s.errors()):
            self.assertNotIn("model-key-0123456789", text)
        self.assertNotIn(str(self.place.folder), json.dumps(rollout))  # No path of this machine.

    def test_the_operator_s_mode_holds_for_calls_that_name_none(self):
        s = self.place.serve("--mode", "black_box")
        for mode, turns in ((None, 0), ("transparent_proxy", 1)):
            call = self.place.call(**({"mode": mode} if mode else {}))
            got = s.rpc("tools/call", {"name": "run_rollout", "arguments": call})["result"]
            rollout = json.loads(got["data"])
            self.assertEqual((rollout["mode"], len(rollout["proxy_turns"])),
                             (mode or "black_box", turns))

    def test_an_operator_sees_what_became_of_calls(self):
        s = self.place.serve("--max-concurrent", "1", agent=WAITS_FOR_A_FILE)
        s.rpc("tools/call", {"name": "run_rollout", "arguments": {"instruction": "a\nb", "x": 1}})
        ws, waiting = self.socket(s), self.socket(s)
        call = {"type": "step", "data": {"tool_name": "run_rollout", "arguments": self.place.call(
            agent_timeout_s=3, task_id="seen", verify=["false"])}}
        ws.send(json.dumps(call))
        until(lambda: self.metric(s, "rollouts_running") == 1, "a rollout")
        waiting.send(json.dumps(call))
        until(lambda: self.metric(s, "rollouts_waiting") == 1, "a call that waits")
        self.assertEqual(self.metric(s, "sessions"), 2)
        waiting.drop()
        rollout = json.loads(json.loads(ws.receive())["data"]["observation"]["result"]["data"])
        until(lambda: self.metric(s, 'calls_without_rollout_total{why="left"}') == 1, "its leaving")
        for name, value in (('rollouts_total{status="ok"}', 1), ("rollouts_running", 0),
                            ('rollouts_total{status="failed"}', 0), ("rollouts_waiting", 0),
                            ('calls_without_rollout_total{why="invalid"}', 1)):
            self.assertEqual(self.metric(s, name), value, name)
        self.assertGreater(self.metric(s, "rollout_seconds_total"), 3)
        lines = s.errors().splitlines()
        peer = "client=127.0.0.1:{}".format(ws.socket.getsockname()[1])
        self.assertEqual(len(lines), 4, lines)
        self.assertRegex(lines[0], "call without a rollout: client=127.0.0.1:.* unknown field 'x'")
        self.assertEqual(lines[1], f"snaffle: info: rollout began: id={rollout['rollout']} {peer} "
                         "waited_s=0.0")
        (end,) = (line for line in lines if "ended" in line)
        self.assertRegex(end, f"rollout ended: id={rollout['rollout']} {peer} status=ok "
                         "cause=agent_timeout reward=0 seconds=[0-9.]+ calls=0$")
        self.assertNotIn("model-key-0123456789", s.errors())

    def metric(self, s, name):
        status, text = s.get("/metrics")
        self.assertEqual(status, 200)
        (line,) = (one for one in text.splitlines() if one.startswith(f"snaffle_serve_{name} "))
        return float(line.split()[1])

    def test_a_quiet_server_says_nothing_of_rollouts(self):
        s = self.place.serve("--quiet")
        got = s.rpc("tools/call", {"name": "run_rollout", "arguments": self.place.call()})
        self.assertEqual(json.loads(got["result"]["data"])["status"], "ok")
        self.assertEqual(s.errors(), "")

    def test_pings_are_answered_and_others_served_while_rollouts_run(self):
        s = self.place.serve(agent=WAITS_FOR_A_FILE)
        sockets = [self.socket(s) for _ in range(4)]
        for ws in sockets:
            ws.send(json.dumps({"type": "step", "data": {
                "tool_name": "run_rollout", "arguments": self.place.call(agent_timeout_s=10)}}))
        until(lambda: len(self.place.boxes()) == 4, "four sandboxes")
        for ws in sockets:
            ws.frame(9, b"here?")
            ws.wait_pong(b"here?")
            started = time.monotonic()
            self.assertEqual(s.get("/health")[0], 200)
            self.assertLess(time.monotonic() - started, 2)
        for ws in sockets:
            got = json.loads(ws.receive())["data"]["observation"]["result"]
            self.assertEqual(json.loads(got["data"])["cause"], "agent_timeout")

    def test_who_leaves_ends_its_rollout(self):
        for leave in ("drop", "reset", "close"):
            with self.subTest(leave):
                asked = len(self.place.model.requests())
                s = self.place.serve(agent=SLOW, env={"MAX_CONCURRENT_ENVS": "1"})
                ws = self.socket(s)
                ws.send(json.dumps({"type": "step", "data": {"tool_name": "run_rollout",
                                                             "arguments": self.place.call()}}))
                self.wait_agent(asked + 1)
                if leave == "close":
                    ws.frame(8, (1000).to_bytes(2, "big"))
                    ws.closed()
                getattr(ws, "reset" if leave == "reset" else "drop")()
                until(lambda: not self.place.boxes(), "the sandbox's end")
                self.assertEqual(self.socket(s).talk({"type": "state"})["type"], "state")
                s.stop()

    def test_who_leaves_over_http_ends_its_rollout(self):
        s = self.place.serve(agent=SLOW)
        body = json.dumps({"action": {"tool_name": "run_rollout", "arguments": self.place.call()}})
        with socket.create_connection(("127.0.0.1", s.port), timeout=30) as c:
            c.sendall((f"POST /step HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                       + body).encode())
            self.wait_agent(1)
        until(lambda: not self.place.boxes(), "the sandbox's end")

    def test_a_step_has_the_time_that_it_names(self):
        s = self.place.serve(agent=SLOW)
        got = s.ask("POST", "/step", {"action": {"tool_name": "run_rollout",
                                                 "arguments": self.place.call()},
                                      "timeout_s": 2})[1]["observation"]
        self.assertEqual(got["error"]["error_type"], "timeout")
        self.assertIn("run_rollout", got["error"]["message"])
        until(lambda: not self.place.boxes(), "the sandbox's end")

    def test_a_call_may_overlap_with_its_session_s_end(self):
        s = self.place.serve(agent=ASKS)
        one = s.rpc("openenv/session/create")["result"]["session_id"]
        answers = []
        calls = [threading.Thread(target=lambda: answers.append(
            s.rpc("tools/call", {"name": "run_rollout", "session_id": one,
                                 "arguments": self.place.call()}))) for _ in range(3)]
        for c in calls:
            c.start()
        s.rpc("openenv/session/close", {"session_id": one})
        for c in calls:
            c.join()
        self.assertEqual(len(answers), 3)

    def test_a_signal_ends_rollouts_and_the_exit_status_is_0(self):
        s = self.place.serve("--drain", "0.5", agent=SLOW)
        ws = self.socket(s)
        ws.send(json.dumps({"type": "step", "data": {"tool_name": "run_rollout",
                                                     "arguments": self.place.call()}}))
        self.wait_agent(1)
        self.assertEqual(s.stop(), 0)
        self.assertEqual(self.place.boxes(), [])
        got = json.loads(ws.receive())["data"]["observation"]["result"]
        self.assertEqual(json.loads(got["data"])["status"], "cancelled")
        self.assertEqual(ws.closed(), 1001)

    def test_a_second_signal_cancels_at_once(self):
        s = self.place.serve("--drain", "600", agent=SLOW)
        ws = self.socket(s)
        ws.send(json.dumps({"type": "step", "data": {"tool_name": "run_rollout",
                                                     "arguments": self.place.call()}}))
        self.wait_agent(1)
        s.process.send_signal(signal.SIGTERM)

        def listens_no_more():
            try:
                socket.create_connection(("127.0.0.1", s.port), timeout=30).close()
            except ConnectionRefusedError:
                return True
            return False
        until(listens_no_more, "the first signal's effect")
        self.assertIsNone(s.process.poll())
        self.assertEqual(s.stop(), 0)
        got = json.loads(ws.receive())["data"]["observation"]["result"]
        self.assertEqual(json.loads(got["data"])["status"], "cancelled")
        self.assertEqual(self.place.boxes(), [])

    def test_of_a_killed_server_nothing_is_left_that_gc_does_not_remove(self):
        s = self.place.serve(agent=SLOW)
        for _ in range(3):
            self.socket(s).send(json.dumps({"type": "step", "data": {
                "tool_name": "run_rollout", "arguments": self.place.call()}}))
        self.wait_agent(3)
        self.assertEqual([b["alive"] for b in self.place.boxes()], [True] * 3)
        s.process.kill()
        s.process.wait()
        self.place.servers.remove(s)
        until(lambda: not any(b["alive"] for b in self.place.boxes()), "the sandboxes' death")
        subprocess.run([SNAFFLE, "gc"], check=True, capture_output=True, cwd=self.place.folder,
                       env=environment(self.place.env))
        self.assertEqual(self.place.boxes(), [])

    def test_a_rollout_under_way_may_end_after_a_signal(self):
        s = self.place.serve("--drain", "60", agent="sleep 2")
        ws = self.socket(s)
        ws.send(json.dumps({"type": "step", "data": {"tool_name": "run_rollout",
                                                     "arguments": self.place.call()}}))
        until(lambda: len(self.place.boxes()) == 1, "the sandbox")
        ending = threading.Thread(target=s.stop)
        ending.start()
        got = json.loads(ws.receive())["data"]["observation"]["result"]
        self.assertEqual(json.loads(got["data"])["agent_exit_code"], 0)
        ending.join()
        self.assertEqual(s.process.returncode, 0)


class Tasks(Case):
    def test_tasks_are_offered_by_split_and_index(self):
        folder = self.place.folder / "tasks"
        folder.mkdir()
        for name, split in (("b", None), ("a", "train"), ("c", "holdout"), ("d", None)):
            task = {"instruction": f"do {name}", "metadata": {"split": split} if split else {}}
            (folder / f"{name}.json").write_text(json.dumps(task))
        s = self.place.serve("--tasks", folder)
        post = lambda path, body: s.ask("POST", f"/opencode_env/{path}", body)  # noqa: E731
        self.assertEqual(s.get("/list_environments"), (200, ["opencode_env"]))
        self.assertEqual(s.get("/opencode_env/splits"),
                         (200, [{"name": "train", "type": "train"},
                                {"name": "holdout", "type": "validation"}]))
        status, got = post("tasks", {"split": "train"})
        self.assertEqual((status, got["env_name"]), (200, "opencode_env"))
        self.assertEqual([t["task_id"] for t in got["tasks"]], ["a", "b", "d"])
        self.assertEqual(post("num_tasks", {"split": "holdout"}), (200, {"num_tasks": 1}))
        self.assertEqual(post("task", {"split": "train", "index": 1})[1]["task"]["instruction"],
                         "do b")
        for body, names in (({"start": 1}, "bd"), ({"stop": 1}, "a"), ({"start": -1}, "d"),
                            ({"start": 1, "stop": -1}, "b"), ({"start": 5}, "")):
            got = post("task_range", {"split": "train", **body})[1]["tasks"]
            self.assertEqual("".join(t["task_id"] for t in got), names, body)
        self.assertEqual(post("task", {"split": "train", "index": 3})[0], 404)
        self.assertEqual(post("task", {"split": "train", "index": -1})[0], 404)
        self.assertEqual(post("task", {"split": "train"}), (422, {"detail": "body: want an index"}))
        self.assertEqual(post("tasks", {"split": "none"})[0], 404)
        self.assertEqual(post("tasks", {})[0], 422)
        self.assertEqual(s.get("/other_env/splits")[0], 404)
        bare = self.place.serve()
        self.assertEqual(bare.get("/opencode_env/splits")[0], 501)


if __name__ == "__main__":
    tap.main()
