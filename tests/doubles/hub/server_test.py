#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the server inside a Hub job answers, request by request: server_test.py PROGRAM PROTOCOL.

PROGRAM is what stands for sbx-server, or sbx-server itself: the answers of the first generation are
those that its version 0.5.0 gave to this very file. Where the generations differ, an expectation is
a pair: of the first, and of the later ones. Speaks TAP.
"""
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
import tap  # noqa: E402

PROGRAM, PROTOCOL = os.path.abspath(sys.argv[1]), int(sys.argv[2])
TOKEN = "5cf2" * 16
LIMIT_S = 20
folder = tempfile.TemporaryDirectory()
FOLDER = folder.name
NO_TOKEN = {"error": "invalid or missing X-Sandbox-Token"}
NO_PATH = {"error": "missing 'path' query parameter"}
NO_CMD = {"error": "missing 'cmd' (string or array of strings)"}
NO_NUL = "failed to spawn '{}': nul byte found in provided data"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


PORT = free_port()


def setUpModule():
    global server
    env = {"PATH": os.environ["PATH"], "HOME": FOLDER, "SBX_TOKEN": TOKEN, "SBX_PORT": str(PORT),
           "FAKE_SBX": f"protocol={PROTOCOL}"}
    server = subprocess.Popen([PROGRAM], env=env, cwd=FOLDER, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", PORT)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise RuntimeError(f"{PROGRAM} does not listen on {PORT}")


def tearDownModule():
    server.kill()
    server.wait()
    folder.cleanup()


def of(pair):
    """The expectation for this generation."""
    return pair[0 if PROTOCOL == 1 else 1] if isinstance(pair, tuple) else pair


def ask(method, target, body=None, token=TOKEN, **more):
    """Status and body; a dict or list goes out as JSON, and JSON comes back as one."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=LIMIT_S)
    headers = {**({"X-Sandbox-Token": token} if token else {}), **more}
    body = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    try:
        connection.request(method, target, body=body, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        is_json = answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(content) if is_json else content
    finally:
        connection.close()


def events(body):
    status, lines = ask("POST", "/v1/exec", body)
    if status != 200:
        raise AssertionError(f"{status}: {lines}")
    return [json.loads(line) for line in lines.splitlines()]


def run(cmd, **more):
    """Output, errors and the end of a command, which pauses before it ends: generation 1 loses what
    is written just before."""
    seen = events({"cmd": f"{cmd}; code=$?; sleep 0.2; exit $code", **more})
    text = {name: "".join(e["data"] for e in seen if e["event"] == name)
            for name in ("stdout", "stderr")}
    return text["stdout"], text["stderr"], seen[-1]


def raw(data, wait_s=1.0):
    """What comes in answer to these bytes, and whether the connection ended."""
    with socket.create_connection(("127.0.0.1", PORT)) as s:
        s.settimeout(wait_s)
        s.sendall(data)
        got = b""
        while True:
            try:
                more = s.recv(65536)
            except TimeoutError:
                return got, False
            if not more:
                return got, True
            got += more


def head(first, *fields):
    return "\r\n".join([f"{first} HTTP/1.1", "Host: x", *fields, "", ""]).encode()


class Table(unittest.TestCase):
    def check(self, rows):
        for method, target, body, status, answer in rows:
            with self.subTest(f"{method} {target} {body}"):
                self.assertEqual(ask(method, target, body), (of(status), of(answer)))


class Routes(Table):
    def test_01_health_needs_no_token_and_tells_the_later_generations_more_with_one(self):
        status, plain = ask("GET", "/health", token=None)
        self.assertEqual((status, plain["status"]), (200, "ok"))
        self.assertEqual(set(plain), of(({"sandboxes", "status", "uptime_ms", "version"},
                                         {"protocol", "status"})))
        _, more = ask("GET", "/health?x=1")
        self.assertEqual(set(more), of((set(plain), {
            "auth", "landlock", "mode", "protocol", "sandboxes", "status", "uptime_ms", "version"})))
        self.assertEqual(more.get("protocol"), None if PROTOCOL == 1 else PROTOCOL)

    def test_02_everything_else_wants_the_token_even_what_is_not_there(self):
        for method, target in (("GET", "/health/"), ("POST", "/health"), ("GET", "/v1/processes"),
                               ("GET", "/v1/zzz"), ("GET", "/")):
            for token in (None, "z" * 64, TOKEN[:-1], TOKEN.upper()):
                self.assertEqual(ask(method, target, b"" if method == "POST" else None, token),
                                 (403, NO_TOKEN), target)

    def test_03_what_is_no_route_is_a_404_that_names_it_whatever_the_method(self):
        for line in ("GET /", "GET /health/", "POST /health", "GET /v1/zzz", "GET /v1/exec",
                     "PUT /v1/processes", "POST /v1/processes/p-1", "GET /v1/processes/p-1",
                     "DELETE /v1/processes/p-1/x", "GET /v1/files", "GET /v1/files/zzz",
                     "POST /v1/files/read", "GET /v1/files/write", "GET /v1/files/read/x",
                     "GET /v1//processes"):
            method, target = line.split()
            body = b"" if method in ("POST", "PUT") else None
            self.assertEqual(ask(method, target, body), (404, {"error": f"no route: {line}"}))

    def test_04_slashes_around_a_route_do_not_matter(self):
        self.assertEqual(ask("GET", "/v1/processes/"), ask("GET", "/v1/processes"))
        self.assertEqual(raw(head("GET //v1/processes//", f"X-Sandbox-Token: {TOKEN}",
                                  "Connection: close"))[0].split(b" ")[1], b"200")

    def test_05_a_chunked_request_is_refused_at_once_before_or_after_the_token(self):
        said = b"chunked request bodies not supported; send Content-Length"
        chunked = "Transfer-Encoding: chunked"
        good, _ = raw(head("POST /v1/exec", f"X-Sandbox-Token: {TOKEN}", chunked))
        self.assertEqual((good.split(b" ")[1], said in good), (b"411", True))
        bad, _ = raw(head("POST /v1/exec", chunked))
        self.assertEqual(bad.split(b" ")[1], of((b"411", b"403")))

    def test_06_who_awaits_a_100_waits_for_ever(self):
        put = head(f"PUT /v1/files/write?path={FOLDER}/e", f"X-Sandbox-Token: {TOKEN}",
                   "Expect: 100-continue", "Content-Length: 2")
        self.assertEqual(raw(put, 0.5), (b"", False))
        self.assertEqual(raw(put + b"hi", 0.5)[0].split(b" ")[1], b"200")

    def test_07_a_wrong_token_is_told_before_the_body_has_come(self):
        put = head(f"PUT /v1/files/write?path={FOLDER}/e", "Content-Length: 20")
        self.assertEqual(raw(put + b"abc", 0.5)[0].split(b" ")[1], b"403")

    def test_08_a_command_of_more_than_16_mib_ends_the_connection_without_a_word(self):
        for route in ("exec", "processes"):
            post = head(f"POST /v1/{route}", f"X-Sandbox-Token: {TOKEN}",
                        f"Content-Length: {16 * 1024 * 1024 + 1}")
            self.assertEqual(raw(post), (b"", True))


class Commands(Table):
    def test_10_a_command_starts_speaks_and_ends_in_events(self):
        seen = events({"cmd": "echo hi; sleep 0.2; echo he >&2; sleep 0.2; exit 3"})
        self.assertEqual([e["event"] for e in seen], ["start", "stdout", "stderr", "exit"])
        self.assertEqual(set(seen[0]), {"event", "pid"})
        self.assertEqual(seen[1], {"event": "stdout", "data": "hi\n"})
        self.assertEqual(seen[2], {"event": "stderr", "data": "he\n"})
        self.assertIsInstance(seen[3].pop("duration_ms"), int)
        self.assertEqual(seen[3], {"event": "exit", "exit_code": 3, "signal": None,
                                   "timed_out": False})

    def test_11_keys_come_in_alphabetical_order(self):
        _, lines = ask("POST", "/v1/exec", {"cmd": "exit 3"})
        self.assertEqual([*json.loads(lines.splitlines()[-1])],
                         ["duration_ms", "event", "exit_code", "signal", "timed_out"])

    def test_12_what_is_no_command_is_refused_in_words(self):
        def bad(text):
            return {"error": text}
        needs_text = bad("shell=true requires 'cmd' to be a string")
        needs_list = bad("shell=false requires 'cmd' to be an array of strings")
        rows = (({}, NO_CMD), ([], NO_CMD), ({"cmd": 3}, NO_CMD),
                ({"cmd": []}, bad("cmd array must not be empty")),
                ({"cmd": ["echo", 3]}, bad("cmd array items must be strings")),
                ({"cmd": ["x"], "shell": True}, needs_text), ({"shell": True}, needs_text),
                ({"cmd": "x", "shell": False}, needs_list), ({"shell": False}, needs_list),
                ({"cmd": "echo a\0b"}, bad(NO_NUL.format("/bin/sh"))),
                ({"cmd": ["echo", "a\0b"]}, bad(NO_NUL.format("echo"))),
                ({"cmd": "true", "env": {"A": "\0"}}, bad(NO_NUL.format("/bin/sh"))))
        for route in ("exec", "processes"):
            self.check(("POST", f"/v1/{route}", body, 400, answer) for body, answer in rows)

    def test_13_a_body_that_is_no_json_is_refused(self):
        for body in (b"", b"{", b"x"):
            status, answer = ask("POST", "/v1/exec", body)
            self.assertEqual((status, answer["error"].split(":")[0]), (400, "invalid JSON body"))

    def test_14_what_cannot_be_started_is_a_400_with_the_system_s_reason(self):
        def no(what, why):
            return {"error": f"failed to spawn '{what}': {why}"}
        missing = "No such file or directory (os error 2)"
        rows = (({"cmd": ["/no/such"]}, no("/no/such", missing)),
                ({"cmd": ["no-such-program"]}, no("no-such-program", missing)),
                ({"cmd": [FOLDER]}, no(FOLDER, "Permission denied (os error 13)")),
                ({"cmd": "pwd", "cwd": "/no/such"}, no("/bin/sh", missing)),
                ({"cmd": "pwd", "cwd": ""}, no("/bin/sh", missing)))
        for route in ("exec", "processes"):
            self.check(("POST", f"/v1/{route}", body, 400, answer) for body, answer in rows)

    def test_15_a_variable_that_is_no_text_is_empty_and_no_environment_is_none(self):
        out, _, _ = run("echo [$A][$B][$C]", env={"A": "x", "B": 3, "C": None})
        self.assertEqual(out, "[x][][]\n")
        self.assertEqual(run("echo [$A]", env=["A"])[0], "[]\n")

    def test_16_input_is_text_or_nothing(self):
        self.assertEqual(run("cat", stdin="abc")[0], "abc")
        self.assertEqual(run("cat; readlink /proc/self/fd/0 | cut -c1-5", stdin="")[0], "pipe:\n")
        for more in ({}, {"stdin": 5}):
            self.assertEqual(run("readlink /proc/self/fd/0", **more)[0], "/dev/null\n")

    def test_17_time_is_up_at_once_with_zero_and_less_and_never_by_a_text(self):
        for timeout in (0.2, 0, -4):
            seen = events({"cmd": "sleep 9", "timeout": timeout})[-1]
            self.assertEqual((seen["exit_code"], seen["signal"], seen["timed_out"]),
                             (None, 9, True), timeout)
        self.assertEqual(run("sleep 0.3", timeout="0.1")[2]["exit_code"], 0)

    def test_18_a_signal_is_no_exit_code(self):
        seen = events({"cmd": "kill -15 $$"})[-1]
        self.assertEqual((seen["exit_code"], seen["signal"], seen["timed_out"]), (None, 15, False))

    def test_19_bytes_that_are_no_text_are_replaced_and_the_rest_comes_as_it_is(self):
        self.assertEqual(run(r"printf 'a\377b\000c'")[0], "a\ufffdb\0c")
        self.assertEqual(run("printf 'é\\033\"\\\\/\\t€'")[0], "é\033\"\\/\t€")

    def test_20_a_grandchild_that_keeps_the_pipe_does_not_hold_the_end(self):
        began = time.monotonic()
        out = run("(sleep 8; echo late) & echo now")[0]
        self.assertEqual(out, "now\n")
        self.assertLess(time.monotonic() - began, 6)

    def test_21_in_the_background_exec_says_less_than_processes(self):
        body = {"cmd": "true", "background": True, "tag": "t"}
        _, short = ask("POST", "/v1/exec", body)
        self.assertEqual(set(short), of(({"pid", "tag"}, {"id", "pid", "tag"})))
        _, long = ask("POST", "/v1/processes", {"cmd": ["true"], "tag": 4})
        self.assertEqual((set(long), long["cmd"], long["tag"]),
                         ({"cmd", "id", "pid", "tag"}, ["true"], None))

    def wait_for_end(self, wanted):
        deadline = time.monotonic() + LIMIT_S
        while True:
            listed = {p["id"]: p for p in ask("GET", "/v1/processes")[1]}
            if not listed[wanted]["running"] or time.monotonic() > deadline:
                return listed[wanted]
            time.sleep(0.05)

    def test_22_a_process_is_listed_with_its_exit_code_and_null_for_a_signal(self):
        for more, code in (({"cmd": "exit 3"}, 3), ({"cmd": "kill -9 $$"}, None),
                           ({"cmd": "sleep 90", "timeout": 0.2}, None)):
            _, started = ask("POST", "/v1/processes", more)
            ended = self.wait_for_end(started["id"])
            self.assertIsInstance(ended.pop("started_at_ms"), int)
            self.assertEqual(ended, {"cmd": more["cmd"], "exit_code": code, "id": started["id"],
                                     "pid": started["pid"], "running": False, "tag": None})

    def test_23_a_process_is_killed_by_its_id_and_forgotten(self):
        _, started = ask("POST", "/v1/processes", {"cmd": ["sleep", "90"]})
        target = f"/v1/processes/{started['id']}"
        gone = {"id": started["id"]}
        self.assertEqual(ask("DELETE", target), (200, {**gone, **of(({"ok": True},
                                                                     {"killed": True}))}))
        self.assertNotIn(started["id"], [p["id"] for p in ask("GET", "/v1/processes")[1]])
        self.assertEqual(ask("DELETE", target), (200, {**gone, **of(({"ok": True},
                                                                     {"killed": False}))}))

    def test_24_any_text_is_an_id_to_the_first_generation(self):
        for text in ("zzz", "p-", "p-1x", "123"):
            self.assertEqual(ask("DELETE", f"/v1/processes/{text}")[0], of((200, 400)))


def no_such(what, path):
    """A 404's words: the later generations call everything a path."""
    return ({"error": f"no such {what}: {path}"}, {"error": f"no such path: {path}"})


def cannot(first, later, path, why):
    return ({"error": f"cannot {first} {path}: {why}"}, {"error": f"cannot {later} {path}: {why}"})


class Files(Table):
    def setUp(self):
        self.place = tempfile.mkdtemp(dir=FOLDER)
        self.file = f"{self.place}/f"
        pathlib.Path(self.file).write_text("hello world")

    def read(self, more=""):
        return ask("GET", f"/v1/files/read?path={self.file}{more}")

    def write(self, content, more=""):
        return ask("PUT", f"/v1/files/write?path={self.file}{more}", content)

    def test_30_a_range_is_cut_at_the_file_s_end_and_nonsense_counts_as_not_said(self):
        for more, bytes_ in (("", b"hello world"), ("&offset=3&length=4", b"lo w"),
                             ("&offset=3&length=400", b"lo world"), ("&offset=300", b""),
                             ("&length=0", b""), ("&offset=-3", b"hello world"),
                             ("&length=abc", b"hello world")):
            self.assertEqual(self.read(more), (200, bytes_))

    def test_31_a_write_without_offset_cuts_and_one_with_it_does_not(self):
        self.assertEqual(self.write(b"XX", "&offset=6"), (200, {"path": self.file, "size": 2}))
        self.assertEqual(self.read()[1], b"hello XXrld")
        self.write(b"YY", "&offset=14")
        self.assertEqual(self.read()[1], b"hello XXrld\0\0\0YY")
        self.write(b"ab", "&offset=0&truncate_to=4")
        self.assertEqual(self.read()[1], of((b"abllo XXrld\0\0\0YY", b"abll")))
        self.write(b"ab", "&offset=x")
        self.assertEqual(self.read()[1], b"ab")

    def test_32_a_mode_is_octal_and_nonsense_is_passed_over(self):
        for more, mode in (("&mode=600", "600"), ("&mode=9z", "600"), ("&mode=4755", "4755")):
            self.write(b"x", more)
            self.assertEqual(ask("GET", f"/v1/files/stat?path={self.file}")[1]["mode"], mode)

    def test_33_parents_are_made_unless_told_not_to(self):
        deep = f"{self.place}/q/w/e"
        none = "No such file or directory (os error 2)"
        refused = ({"error": f"cannot create {deep}: {none}"}, {"error": f"cannot write {deep}: {none}"})
        for no in ("false", "0"):
            self.check([("PUT", f"/v1/files/write?mkdir={no}&path={deep}", b"x", 400, refused)]
                       if PROTOCOL == 1 else
                       [("PUT", f"/v1/files/write?mkdir={no}&path={deep}", b"x", 404,
                         no_such("path", deep))])
        self.check([("PUT", f"/v1/files/write?mkdir=no&path={deep}", b"x", 200,
                     {"path": deep, "size": 1})])

    def test_34_what_cannot_be_written_is_a_400_with_the_system_s_reason(self):
        is_dir, exists = "Is a directory (os error 21)", "File exists (os error 17)"
        below = f"{self.file}/x"
        self.check((
            ("PUT", f"/v1/files/write?path={self.place}", b"x", 400,
             cannot("create", "write", self.place, is_dir)),
            ("PUT", f"/v1/files/write?offset=0&path={self.place}", b"x", 400,
             cannot("open", "write", self.place, is_dir)),
            ("PUT", f"/v1/files/write?path={below}", b"x", 400,
             cannot("create parent dirs for", "write", below, exists))))

    def test_35_what_is_not_there_is_a_404_and_what_is_no_file_another_error(self):
        no_dir = "Not a directory (os error 20)"
        below = f"{self.file}/x"
        self.check((
            ("GET", "/v1/files/read?path=/nope", None, 404, no_such("file", "/nope")),
            ("GET", "/v1/files/stat?path=/nope", None, 404, no_such("path", "/nope")),
            ("GET", "/v1/files/list?path=/nope", None, 404, no_such("directory", "/nope")),
            ("DELETE", "/v1/files/delete?path=/nope", None, 404, no_such("path", "/nope")),
            ("GET", f"/v1/files/read?path={self.place}", None, 409,
             {"error": f"is a directory: {self.place}"}),
            ("GET", f"/v1/files/read?path={below}", None, 400,
             cannot("open", "open", below, no_dir)),
            ("GET", f"/v1/files/stat?path={below}", None, 400,
             cannot("stat", "stat", below, no_dir)),
            ("GET", f"/v1/files/list?path={self.file}", None, 400,
             cannot("list", "list", self.file, no_dir))))

    def test_36_a_device_reads_as_empty_or_is_refused(self):
        self.check([("GET", "/v1/files/read?path=/dev/null", None, (200, 400),
                     (b"", {"error": "cannot open /dev/null: not a regular file"}))])

    def test_37_an_entry_says_what_a_path_is_without_following_it(self):
        os.symlink("/nowhere", f"{self.place}/link")
        for path, name, type_ in ((self.file, "f", "file"), (f"{self.place}/link", "link", "symlink"),
                                  (f"{self.place}/", os.path.basename(self.place), "dir"),
                                  ("/", "", "dir"), (".", "", "dir"), (f"{self.place}/..", "", "dir")):
            _, entry = ask("GET", f"/v1/files/stat?path={path}")
            self.assertEqual(set(entry), {"mode", "mtime_ms", "name", "path", "size", "type"})
            self.assertEqual((entry["name"], entry["path"], entry["type"]), (name, path, type_))

    def test_38_a_folder_is_listed_in_order_and_in_pages_by_the_later_generations(self):
        for name in ("b", "B", "a c"):
            pathlib.Path(self.place, name).touch()
        _, answer = ask("GET", f"/v1/files/list?limit=2&path={self.place}")
        names = [e["name"] for e in answer["entries"]]
        self.assertEqual(names, of((["B", "a c", "b", "f"], ["B", "a c"])))
        self.assertEqual((answer.get("truncated"), answer.get("next")),
                         of(((None, None), (True, "a c"))))
        _, rest = ask("GET", f"/v1/files/list?after=a+c&path={self.place}")
        self.assertEqual([e["name"] for e in rest["entries"]], of((["B", "a c", "b", "f"], ["b", "f"])))
        self.assertEqual(rest.get("next"), None)

    def test_39_a_full_folder_goes_only_with_recursive(self):
        full = cannot("delete", "delete", self.place, "Directory not empty (os error 39)")
        for more in ("", "&recursive=0", "&recursive=yes"):
            self.check([("DELETE", f"/v1/files/delete?path={self.place}{more}", None, 400, full)])
        self.check([("DELETE", f"/v1/files/delete?path={self.place}&recursive=1", None, 200,
                     {"deleted": self.place})])

    def test_40_a_folder_is_made_twice_but_not_over_a_file(self):
        for _ in range(2):
            self.check([("POST", f"/v1/files/mkdir?path={self.place}/m/n", b"", 200,
                         {"created": f"{self.place}/m/n"})])
        self.check([("POST", f"/v1/files/mkdir?path={self.file}", b"", 400,
                     cannot("mkdir", "mkdir", self.file, "File exists (os error 17)"))])

    def test_41_a_relative_path_is_told_as_it_came(self):
        self.check((("PUT", "/v1/files/write?path=r/x", b"1", 200, {"path": "r/x", "size": 1}),
                    ("POST", "/v1/files/mkdir?path=r/y", b"", 200, {"created": "r/y"}),
                    ("DELETE", "/v1/files/delete?path=r/x", None, 200, {"deleted": "r/x"})))
        self.assertEqual(ask("GET", "/v1/files/stat?path=r")[1]["path"], "r")

    def test_42_a_query_is_decoded_by_name_and_value_and_its_last_word_counts(self):
        pathlib.Path(self.place, "a b").write_text("sp")
        for query in (f"path={self.place}/a+b", f"path={self.place}/a%20b",
                      f"%70ath={self.place}/a%20b", f"path=/nope&path={self.place}/a%20b"):
            self.assertEqual(ask("GET", f"/v1/files/read?{query}"), (200, b"sp"))
        for end in ("%zz", "x%4", "B%"):
            self.assertEqual(ask("GET", f"/v1/files/stat?path={self.place}/{end}"),
                             (404, of(no_such("path", f"{self.place}/{end}"))))
        self.check((("GET", "/v1/files/read", None, 400, NO_PATH),
                    ("GET", "/v1/files/read?path=", None, 400, NO_PATH)))


class Proxy(Table):
    def listen(self):
        """A server of one request; gives its port and the bytes that it got."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        got = []

        def serve():
            c, _ = listener.accept()
            with c:
                c.settimeout(0.5)
                data = b""
                try:
                    while more := c.recv(65536):
                        data += more
                except TimeoutError:
                    pass
                got.append(data)
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        thread = threading.Thread(target=serve)
        thread.start()
        return listener.getsockname()[1], got, thread

    def pass_on(self, method, path, body=None):
        port, got, thread = self.listen()
        answer = ask(method, f"/v1/proxy/{port}{path}", body, Authorization="Bearer b", Upgrade="q")
        thread.join()
        self.assertEqual(answer, (200, b"ok"))
        first, _, rest = got[0].partition(b"\r\n")
        return first.decode(), rest

    def test_50_a_request_goes_on_with_its_prefix_cut_off(self):
        for path, target in (("/a/b?q=1&r=%20", "/a/b?q=1&r=%20"), ("", "/"), ("/", "/")):
            self.assertEqual(self.pass_on("GET", path)[0], f"GET {target} HTTP/1.1")

    def test_51_its_fields_and_body_go_on_but_for_the_sandbox_s_token(self):
        first, rest = self.pass_on("POST", "/x", b"body")
        self.assertEqual(first, "POST /x HTTP/1.1")
        fields = rest.lower()
        self.assertIn(b"\r\nauthorization: bearer b\r\n", b"\r\n" + fields)
        self.assertIn(b"\r\nupgrade: q\r\n", b"\r\n" + fields)
        self.assertNotIn(b"x-sandbox-token", fields)
        self.assertTrue(rest.endswith(b"\r\n\r\nbody"))

    def test_52_what_cannot_be_reached_is_a_502_and_no_port_a_404(self):
        nobody = free_port()
        number = "proxy port must be a number in dedicated mode"
        rows = [("GET", f"/v1/proxy/{port}/x", None, 502,
                 {"error": f"cannot reach port {port} in sandbox: {why}"})
                for port, why in ((nobody, "Connection refused (os error 111)"), ("abc", number),
                                  (70000, number))]
        rows += [("GET", target, None, 404, {"error": "proxy target must be /proxy/<port>/<path>"})
                 for target in ("/v1/proxy", "/v1/proxy/")]
        self.check(rows)


if __name__ == "__main__":
    tap.main()
