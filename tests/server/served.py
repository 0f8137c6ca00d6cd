# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of `snaffle serve` share: the program in a place of its own, and quick rollouts."""
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from programs import Model, PATIENCE_S, environment, until
from rawsocket import RawSocket

# Agents that need no installing: one asks its model once and writes a file, one takes its time.
ASKS = "python3 -c " + shlex.quote("""
import json, os, urllib.request
body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "go"}]}).encode()
ask = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
print(len(urllib.request.urlopen(ask, timeout=60).read()))
open("done", "w").close()
""")
SLOW = ASKS + "\nsleep 120"  # Its question tells that it runs.


def lacks_sandbox(program):
    """Why no local sandbox can be made here; None when it can."""
    out = subprocess.run([program, "doctor", "--json"], capture_output=True, text=True,
                         env=environment(), check=False).stdout
    found = [f["text"] for f in json.loads(out)["findings"]
             if f["state"] == "lacks" and "sandbox" in f["text"]]
    return "; ".join(found) or None


class Place:
    """A folder for runs, a state of its own and a scripted model; each server in it ends with it."""

    def __init__(self, program, model):
        self.program = program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snaffle-serve-"))
        self.folder.chmod(0o711)  # The sandboxes' users pass through it.
        self.model = Model(model, self.folder, {"any_model": True})
        self.servers = []

    def close(self):
        codes = [s.stop() for s in self.servers]
        self.model.kill()
        shutil.rmtree(self.folder)
        assert not any(codes), codes

    def serve(self, *args, agent=ASKS, env=None, own_state=True):
        more = ["--agent", "command", "--agent-cmd", agent] if agent else []
        s = Serve(self, *args, *more, "--setup-offline",
                  env={**(self.env if own_state else {}), **(env or {})})
        self.servers.append(s)
        return s

    def call(self, **more):
        """The arguments of a rollout against the scripted model."""
        return {"base_url": self.model.url, "api_key": "model-key-0123456789", "model": "scripted",
                "instruction": "do it", **more}

    def boxes(self):
        out = subprocess.run([self.program, "sandbox", "ls", "--json"], check=True, text=True,
                             capture_output=True, env=environment(self.env), cwd=self.folder).stdout
        return json.loads(out)

    @property
    def env(self):
        return {"SNAFFLE_STATE": str(self.folder / "state")}


class Serve:
    """The program, listening."""

    def __init__(self, place, *args, env=None):
        self.errors_file = open(place.folder / "serve.err", "ab+")
        self.process = subprocess.Popen(
            [place.program, "serve", "--port", "0", *map(str, args)], cwd=place.folder,
            env=environment(env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self.errors_file)
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"listening on http://.*:(\d+)\n", line)
        if not found:
            self.process.wait(PATIENCE_S)
            raise AssertionError(f"it said {line!r} and {self.errors()!r}")
        self.port = int(found[1])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def errors(self):
        self.errors_file.seek(0)
        return self.errors_file.read().decode()

    def ask(self, method, path, body=None, headers=None):
        """Status, fields and body (JSON where it is)."""
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        text = json.dumps(body) if isinstance(body, (dict, list)) else body
        conn.request(method, path, text, headers or {})
        answer = conn.getresponse()
        content = answer.read().decode()
        conn.close()
        if answer.getheader("Content-Type", "").startswith("application/json"):
            content = json.loads(content)
        return answer.status, content

    def get(self, path, **headers):
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def rpc(self, method, params=None, number=1):
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            message["params"] = params
        status, answer = self.ask("POST", "/mcp", message, {"Content-Type": "application/json"})
        assert status == 200, (status, answer)
        assert answer["id"] == number and answer["jsonrpc"] == "2.0", answer
        assert ("result" in answer) != ("error" in answer), answer
        return answer

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S * 2)
        if not self.errors_file.closed:
            self.process.stdout.close()
            self.errors_file.close()
        return code


class Case(unittest.TestCase):
    """In a place of its own, with the programs that argv names first."""

    def setUp(self):
        self.place = Place(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
        self.addCleanup(self.place.close)

    def socket(self, s, path="/ws"):
        ws = RawSocket(s.port, path)
        self.addCleanup(ws.drop)
        return ws


def use_packages(folder):
    """Lets the packages of build/packages-NAME be found before all others; false without them."""
    if not (pathlib.Path(folder) / "installed.txt").exists():
        return False
    sys.path.insert(0, str(folder))
    return True


__all__ = ["ASKS", "SLOW", "Place", "Serve", "lacks_sandbox", "until", "use_packages"]
