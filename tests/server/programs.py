# SPDX-License-Identifier: BSD-3-Clause
"""What the gateway's tests share: the program itself, scripted models behind it, plain calls."""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 30  # A busy machine is slow; a hang is told from it by this.
FOREIGN = ("OPENAI_", "VLLM_", "HF_", "SNAFFLE_", "OPENCODE_", "UPSTREAM_", "SSL_CERT")


def environment(extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    env.update(extra or {})
    return env


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.01)


class Model:
    """A scripted model; kill() and start() again on the same port."""

    def __init__(self, program, folder, script=None, name="model"):
        self.program, self.folder, self.name = program, pathlib.Path(folder), name
        self.port, self.process = 0, None
        (self.folder / f"{name}.json").write_text(json.dumps(script or {}))
        self.start()

    def start(self):
        port_file = self.folder / f"{self.name}.port"
        port_file.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [self.program, "--script", self.folder / f"{self.name}.json", "--port", str(self.port),
             "--port-file", port_file, "--log", self.folder / f"{self.name}.log",
             "--die-with-parent"], stdout=subprocess.DEVNULL)
        until(lambda: port_file.exists() and port_file.read_text().endswith("\n"), "a model")
        self.port = int(port_file.read_text())

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def requests(self):
        """What it was asked, from the first start on."""
        log = self.folder / f"{self.name}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        events = [json.loads(line) for line in lines]
        return [e for e in events if e["event"] == "request" and e["method"] == "POST"]

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)


class Gateway:
    """The program, listening; `key` is what admin() shows."""

    def __init__(self, argv, *args, env=None, folder=None, stdin=None, key=None):
        self.key, self.folder = key, pathlib.Path(folder or tempfile.mkdtemp())
        self.stderr = open(self.folder / "stderr", "wb+")
        self.process = subprocess.Popen(
            [*argv, "--port", "0", *map(str, args)], cwd=self.folder, env=environment(env),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self.stderr)
        if stdin is not None:
            self.process.stdin.write(stdin.encode())
            self.process.stdin.close()
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"listening on http://.*:(\d+)/v1\n", line)
        if not found:
            self.process.wait(PATIENCE_S)
            raise AssertionError(f"it said {line!r} and {self.errors()!r}")
        self.port = int(found[1])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def errors(self):
        return (self.folder / "stderr").read_text()

    def ask(self, method, path, body=None, key=None, headers=None):
        """Status and body (JSON where it is)."""
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        fields = dict(headers or {})
        if key:
            fields["Authorization"] = f"Bearer {key}"
        text = json.dumps(body) if isinstance(body, (dict, list)) else body
        conn.request(method, path, text, fields)
        answer = conn.getresponse()
        content = answer.read().decode()
        conn.close()
        if "json" in answer.getheader("Content-Type", "") and not content.startswith('{"turn'):
            content = json.loads(content)
        return answer.status, content

    def admin(self, method, path, body=None):
        return self.ask(method, path, body, key=self.key)

    def call(self, text="hello", key=None, **more):
        body = {"model": "scripted", "messages": [{"role": "user", "content": text}], **more}
        return self.ask("POST", "/v1/chat/completions", body, key=key)

    def metrics(self):
        status, text = self.admin("GET", "/metrics")
        assert status == 200, text
        return text

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        self.stderr.close()
        return code


def trace_of(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def side_by_side(n, work):
    """Runs work(i) in n threads; gives what they raised."""
    raised = []

    def run(i):
        try:
            work(i)
        except Exception as e:  # pylint: disable=broad-except
            raised.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return raised
