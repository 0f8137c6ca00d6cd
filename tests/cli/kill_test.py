#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program killed outright: `snaffle batch` at any moment, `snaffle run` in every phase.

kill_test.py SNAFFLE SCRIPTED_MODEL
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

from harness import Model, equal, holds, run_cases
from place import PATIENCE_S, Place, await_none, plain_script

TASKS, EACH = 8, 2
KILLS = 6  # Of the batch; the last of them may find it at its end.
KILL_WITHIN_S = 1.0  # From its start: agents alone take two seconds, three at once.


def tasks_file(place, instruction="go"):
    path = place.folder / "tasks.jsonl"
    path.write_text("".join(
        json.dumps({"task_id": f"t{n}", "instruction": instruction, "verify": ["test -e done"]})
        + "\n" for n in range(TASKS)))
    return str(path)


def kill_at_first_result(place, process):
    until = time.monotonic() + PATIENCE_S
    while not place.results("r"):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise AssertionError(f"no rollout ended: {process.communicate()}")
        time.sleep(0.01)
    process.kill()
    process.communicate()


def killed_within(process, seconds):
    """Kills it at some moment; whether it had not ended by itself, well."""
    try:
        _, err = process.communicate(timeout=random.uniform(0, seconds))
        equal(process.returncode, 0, err)
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True


def check_totals(place, totals):
    """The batch's own word, the folders, the traces and the index say the same."""
    equal((totals["rollouts"], totals["ok"], totals["failed"], totals["not_started"]),
          (TASKS * EACH, TASKS * EACH, 0, 0))
    folders = sorted(p.parent.name for p in (place.folder / "runs/r").glob("*/task.json"))
    equal(folders, sorted(f"t{n}-{k}" for n in range(TASKS) for k in range(EACH)), "folders")
    traces = [[json.loads(line) for line in (place.folder / "runs/r" / name / "trace.jsonl")
               .read_text().splitlines()] for name in folders]
    equal([len(trace) for trace in traces], [1] * len(folders), "turns")
    equal({trace[0]["end"] for trace in traces}, {"complete"})
    tokens = sum(len(trace[0]["completion_token_ids"]) for trace in traces)
    equal((totals["calls"], totals["completion_tokens"]), (len(folders), tokens))
    rows = json.loads(place.call("ls", "--json", "--run", "r", check=True).out)
    equal(sorted(row["rollout"] for row in rows), folders, "the index")
    equal((sum(row["turns"] for row in rows), sum(row["completion_tokens"] for row in rows)),
          (totals["calls"], tokens), "the index's sums")
    equal(totals["mean_reward"], 1.0)


def a_batch_killed_at_any_moment_and_resumed_has_no_repeats_and_no_gaps():
    with Place() as place, Model(plain_script()) as model:
        arguments = ["batch", tasks_file(place), "-n", str(EACH), "--concurrency", "3", "--run", "r",
                     "--resume", "--json", "--quiet", *model.arguments]
        kill_at_first_result(place, place.begin(*arguments))
        over = place.results("r")
        for _ in range(KILLS - 1):
            if not killed_within(place.begin(*arguments), KILL_WITHIN_S):
                break
            over.update({n: r for n, r in place.results("r").items() if n not in over})
        last = place.begin(*arguments)
        out, err = last.communicate(timeout=PATIENCE_S)
        equal(last.returncode, 0, err)
        totals = json.loads(out)["totals"]
        if totals["kept"] < len(over):
            raise AssertionError(f"{len(over)} were over, {totals['kept']} kept")
        now = place.results("r")
        equal({n: now.get(n) for n in over}, over, "results of rollouts that were over")
        check_totals(place, totals)
        place.sweep()
        await_none(str(place.folder))


def a_batch_whose_task_changed_is_not_gone_on_with_and_keeps_all_it_has():
    with Place() as place, Model(plain_script()) as model:
        arguments = ["batch", tasks_file(place), "--run", "r", "--resume", "--json", "--quiet",
                     *model.arguments]
        first = place.begin(*arguments)
        equal((first.communicate(timeout=PATIENCE_S)[1], first.returncode), ("", 0))
        before = place.results("r")
        tasks_file(place, "something else")
        second = place.begin(*arguments)
        _, err = second.communicate(timeout=PATIENCE_S)
        equal(second.returncode, 2, err)
        holds(err, "the task 't0' is another than when the run began: instruction changed")
        holds(err, "runs/r/t0-0/task.json")
        equal(len(err.strip().splitlines()), 1, "lines")
        equal(place.results("r"), before, "results")


def interrupted_a_batch_collects_what_runs_and_resume_does_the_rest():
    with Place() as place, Model(plain_script()) as model:
        arguments = ["batch", tasks_file(place), "--concurrency", "2", "--run", "r", "--resume",
                     "--json", *model.arguments]
        process = place.begin(*arguments)
        for line in process.stderr:
            if ": ok, " in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        equal(process.returncode, 130, err)
        totals = json.loads(out)["totals"]
        if totals["ok"] == 0 or totals["not_started"] == 0:
            raise AssertionError(f"the interrupt came too late or too early: {totals}")
        equal(place.boxes(), [], "sandboxes left")
        again = place.begin(*arguments, "--quiet")
        out, err = again.communicate(timeout=PATIENCE_S)
        equal(again.returncode, 0, err)
        after = json.loads(out)["totals"]
        equal((after["ok"], after["kept"]), (TASKS, totals["ok"]))


PHASES = {  # The words that its progress lines have for each phase.
    "create": "creating local sandbox", "install": "placing", "setup": "setup", "agent": "agent",
    "verify": "verify", "collect": "collecting", "teardown": "tearing down"}


def wait_for_phase(process, words):
    for line in process.stderr:
        if re.sub(r"^\[[^]]*\] *", "", line).startswith(words):
            return
    raise AssertionError(f"'{words}' never began: {process.communicate()}")


def kill_in(place, model, phase, words, delay_s):
    mark = f"30.{os.getpid()}"
    name = f"{phase}-{int(1000 * delay_s)}"
    process = place.begin("run", str(place.folder / "t.json"), *model.arguments, "--run", "killed",
                          "--rollout", name, mark=mark)
    wait_for_phase(process, words)
    time.sleep(delay_s)
    ids = [box["id"] for box in place.boxes()]
    process.kill()
    process.communicate()
    # Before anything sweeps: all of it ends by itself.
    await_none(f"sleep {mark}", *(f"snaffle-sandbox-{id}" for id in ids))
    place.sweep()
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    if str(place.folder) in mounts:
        raise AssertionError(mounts)
    rows = json.loads(place.call("ls", "--json", "--run", "killed", check=True).out)
    status = {row["rollout"]: row["status"] for row in rows}[name]
    if status not in (("open", "ok") if phase in ("collect", "teardown") else ("open",)):
        raise AssertionError(f"{name}: {status}")
    for line in place.call("trace", f"killed/{name}", check=True).out.splitlines():
        json.loads(line)
    place.call("show", f"killed/{name}", check=True)


def a_run_killed_in_any_phase_leaves_what_gc_removes_and_can_be_shown():
    task = {"instruction": "go", "setup": ["sleep 0.2"], "verify": ["sleep 0.2", "test -e done"]}
    with Place() as place, Model(plain_script()) as model:
        (place.folder / "t.json").write_text(json.dumps(task))
        for phase, words in PHASES.items():
            for delay_s in (0, 0.02):
                kill_in(place, model, phase, words, delay_s)


def journal_files(place, run):
    return sorted((place.folder / "runs" / run / "journal").rglob("*.log"))


def the_journal_goes_with_the_trace_but_for_raw_answers():
    with Place() as place, Model(plain_script()) as model:
        (place.folder / "t.json").write_text(json.dumps({"instruction": "go"}))
        for run, more, kept in (("plain", (), 0), ("raw", ("--keep-raw",), 1)):
            process = place.begin("run", str(place.folder / "t.json"), *model.arguments, "--run", run,
                                  "--rollout", "one", *more)
            _, err = process.communicate(timeout=PATIENCE_S)
            equal(process.returncode, 0, err)
            equal(len(journal_files(place, run)), kept, f"journal of {run}")
            trace = place.call("trace", f"{run}/one", check=True).out
            equal(json.loads(trace)["end"], "complete")
        swept = json.loads(place.call("gc", "--json", check=True).out)
        equal((swept["journal_files"], swept["journal_files_kept"]), (0, 1))
        equal(len(journal_files(place, "raw")), 1, "raw answers after gc")


CASES = [(f.__name__, f) for f in (
    a_batch_killed_at_any_moment_and_resumed_has_no_repeats_and_no_gaps,
    a_batch_whose_task_changed_is_not_gone_on_with_and_keeps_all_it_has,
    interrupted_a_batch_collects_what_runs_and_resume_does_the_rest,
    a_run_killed_in_any_phase_leaves_what_gc_removes_and_can_be_shown,
    the_journal_goes_with_the_trace_but_for_raw_answers)]

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
