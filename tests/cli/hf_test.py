#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`snaffle run`, `batch` and `gc` with sandboxes of the Hugging Face Hub, against the fake one.

hf_test.py SNAFFLE SCRIPTED_MODEL FAKE_HUB SBX_DOUBLE
"""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import harness
from harness import Model, Skip, environment, equal, holds, run_cases, snaffle
from place import AGENT, plain_script

PATIENCE_S = 60
TOKEN = "hf_testtoken"
KEY = "sk-real-key-that-stays-outside"
TASK = {"instruction": "go", "setup": ["echo ready >ready"],
        "verify": ["test -e done && test -e ready", "test $(dirname $PWD) = /root"]}


class Hub:
    """The fake Hub, whose jobs reach the model; and a folder for runs, with a state of its own."""

    def __init__(self, model):
        self.port = model.arguments[1].rsplit(":", 1)[1].split("/")[0]

    def __enter__(self):
        if os.geteuid() != 0:
            raise Skip("the fake Hub's jobs are containers: needs root")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snaffle-hf-"))
        self.folder.chmod(0o711)  # As a state folder is to be.
        (self.folder / "t.json").write_text(json.dumps(TASK))
        port = self.folder / "port"
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.argv[3], "--sbx", sys.argv[4], "--sbx-words", "protocol=3", "--token", TOKEN,
             "--reach", self.port, "--port-file", str(port), "--die-with-parent"],
            stdout=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while not (port.exists() and port.read_text()):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError("the fake Hub did not start")
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port.read_text().strip()}"
        self.env = {"SNAFFLE_STATE": str(self.folder / "state"), "HF_ENDPOINT": self.url,
                    "HF_TOKEN": TOKEN, "MODEL_KEY": KEY}
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)

    def state(self):
        with urllib.request.urlopen(f"{self.url}/_state") as answer:
            return json.load(answer)

    def call(self, *args, **more):
        return snaffle(*args, folder=self.folder, env=self.env, **more)

    def arguments(self, model):
        return [*model.arguments, "--backend", "hf", "--api-key-env", "MODEL_KEY", "--agent",
                "command", "--agent-cmd", AGENT]


def result_of(hub, *names):
    return json.loads(hub.folder.joinpath("runs", *names, "result.json").read_text())


def a_task_is_run_on_the_hub_by_one_more_flag():
    with Model(plain_script()) as model, Hub(model) as hub:
        ran = hub.call("run", "t.json", *hub.arguments(model), "--run", "r", "--rollout", "one")
        equal(ran.code, 0, ran.err)
        holds(ran.err, "creating hf sandbox")
        result = result_of(hub, "r", "one")
        equal([result[f] for f in ("status", "cause", "reward", "backend", "calls",
                                   "agent_version", "capture_level")],
              ["ok", None, 1.0, "hf", 1, None, "tokens"])
        holds(result["isolation"]["model_key"], "key_exposed")
        holds(result["isolation"]["network"], "not_enforced")
        equal(len(result["sandbox_id"].rsplit("/", 1)[-1]), 24, "a job's id")
        equal(hub.state()["alive"], 0, "jobs alive")
        trace = hub.call("trace", "r/one", check=True).out.splitlines()
        equal(len(trace), 1, "turns")
        text = "".join(p.read_text(errors="replace") for p in (hub.folder / "runs").rglob("*")
                       if p.is_file())
        for secret in (KEY, TOKEN):
            if secret in text + ran.out + ran.err:
                raise AssertionError(f"{secret} is in what was written")


def a_batch_on_the_hub_is_many_at_once_and_leaves_none():
    with Model(plain_script()) as model, Hub(model) as hub:
        ran = hub.call("batch", "t.json", "-n", "4", "--concurrency", "4", "--run", "b", "--json",
                       "--quiet", *hub.arguments(model))
        equal(ran.code, 0, ran.err)
        totals = json.loads(ran.out)["totals"]
        equal((totals["rollouts"], totals["ok"], totals["calls"], totals["mean_reward"]),
              (4, 4, 4, 1.0))
        state = hub.state()
        equal((len(state["jobs"]), state["alive"]), (4, 0), "jobs and those alive")
        equal(list((hub.folder / "runs").rglob(".inside")), [], "copies of journals")


def api(**what):
    return {"face": "api", "method": "POST", "path": "/api/jobs/", **what}


def proxy(path, **what):
    return {"face": "proxy", "path": path, **what}


FAULTS = [
    api(status=429, headers={"Retry-After": "1"}, body={"error": "slow down"}),
    api(status=502, body="<html>bad gateway</html>"), api(drop_answer=True), api(job="die"),
    api(job="never_start"), proxy("/v1/exec", drop=True), proxy("/v1/exec", drop_answer=True),
    proxy("/files/write", status=502, body="<html>"), proxy("/files/read", cut_after=10),
    proxy("/files/read", drop=True), proxy("/v1/exec", job="vanish"),
    proxy("gateway-journal", status=502, body="<html>")]
FROM_OUTSIDE = {None, "sandbox_create", "sandbox_lost", "quota", "agent_install", "capture_fault"}


def a_batch_under_one_fault_of_each_kind_leaves_no_sandbox_and_a_cause_for_each():
    seed = random.randrange(1 << 30)
    print(f"# seed {seed}")
    chance = random.Random(seed)
    rules = [{**f, "skip": chance.randrange(8 if f["face"] == "api" else 60)} for f in FAULTS]
    chance.shuffle(rules)
    with Model(plain_script()) as model, Hub(model) as hub:
        body = json.dumps(rules).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{hub.url}/_faults", body)) as answer:
            answer.read()
        ran = hub.call("batch", "t.json", "-n", "12", "--concurrency", "6", "--run", "b", "--json",
                       "--quiet", "--create-s", "15", *hub.arguments(model))
        results = [json.loads(p.read_text()) for p in
                   (hub.folder / "runs/b").glob("*/result.json")]
        equal(len(results), 12, "results")
        told = [(r["status"], r["cause"], r["error"]) for r in results]
        for result in results:
            if result["cause"] not in FROM_OUTSIDE:
                raise AssertionError(f"{told}")
            if result["status"] == "ok":
                equal((result["reward"], result["calls"]), (1.0, 1), f"{told}")
        equal(hub.state()["alive"], 0, "jobs alive")
        text = ran.out + ran.err + "".join(
            p.read_text(errors="replace") for p in (hub.folder / "runs").rglob("*") if p.is_file())
        for secret in (KEY, TOKEN):
            if secret in text:
                raise AssertionError(f"{secret} is in what was written")


def a_wrong_token_is_told_in_one_line():
    with Model(plain_script()) as model, Hub(model) as hub:
        hub.env["HF_TOKEN"] = "hf_wrong"
        ran = hub.call("run", "t.json", *hub.arguments(model), "--json", "--quiet")
        equal(ran.code, 3, ran.err)
        equal(ran.out, "")
        holds(ran.err.splitlines()[-1], "token")


def a_command_in_another_process_s_sandbox_shows_what_it_gives():
    slow = {**TASK, "verify": ["touch verifying; sleep 30"]}
    with Model(plain_script()) as model, Hub(model) as hub:
        (hub.folder / "t.json").write_text(json.dumps(slow))
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            [harness.PROGRAM, "run", "t.json", *hub.arguments(model), "--run", "r", "--rollout",
             "slow"], cwd=hub.folder, env=environment(hub.env), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        wait_for_phase(process, PHASES["verify"])

        def inside(*words):
            return hub.call("sandbox", "exec", "--backend", "hf", *words)
        box = json.loads(hub.call("sandbox", "ls", "--backend", "hf", "--json", check=True).out)[0]
        for name in (box["id"], "slow"):
            equal(inside(name, "sh", "-c", "cd; ls -d workdir").out, "workdir\n", name)
        parts = inside("slow", "sh", "-c", "echo out; echo err >&2; exit 7")
        equal((parts.code, parts.out, parts.err), (7, "out\n", "err\n"))
        long = inside("slow", "sh", "-c", "seq 200000; echo end >&2")
        equal((long.code, long.err), (0, "end\n"))
        equal(long.out, "".join(f"{n}\n" for n in range(1, 200001))[-(1 << 20):])
        late = inside("--timeout-s", "0.2", "slow", "sleep", "60")
        equal(late.code, 124)
        holds(late.err, "[timed out after 0.2s]")
        whole = inside("--json", "slow", "sh", "-c", "printf 'a\\377'; exit 3")
        equal(whole.code, 3)
        told = json.loads(whole.out)
        equal((told["exit_code"], told["stdout"], told["stderr"]), (3, "a\ufffd", ""))
        holds(inside("slow", "no-such-program").err, "cannot run 'no-such-program'")
        equal(process.poll(), None, "the rollout's end")
        process.kill()
        process.communicate()
        sweep(hub)


PHASES = {  # The words that its progress lines have for each phase.
    "create": "creating hf sandbox", "install": "placing", "setup": "setup", "agent": "agent",
    "verify": "verify", "collect": "collecting", "teardown": "tearing down"}


def wait_for_phase(process, words):
    for line in process.stderr:
        if re.sub(r"^\[[^]]*\] *", "", line).startswith(words):
            return
    raise AssertionError(f"'{words}' never began: {process.communicate()}")


def sweep(hub):
    """`snaffle gc` until nothing is alive, as a user would do it."""
    until = time.monotonic() + PATIENCE_S
    while hub.state()["alive"]:
        hub.call("gc", "--backend", "hf", check=True)
        if time.monotonic() > until:
            raise AssertionError(f"gc leaves {hub.state()}")


def kill_in(hub, model, phase, words, delay_s):
    name = f"{phase}-{int(1000 * delay_s)}"
    process = subprocess.Popen(  # pylint: disable=consider-using-with
        [harness.PROGRAM, "run", "t.json", *hub.arguments(model), "--run", "killed", "--rollout",
         name], cwd=hub.folder, env=environment(hub.env), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    wait_for_phase(process, words)
    time.sleep(delay_s)
    process.kill()
    process.communicate()
    sweep(hub)
    rows = json.loads(hub.call("ls", "--json", "--run", "killed", check=True).out)
    status = {row["rollout"]: row["status"] for row in rows}[name]
    if status not in (("open", "ok") if phase in ("collect", "teardown") else ("open",)):
        raise AssertionError(f"{name}: {status}")
    for line in hub.call("trace", f"killed/{name}", check=True).out.splitlines():
        json.loads(line)
    hub.call("show", f"killed/{name}", check=True)


def a_run_killed_in_any_phase_leaves_what_gc_removes_and_can_be_shown():
    slow = {**TASK, "verify": ["sleep 2", "test -e done"]}
    with Model(plain_script()) as model, Hub(model) as hub:
        (hub.folder / "t.json").write_text(json.dumps(slow))
        for phase, words in PHASES.items():
            for delay_s in (0, 0.1):
                kill_in(hub, model, phase, words, delay_s)
        made = len(hub.state()["jobs"])
        if made < 2 * len(PHASES) - 2:  # At its very beginning there may be none yet.
            raise AssertionError(f"only {made} jobs were made")


CASES = [(f.__name__, f) for f in (
    a_task_is_run_on_the_hub_by_one_more_flag,
    a_batch_on_the_hub_is_many_at_once_and_leaves_none,
    a_batch_under_one_fault_of_each_kind_leaves_no_sandbox_and_a_cause_for_each,
    a_command_in_another_process_s_sandbox_shows_what_it_gives,
    a_wrong_token_is_told_in_one_line,
    a_run_killed_in_any_phase_leaves_what_gc_removes_and_can_be_shown)]

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
