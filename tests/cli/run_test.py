#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whole rollouts by the command line: the real agent, real sandboxes, the scripted model.

run_test.py SNAFFLE SCRIPTED_MODEL
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import harness
from harness import SOURCE, Model, Skip, environment, equal, holds, run_cases, snaffle

EXAMPLE = SOURCE / "examples" / "binary_search"


def need_agent():
    result = snaffle("agent", "install", "opencode", "--quiet")
    if result.code != 0:
        raise Skip(f"the agent can't be installed: {result.err.strip()}")
    report = json.loads(snaffle("doctor", "--json").out)
    lacks = [f["text"] for f in report["findings"] if f["state"] == "lacks"]
    if lacks:
        raise Skip("; ".join(lacks))


def sandboxes_of(run):
    return json.loads(snaffle("sandbox", "ls", "--run", run, "--json", check=True).out)


def a_rollout_is_run_and_every_command_shows_it():
    need_agent()
    with Model(EXAMPLE / "model_script.json") as model:
        ran = snaffle("run", str(EXAMPLE), *model.arguments, "--run", "cli-whole", "--rollout", "one")
    equal(ran.code, 0, ran.err)
    for part in ("status      ok", "reward      1.00", "completion tokens", "log-probability -",
                 "create ", "agent ", "verify ", "runs/cli-whole/one"):
        holds(ran.out, part)
    holds(ran.err, "creating local sandbox")
    equal(sandboxes_of("cli-whole"), [], "sandboxes left")

    rows = json.loads(snaffle("ls", "--json", folder=ran.folder, check=True).out)
    equal([(r["run"], r["rollout"], r["status"], r["reward"]) for r in rows],
          [("cli-whole", "one", "ok", 1.0)])
    result = json.loads((ran.folder / "runs/cli-whole/one/result.json").read_text())
    trace = snaffle("trace", "one", folder=ran.folder, check=True).out.splitlines()
    equal(len(trace), len(result["proxy_turns"]), "turns")
    table = snaffle("show", "last", folder=ran.folder, check=True).out
    holds(table, "MEAN LOGP")
    first = json.loads(trace[0])
    turn = snaffle("show", "cli-whole/one", "--turn", "1", folder=ran.folder, check=True).out
    for token_id in first["completion_token_ids"][:3]:
        holds(turn, str(token_id))
    whole = json.loads(snaffle("show", "one", "--json", folder=ran.folder, check=True).out)
    equal(len(whole["turns"]), len(trace))
    equal(snaffle("show", "one", "--turn", "99", folder=ran.folder).code, 2)


def json_prints_the_result_and_nothing_else():
    need_agent()
    with Model(EXAMPLE / "model_script.json") as model:
        ran = snaffle("run", str(EXAMPLE), *model.arguments, "--json", "--quiet")
    equal((ran.code, ran.err), (0, ""))
    result = json.loads(ran.out)
    equal((result["status"], result["reward"]), ("ok", 1.0))


def a_failed_rollout_exits_1():
    need_agent()
    task = {"instruction": "x", "setup": ["echo no >&2; exit 3"]}
    with Model(EXAMPLE / "model_script.json") as model:
        ran = snaffle("run", "t.json", *model.arguments, files={"t.json": json.dumps(task)})
    equal(ran.code, 1, ran.err)
    holds(ran.out, "status      failed, setup_failed")


def start_long(folder, model, name):
    """A rollout whose model does not answer; gives its process once the agent waits for it."""
    process = subprocess.Popen(  # pylint: disable=consider-using-with
        [harness.PROGRAM, "run", str(EXAMPLE), *model.arguments, "--run", name, "--rollout", "r"],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await_call(process, folder / "runs" / name / "journal")
    return process


def await_call(process, journal):
    """Waits until an agent's call stands in the journal."""
    for _ in range(600):
        if process.poll() is not None:
            raise AssertionError(f"it ended early: {process.communicate()}")
        if any(p.stat().st_size > 2000 for p in journal.rglob("*.log")):
            return
        time.sleep(0.1)
    process.kill()
    raise AssertionError("the agent made no call in 60 s")


def hanging_script(folder):
    path = folder / "script.json"
    path.write_text(json.dumps({"scenes": [{"reply": {"text": "late"}, "delay_ms": 600000}]}))
    return path


def an_interrupt_stops_the_agent_collects_and_exits_130():
    need_agent()
    folder = pathlib.Path(tempfile.mkdtemp(dir=harness.SCRATCH.name))
    with Model(hanging_script(folder)) as model:
        process = start_long(folder, model, "cli-interrupt")
        shown = snaffle("show", "r", folder=folder, check=True).out
        holds(shown, "open")
        rows = [line for line in shown.splitlines() if re.match(r"\s+1\s", line)]
        equal(len(rows), 1, f"the open call in {shown!r}")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    equal(process.returncode, 130, err)
    holds(out, "status      cancelled")
    result = json.loads((folder / "runs/cli-interrupt/r/result.json").read_text())
    equal((result["status"], result["reward"]), ("cancelled", None))
    equal(sandboxes_of("cli-interrupt"), [], "sandboxes left")


def two_interrupts_tear_down_at_once():
    need_agent()
    folder = pathlib.Path(tempfile.mkdtemp(dir=harness.SCRATCH.name))
    with Model(hanging_script(folder)) as model:
        process = start_long(folder, model, "cli-twice")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    equal(process.returncode, 130, err)
    equal(sandboxes_of("cli-twice"), [], "sandboxes left")


def batch_tasks(folder):
    """Two tasks, made from the example; the path of their file."""
    task = json.loads((EXAMPLE / "task.json").read_text())
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps({**task, "task_id": name, "metadata": {"level": level}}) + "\n"
                            for name, level in (("one", "easy"), ("two", "easy"), ("no", "hard"))))
    return path


def a_batch_runs_each_task_and_goes_on_without_repeats():
    need_agent()
    folder = pathlib.Path(tempfile.mkdtemp(dir=harness.SCRATCH.name))
    arguments = [str(batch_tasks(folder)), "-n", "2", "--where", "metadata.level=easy", "--run",
                 "cli-batch"]
    with Model(EXAMPLE / "model_script.json") as model:
        ran = snaffle("batch", *arguments, *model.arguments, "--concurrency", "2", folder=folder)
        equal(ran.code, 0, ran.err)
        for part in ("4 of 2 tasks: 4 ok, 0 failed", "mean 1.000 of 4", "pass@2 1.000",
                     "rollouts a minute", "runs/cli-batch"):
            holds(ran.out, part)
        holds(ran.err, "two-1: ok, reward 1.00")
        again = snaffle("batch", *arguments, *model.arguments, folder=folder)
        equal(again.code, 2, again.err)
        holds(again.err, "--resume goes on with it")
        kept = snaffle("batch", *arguments, *model.arguments, "--resume", "--json", "--quiet",
                       folder=folder)
    equal((kept.code, kept.err), (0, ""))
    whole = json.loads(kept.out)
    equal((whole["totals"]["kept"], whole["totals"]["ok"]), (4, 4))
    equal([r["rollout"] for r in whole["rollouts"]], ["one-0", "one-1", "two-0", "two-1"])
    rows = json.loads(snaffle("ls", "--json", "--group", "one", folder=folder, check=True).out)
    equal(sorted(r["rollout"] for r in rows), ["one-0", "one-1"])
    equal(sandboxes_of("cli-batch"), [], "sandboxes left")


def an_interrupted_batch_begins_no_more_and_exits_130():
    need_agent()
    folder = pathlib.Path(tempfile.mkdtemp(dir=harness.SCRATCH.name))
    with Model(hanging_script(folder)) as model:
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            [harness.PROGRAM, "batch", str(batch_tasks(folder)), *model.arguments, "--run",
             "cli-stop", "--concurrency", "1", "--json"],
            cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        await_call(process, folder / "runs/cli-stop/journal")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    equal(process.returncode, 130, err)
    totals = json.loads(out)["totals"]
    equal((totals["cancelled"], totals["not_started"]), (1, 2))
    equal(sandboxes_of("cli-stop"), [], "sandboxes left")


CASES = [(f.__name__, f) for f in (
    a_batch_runs_each_task_and_goes_on_without_repeats,
    an_interrupted_batch_begins_no_more_and_exits_130,
    a_rollout_is_run_and_every_command_shows_it, json_prints_the_result_and_nothing_else,
    a_failed_rollout_exits_1, an_interrupt_stops_the_agent_collects_and_exits_130,
    two_interrupts_tear_down_at_once)]

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
