# SPDX-License-Identifier: BSD-3-Clause
"""Where rollouts run that are killed: folders of their own, and what is left of them."""
import json
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time

import harness
from harness import Skip, environment, snaffle

PATIENCE_S = 60

# Asks its model once, in the shell's stead, beside a child that tries to get away.
AGENT = "python3 -c " + shlex.quote("""
import json, os, subprocess, time, urllib.request
subprocess.Popen(["sleep", os.environ.get("MARK", "3001")], start_new_session=True)
body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "go"}]}).encode()
ask = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
urllib.request.urlopen(ask, timeout=60).read()
time.sleep(0.4)
open("done", "w").close()
""")


class Place:
    """A folder for runs and a state of its own: what another process swept would prove nothing."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snaffle-kill-"))
        self.folder.chmod(0o711)  # The sandboxes' users pass through it.
        self.env = {"SNAFFLE_STATE": str(self.folder / "state")}
        report = json.loads(self.call("doctor", "--json").out)
        lacks = [f["text"] for f in report["findings"]
                 if f["state"] == "lacks" and "sandbox" in f["text"]]
        if lacks:
            shutil.rmtree(self.folder)
            raise Skip("; ".join(lacks))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def call(self, *args, **more):
        return snaffle(*args, folder=self.folder, env=self.env, **more)

    def begin(self, *args, mark="3001", agent=AGENT):
        """`snaffle run` or `batch`, with the agent for its agent."""
        return subprocess.Popen(  # pylint: disable=consider-using-with
            [harness.PROGRAM, *args, "--agent", "command", "--agent-cmd",
             f"export MARK={mark}\n{agent}", "--setup-offline"],
            cwd=self.folder, env=environment(self.env), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)

    def boxes(self):
        return json.loads(self.call("sandbox", "ls", "--json", check=True).out)

    def sweep(self):
        """`snaffle gc` until nothing is left, as a user would do it."""
        until = time.monotonic() + PATIENCE_S
        while self.boxes():
            self.call("gc", check=True)
            if time.monotonic() > until:
                raise AssertionError(f"gc leaves {self.boxes()}")

    def results(self, run):
        """The rollouts' results that are whole, by name: their text and the file they stand in."""
        found = {}
        for path in (self.folder / "runs" / run).glob("*/result.json"):
            text = path.read_text()
            if json.loads(text)["status"] == "ok":
                found[path.parent.name] = (text, path.stat().st_ino)
        return found


def processes_with(*words):
    """Command lines of living processes that hold one of the words."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (path.parent / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z" and any(word in line for word in words):
            found.append(line)
    return found


def await_none(*words):
    until = time.monotonic() + PATIENCE_S
    while processes_with(*words):
        if time.monotonic() > until:
            raise AssertionError(f"still there: {processes_with(*words)}")
        time.sleep(0.05)


def plain_script():
    """One answer, to whatever is asked."""
    path = pathlib.Path(tempfile.mkdtemp(dir=harness.SCRATCH.name)) / "script.json"
    path.write_text(json.dumps({"scenes": [{"reply": {"words": 20}}]}))
    return path
