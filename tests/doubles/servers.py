# SPDX-License-Identifier: BSD-3-Clause
"""The programs that tests in Python put together: a scripted model, a gateway, and its trace."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

START_S = 30  # They listen within milliseconds; a busy machine is slow.
OWN_ENV = ("OPENAI_", "OPENCODE_", "UPSTREAM_", "SNAFFLE_", "VLLM_", "HF_")


def environment(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(OWN_ENV) and not k.lower().endswith("_proxy")}
    return {**env, **more}


def await_true(condition, what, seconds=START_S):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come within {seconds} s")
        time.sleep(0.02)


class Program:
    """Runs with its output in a folder until stop()."""

    def __init__(self, folder, argv, env=None, **how):
        self.folder = folder
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as errors:
            self.process = subprocess.Popen([str(a) for a in argv], env=env or environment(),
                                            cwd=folder, stdout=out, stderr=errors, **how)

    def output(self):
        return (self.folder / "stdout").read_text()

    def await_ready(self, condition):
        def ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.process.args[0]} ended: "
                                   f"{(self.folder / 'stderr').read_text()}")
            return condition()
        await_true(ready, f"the start of {self.process.args[0]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class ScriptedModel(Program):
    """`files`: {name: text} beside the script."""

    def __init__(self, program, script, folder, files=None):
        folder.mkdir()
        for name, text in {**(files or {}), "script.json": json.dumps(script)}.items():
            (folder / name).write_text(text)
        super().__init__(folder, [program, "--script", "script.json", "--port-file", "port",
                                  "--log", "log", "--die-with-parent"])
        self.await_ready((folder / "port").exists)
        self.url = f"http://127.0.0.1:{(folder / 'port').read_text().strip()}/v1"

    def log(self):
        """What it noted so far; a line that is being written is left out."""
        path = self.folder / "log"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def requests(self, path="/v1/chat/completions"):
        return [line for line in self.log() if line["event"] == "request" and line["path"] == path]


class Gateway(Program):
    """`snaffle gateway` in front of `upstream`."""

    def __init__(self, program, upstream, folder, *options, key=None, trace_of=None):
        folder.mkdir()
        self.trace_of = trace_of
        self.journal = folder / "journal"
        env = environment(UPSTREAM_API_KEY=key) if key else None
        super().__init__(folder, [program, "gateway", "--port", "0", "--upstream-url", upstream,
                                  "--journal", self.journal, *options], env=env)
        self.await_ready(lambda: self._port())
        self.url = f"http://127.0.0.1:{self._port()}/v1"

    def _port(self):
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)/v1\n", self.output())
        return found and found.group(1)

    def trace(self):
        """One object a call, in the order of their beginning."""
        done = subprocess.run([self.trace_of, self.journal], check=True,
                              stdout=subprocess.PIPE)
        return [json.loads(line) for line in done.stdout.split(b"\n") if line]
