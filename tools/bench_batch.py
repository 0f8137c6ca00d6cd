# SPDX-License-Identifier: BSD-3-Clause
"""What a batch of many rollouts at once costs: the program's own memory, its threads, what it leaves.

The agents only ask the scripted model, twice; the second answer waits until all of them run. Their
number is SNAFFLE_BENCH_ROLLOUTS, 1,000 unless told otherwise.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

ROLLOUTS = int(os.environ.get("SNAFFLE_BENCH_ROLLOUTS", "1000"))
# How long the second answer waits: until as many sandboxes have started on two busy processors.
WAIT_S = 5 + ROLLOUTS * 0.08
RATE_ROLLOUTS = 200  # For the rate: nobody waits, and some are at once.
RATE_AT_ONCE = 8
LIMIT_S = 540
MB = 1024  # of kB


def status_of(pid):
    """kB of memory (resident and swapped) and threads of a process; (0, 0) when it is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    memory = sum(int(fields.get(name, "0").split()[0]) for name in ("VmRSS", "VmSwap"))
    return memory, int(fields.get("Threads", "0"))


def agents_running():
    return sum(1 for path in pathlib.Path("/proc").glob("[0-9]*/comm") if read(path) == "batch_client")


def read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class Watch(threading.Thread):
    """Takes the peaks of a process while it runs."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.memory_kb, self.threads, self.at_once, self.descriptors = pid, 0, 0, 0, 0

    def run(self):
        while True:
            memory, threads = status_of(self.pid)
            if memory == 0:
                return
            self.memory_kb = max(self.memory_kb, memory)
            self.threads = max(self.threads, threads)
            self.at_once = max(self.at_once, agents_running())
            try:
                self.descriptors = max(self.descriptors, len(os.listdir(f"/proc/{self.pid}/fd")))
            except OSError:
                return
            time.sleep(1)


def left_behind(state, mounts_before):
    """Processes of sandboxes, mounts and folders that are there after the end."""
    folders = [p for p in pathlib.Path(state, "sandboxes").glob("*") if p.is_dir()]
    mounts = len(pathlib.Path("/proc/self/mounts").read_text().splitlines()) - mounts_before
    guests = sum(1 for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                 if "snaffle-guest" in read(path) and state in read(path))
    return len(folders) + max(0, mounts) + guests + agents_running()


def script(folder, wait_s):
    path = pathlib.Path(folder, "script.json")
    path.write_text(json.dumps({"scenes": [
        {"when": {"call": 1}, "reply": {"text": "one"}},
        {"when": {"call": 2}, "reply": {"words": 20}, "delay_ms": int(1000 * wait_s)}]}))
    return path


def tasks(folder, rollouts):
    path = pathlib.Path(folder, "tasks.jsonl")
    path.write_text("".join(json.dumps({"task_id": f"t{n}", "instruction": "go"}) + "\n"
                            for n in range(rollouts)))
    return path


def lost_calls(rollouts):
    """Answers that agents had and traces lack: an agent that missed one of its two has not passed."""
    lost = 0
    for rollout in rollouts:
        if rollout["status"] == "ok" and rollout["cause"] is None:
            lines = pathlib.Path(rollout["dir"], "trace.jsonl").read_text().splitlines()
            lost += 2 - sum(json.loads(line)["end"] == "complete" for line in lines)
    return lost


def run_batch(build, url, folder, rollouts, at_once):
    """What the batch says of itself, and what was seen of its process."""
    command = [f"{build}/src/cli/snaffle", "batch", str(tasks(folder, rollouts)), "--concurrency",
               str(at_once), "--agent", "command", "--agent-cmd", "/opt/bench/batch_client",
               "--mount", f"{pathlib.Path(build).resolve()}/bench:/opt/bench", "--base-url", url,
               "--model", "scripted", "--runs", f"{folder}/runs", "--run", "bench", "--json",
               "--quiet", "--retries", "0", "--agent-timeout-s", str(LIMIT_S), "--create-s",
               str(LIMIT_S)]
    environment = {**os.environ, "SNAFFLE_STATE": f"{folder}/state"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        watch = Watch(process.pid)
        watch.start()
        try:
            out, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            raise SystemExit(f"bench: {rollouts} rollouts did not end in {LIMIT_S} s") from None
        watch.join()
    if not out.strip():
        raise SystemExit(f"bench: snaffle batch failed with {process.returncode}")
    return json.loads(out), watch


def batch(build, scripted_model, rollouts, at_once, wait_s):
    """One batch in a folder of its own: its totals, the watch, what was left and what was lost."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # The sandboxes' users pass through it.
        mounts = len(pathlib.Path("/proc/self/mounts").read_text().splitlines())
        model, url = scripted_model(build, folder, script(folder, wait_s))
        try:
            result, watch = run_batch(build, url, folder, rollouts, at_once)
        finally:
            model.terminate()
            model.wait()
        return (result["totals"], watch, left_behind(f"{folder}/state", mounts),
                lost_calls(result["rollouts"]))


def measure(build, scripted_model):
    """`scripted_model(build, folder, script)` gives its process and address."""
    totals, watch, left, lost = batch(build, scripted_model, ROLLOUTS, ROLLOUTS, WAIT_S)
    if totals["causes"]:
        raise SystemExit(f"bench: not every rollout ran as it should: {totals['causes']}")
    quick, _, quick_left, quick_lost = batch(build, scripted_model, RATE_ROLLOUTS, RATE_AT_ONCE, 0)
    return {
        "rollouts": totals["rollouts"],
        "ok": totals["ok"],
        "causes": totals["causes"],
        "at_once": watch.at_once,
        "rollouts_1000_mb": round(watch.memory_kb / MB, 1),
        "wall_s": totals["wall_s"],
        "threads": watch.threads,
        "descriptors": watch.descriptors,
        "rollouts_per_min": quick["rollouts_per_min"],
        "leaked": left + quick_left,
        "lost_calls": lost + quick_lost,
    }
