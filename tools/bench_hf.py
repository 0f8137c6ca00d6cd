# SPDX-License-Identifier: BSD-3-Clause
"""What sandboxes on the Hub cost this side of the wire, against the fake Hub: a sandbox from nothing
and its first command, a command more, what is sent, a thousand sandboxes at once. The official Python
client does the same work beside it, where its package is (tests/requirements.txt).

The number at once is SNAFFLE_BENCH_SANDBOXES, 1,000 unless told otherwise; the client's is a tenth of
it, or SNAFFLE_BENCH_CLIENT_SANDBOXES.
"""
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNT = int(os.environ.get("SNAFFLE_BENCH_SANDBOXES", "1000"))
CLIENT_COUNT = int(os.environ.get("SNAFFLE_BENCH_CLIENT_SANDBOXES", str(max(COUNT // 10, 1))))
HOLD_S = 50  # The command of each of the many: half a minute of it is counted.
SETTLE_S = 15  # After its start.
ROUNDS, TRIPS, UPLOADS = 3, 8, 2  # In turns, so that a busy machine is busy for both.
TOKEN = "hf_benchtoken"
LIMIT_S = 580


class Hub:
    """A fake Hub of its own, while it is needed."""

    def __init__(self, build, folder):
        self.log, port = folder / "log", folder / "port"
        self.process = subprocess.Popen(
            [f"{build}/tests/doubles/hub/snaffle-fake-hub", "--sbx",
             f"{build}/tests/doubles/hub/snaffle-sbx-double", "--token", TOKEN, "--port-file", port,
             "--log", self.log, "--die-with-parent"], stdout=subprocess.DEVNULL)
        while not (port.exists() and port.read_text()):
            if self.process.poll() is not None:
                raise SystemExit("bench: the fake Hub did not start (it needs root)")
            time.sleep(0.05)
        self.url = f"http://127.0.0.1:{port.read_text().strip()}"
        self.env = {**os.environ, "HF_ENDPOINT": self.url, "HF_TOKEN": TOKEN,
                    "HF_HOME": str(folder), "HF_HUB_DISABLE_TELEMETRY": "1",
                    "SNAFFLE_GUEST": f"{build}/src/guest/snaffle-guest"}

    def alive(self):
        with urllib.request.urlopen(f"{self.url}/_state") as answer:
            return json.load(answer)["alive"]

    def requests(self, begin, end):
        """Of both faces, as the Hub counted them, between two times: (of the API, all)."""
        api = all_ = 0
        with open(self.log, encoding="utf-8") as file:
            for line in file:
                event = json.loads(line)
                if event["event"] in ("api", "proxy") and begin <= event["time"] < end:
                    all_ += 1
                    api += event["event"] == "api"
        return api, all_

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def run(hub, *argv):
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=ROOT, env=hub.env,
                          timeout=LIMIT_S)
    if not done.stdout:
        raise SystemExit(f"bench: {argv[1]} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def client_python():
    """An interpreter that has the official client; None where there is none."""
    for python in (ROOT / "build/venv/bin/python", pathlib.Path(sys.executable)):
        found = python.exists() and subprocess.run(
            [python, "-c", "import huggingface_hub"], capture_output=True, check=False)
        if found and found.returncode == 0:
            return str(python)
    return None


def files(build, folder):
    """What is sent to a sandbox whose image has nothing: (name, path)."""
    gateway = pathlib.Path(build, "src/cli/snaffle-gateway")
    packed = folder / "gateway.gz"
    packed.write_bytes(gzip.compress(gateway.read_bytes(), 6))
    done = subprocess.run([f"{build}/src/cli/snaffle", "agent", "install", "opencode", "--json"],
                          check=True, capture_output=True, text=True, cwd=ROOT)
    return (("gateway", packed), ("agent", json.loads(done.stdout)["program"]))


def many(hub, program, count):
    numbers = run(hub, *program, "many", str(count), str(HOLD_S))
    begin = numbers.pop("from") + SETTLE_S
    seconds = numbers.pop("hold_s") - SETTLE_S - 5
    api, all_ = hub.requests(begin, begin + seconds)
    minutes = count * seconds / 60
    return {**numbers, "requests_per_sandbox_min": round(all_ / minutes, 2),
            "hub_requests_per_sandbox_min": round(api / minutes, 3), "leaked": hub.alive()}


def one_round(hub, program, sent):
    numbers = run(hub, *program, "trips", str(TRIPS))
    for name, path in sent:
        numbers[f"{name}_upload_ms"] = run(hub, *program, "upload", str(UPLOADS),
                                           str(path))["upload_ms"]
    return numbers


def medians(rounds):
    return {name: round(statistics.median(r[name] for r in rounds), 2) for name in rounds[0]}


RATIOS = ("create_exec_p50_ms", "exec_p50_ms", "gateway_upload_ms", "agent_upload_ms")


def beside(ours, theirs):
    """The client's figures, and how many times ours its time and memory a sandbox are."""
    ratios = {f"{name.removesuffix('_ms')}_ratio": round(theirs[name] / ours[name], 2)
              for name in RATIOS}
    ratios["mb_each_ratio"] = round((theirs["mb"] / theirs["at_once"]) /
                                    (ours["mb"] / ours["at_once"]), 2)
    return {**{f"client_{name}": value for name, value in theirs.items()}, **ratios}


def measure(build):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        hub = Hub(str(ROOT / build), folder)
        try:
            sent = files(build, folder)
            python = client_python()
            programs = [[f"{build}/bench/hf_bench"]]
            programs += [[python, "bench/hf_client.py"]] if python else []
            rounds = [[one_round(hub, program, sent) for program in programs]
                      for _ in range(ROUNDS)]
            ours, *theirs = [{**medians(each), **many(hub, program, count)} for each, program, count
                             in zip(zip(*rounds), programs, (COUNT, CLIENT_COUNT))]
            return {**ours, **beside(ours, theirs[0])} if theirs else ours
        finally:
            hub.stop()
