# SPDX-License-Identifier: BSD-3-Clause
"""`snaffle serve` beside a FastAPI app that answers the same.

`./dev bench server [--json]`: requests a second and the 99th of 100 of `/health` and of `tools/list`,
sixteen connections, both servers taking turns (the median of the rounds; `fastapi_ratio` is the worse
of the two quotients, null where FastAPI can't be had); the memory that 1,000 open WebSocket sessions
take (`ws_1000_mb`); and from a call of run_rollout to the first instruction of its agent (`start_ms`).
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 5
SECONDS = 1.0
CONNECTIONS = 16
SESSIONS = 1000
STARTS = 11
START_S = 60
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HANDSHAKE = ("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
# The agent says when it began, and that is all.
AGENT = "date +%s.%N >began"
FAILURES = (subprocess.SubprocessError, OSError, LookupError)


def request(path, body=None):
    text = json.dumps(body) if body else ""
    method = "POST" if body else "GET"
    fields = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n{text}".encode()


WHAT = {"health": request("/health"), "list": request("/mcp", LIST)}


@contextlib.contextmanager
def ending(process):
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def serve(build, folder, *args):
    """The server, and its port."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SNAFFLE_SERVE", "OPENENV_"))}
    process = subprocess.Popen(
        [f"{build}/src/cli/snaffle", "serve", "--port", "0", "--runs", folder, *args], cwd=ROOT,
        env={**env, "MAX_CONCURRENT_ENVS": str(SESSIONS)}, stdout=subprocess.PIPE)
    return process, int(re.search(rb":(\d+)\n", process.stdout.readline())[1])


def ask(port, body):
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    conn.request("POST", "/mcp", json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(conn.getresponse().read())
    conn.close()
    return answer


def python(build):
    """An interpreter that has FastAPI; it shares its folder with the gateway's bench."""
    venv = pathlib.Path(build).resolve() / "venv-requirements"
    if not (venv / "complete").exists():
        for argv in ([sys.executable, "-m", "venv", venv],
                     [venv / "bin/pip", "install", "-q", "-r", ROOT / "bench/requirements.txt"]):
            subprocess.run(argv, check=True, capture_output=True, timeout=START_S * 5)
        (venv / "complete").touch()
    return venv / "bin/python"


def standin(build, folder, tools):
    file = pathlib.Path(folder) / "tools.json"
    file.write_text(json.dumps(tools))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([python(build), ROOT / "bench/server_standin.py", str(port), file],
                               stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return process, port
        time.sleep(0.1)
    process.kill()
    raise LookupError("the stand-in did not start")


def load(build, port, what):
    done = subprocess.run([f"{build}/bench/server_load", str(port), str(CONNECTIONS), str(SECONDS)],
                          input=WHAT[what], capture_output=True, check=True)
    got = json.loads(done.stdout)
    if got["wrong"] or got["unanswered"]:
        raise SystemExit(f"bench: {what}: {got['wrong']} answers were wrong, "
                         f"{got['unanswered']} did not come")
    return got


def measure_requests(build, folder):
    with contextlib.ExitStack() as stack:
        process, port = serve(build, folder)
        stack.enter_context(ending(process))
        ports = {"ours": port}
        try:
            process, ports["fastapi"] = standin(build, folder, ask(port, LIST)["result"])
            stack.enter_context(ending(process))
        except FAILURES as e:
            print(f"bench: no FastAPI to compare with: {e}", file=sys.stderr)
        found = {}
        for _ in range(ROUNDS):
            for name, port in ports.items():
                for what in WHAT:
                    found.setdefault((name, what), []).append(load(build, port, what))
    return {key: {f: statistics.median(r[f] for r in rounds) for f in ("rps", "p99_us")}
            for key, rounds in found.items()}


def rss_mb(process):
    pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def open_session(port):
    """An open WebSocket whose session has answered."""
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(HANDSHAKE.encode() + b"\x81\x90\0\0\0\0" + b'{"type":"state"}')
    got = b""
    while b'"last_sandbox_id"' not in got:
        more = s.recv(65536)
        if not more:
            raise SystemExit(f"bench: a session was refused: {got[-200:]}")
        got += more
    return s


def measure_sessions(build, folder):
    process, port = serve(build, folder)
    with ending(process):
        open_session(port).close()
        before = rss_mb(process)
        sessions = [open_session(port) for _ in range(SESSIONS)]
        grown = rss_mb(process) - before
        for s in sessions:
            s.close()
    return grown


def measure_start(build, folder):
    process, port = serve(build, folder, "--agent", "command", "--agent-cmd", AGENT,
                          "--setup-offline")
    arguments = {"instruction": "begin", "base_url": "http://127.0.0.1:9/v1", "api_key": "none",
                 "model": "none", "mode": "black_box"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_rollout", "arguments": arguments}}
    with ending(process):
        took = []
        for _ in range(STARTS):
            asked = time.time()
            result = json.loads(ask(port, call)["result"]["data"])
            if result["error"]:
                raise SystemExit(f"bench: a rollout failed: {result['error']}")
            began = next(text for path, text in result["files"].items() if path.endswith("began"))
            took.append(1000 * (float(began) - asked))
    return statistics.median(took)


def measure(build):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o711)
        found = measure_requests(build, folder)
        numbers = {}
        for (name, what), row in found.items():
            prefix = what if name == "ours" else f"fastapi_{what}"
            numbers[f"{prefix}_rps"] = round(row["rps"])
            numbers[f"{prefix}_p99_us"] = round(row["p99_us"])
        ratios = [found["ours", w]["rps"] / found["fastapi", w]["rps"] for w in WHAT
                  if ("fastapi", w) in found]
        numbers["fastapi_ratio"] = round(min(ratios), 1) if ratios else None
        numbers["ws_1000_mb"] = round(measure_sessions(build, folder), 1)
        numbers["start_ms"] = round(measure_start(build, folder), 1)
    return numbers
