# SPDX-License-Identifier: BSD-3-Clause
"""Where the tool's clients are tried: a folder for runs, a state of its own, a scripted model, and an
agent in the real local sandbox that does as its instruction says."""
import functools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import jsonschema

from programs import PATIENCE_S, Model, environment, until

KEY = "sk-key-of-the-engine-5c1e"

# "wait": goes on until it is stopped. Else: asks its model once, and writes what that said.
AGENT = "read -r word || true; test \"$word\" = wait && exec sleep 600; python3 -c " + shlex.quote("""
import json, os, urllib.request
body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "go"}],
                   "tools": [{"type": "function", "function": {"name": "t", "parameters": {}}}]}).encode()
ask = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
answer = json.load(urllib.request.urlopen(ask, timeout=60))
open("said.txt", "w").write(answer["choices"][0]["message"]["content"])
""")

SCRIPT = {"api_key": KEY, "otherwise": {"reply": {"text": "Grüße, ☃ and \"quotes\"."}}}
SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs/schema/result.schema.json"
DO = {"instruction": "do it", "task_id": "t-1", "verify": ["grep -q Grüße said.txt", "false"]}
WAIT = {"instruction": "wait", "task_id": "t-2"}


class Ground:
    def __init__(self, program, model_program):
        self.program = str(pathlib.Path(program).resolve())
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snaffle-tool-"))
        self.folder.chmod(0o711)  # The sandboxes' users pass through it.
        self.env = {"SNAFFLE_STATE": str(self.folder / "state"), "ENGINE_KEY": KEY}
        self.server = None
        self.model = Model(str(pathlib.Path(model_program).resolve()), self.folder, SCRIPT)

    @functools.cached_property
    def lacks(self):
        """Why no sandbox can be made here; "" when one can."""
        report = json.loads(self.call("doctor", "--json", check=False))
        return "; ".join(f["text"] for f in report["findings"]
                         if f["state"] == "lacks" and "sandbox" in f["text"])

    def flags(self):
        return ["--runs", str(self.folder / "runs"), "--base-url", self.model.url, "--model",
                "scripted", "--api-key-env", "ENGINE_KEY", "--agent", "command", "--agent-cmd",
                AGENT, "--setup-offline"]

    def environment(self):
        return environment(self.env)

    @functools.cached_property
    def url(self):
        """Of the MCP face of a server, which this starts."""
        self.server = subprocess.Popen(
            [self.program, "serve", "--port", "0", *self.flags()], cwd=self.folder,
            env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        found = re.fullmatch(r"listening on (http://.*:\d+)\n", self.server.stdout.readline())
        assert found, "the server did not start"
        return found[1] + "/mcp"

    def call(self, *args, check=True):
        return subprocess.run([self.program, *args], cwd=self.folder, env=self.environment(),
                              check=check, capture_output=True, text=True).stdout

    def boxes(self):
        return [b for b in json.loads(self.call("sandbox", "ls", "--json")) if b["alive"]]

    def until_empty(self):
        until(lambda: not self.boxes(), "the sandboxes' end")

    def secrets(self):
        """Files under runs/ that hold the engine's key."""
        return [str(p) for p in (self.folder / "runs").rglob("*")
                if p.is_file() and KEY.encode() in p.read_bytes()]

    def close(self):
        code = 0
        if self.server:
            self.server.terminate()
            code = self.server.wait(PATIENCE_S)
        self.model.kill()
        shutil.rmtree(self.folder)
        assert code == 0, f"the server ended with {code}"


def check_result(text):
    """What DO comes to."""
    result = json.loads(text)
    jsonschema.validate(result, json.loads(SCHEMA.read_text()))
    assert result["status"] == "ok", result
    assert result["error"] is None
    assert result["task_id"] == "t-1"
    assert result["reward"] == 0.5
    assert result["mode"] == "transparent_proxy"
    assert result["files"]["/home/user/workdir/said.txt"].startswith("Grüße, ☃")
    assert [c["exit_code"] for c in result["verify_results"]] == [0, 1]
    (turn,) = result["proxy_turns"]
    ids, logps = turn["completion_token_ids"], turn["per_token_logps"]
    assert len(ids) == len(logps) > 5
    assert KEY not in text
    return result
