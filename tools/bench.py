#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the measuring programs of a release build.

bench.py BUILD [NAME] [--json] [--markdown] [--quick] [--backend local|hf]

A program under bench/ prints one JSON object of numbers. `rollout` puts together what a rollout
costs: {create_exec_p50_ms, create_exec_p99_ms, create_exec_disk_p50_ms, own_ms, gateway_start_ms}.
`batch` runs a thousand at once (bench_batch.py); `gateway` sets the gateway beside other forwarders
(bench_gateway.py; --quick: shorter rounds; --markdown: the tables of docs/performance.md);
`server` sets `snaffle serve` beside a FastAPI app (bench_server.py); `sandbox --backend hf` is what sandboxes on the Hub cost (bench_hf.py). No NAME: all of them.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import bench_batch
import bench_gateway
import bench_hf
import bench_server

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = "examples/binary_search"
ROLLOUTS = 3  # The median of three; each takes some seconds, nearly all of them the agent's.
ROLLOUT_FIELDS = ("create_exec_p50_ms", "create_exec_p99_ms", "create_exec_disk_p50_ms", "own_ms",
                  "gateway_start_ms")


def programs(build):
    out = subprocess.run(["meson", "introspect", "--benchmarks", build], check=True,
                         capture_output=True, text=True, cwd=ROOT).stdout
    return {b["name"]: b for b in json.loads(out)}


def run_program(benchmark):
    done = subprocess.run(benchmark["cmd"], check=False, capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, **benchmark["env"]})
    if done.returncode != 0:
        raise SystemExit(f"bench: {benchmark['name']} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def scripted_model(build, folder, script=f"{EXAMPLE}/model_script.json"):
    """Starts it; gives the process and its address."""
    port = pathlib.Path(folder, "port")
    process = subprocess.Popen(
        [f"{build}/tests/doubles/snaffle-scripted-model", "--script",
         str(script), "--port-file", str(port), "--die-with-parent"],
        cwd=ROOT, stdout=subprocess.DEVNULL)
    while not (port.exists() and port.read_text()):
        if process.poll() is not None:
            raise SystemExit("bench: the scripted model did not start")
        time.sleep(0.05)
    return process, f"http://127.0.0.1:{port.read_text().strip()}/v1"


def rollout_own_ms(snaffle, url, runs):
    """From the program's start to its end, less what the agent and the task's commands took."""
    began = time.monotonic()
    done = subprocess.run([snaffle, "run", EXAMPLE, "--base-url", url, "--model", "scripted",
                           "--runs", runs, "--json", "--quiet"],
                          check=False, capture_output=True, text=True, cwd=ROOT)
    wall_s = time.monotonic() - began
    if done.returncode != 0:
        raise SystemExit(f"bench: the demo's rollout failed: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    others_s = result["agent_ran_s"] + sum(
        c["duration_s"] for c in result["setup_results"] + result["verify_results"])
    return 1000 * (wall_s - others_s)


def own_ms(build):
    snaffle = f"{build}/src/cli/snaffle"
    subprocess.run([snaffle, "agent", "install", "opencode", "--quiet"], check=True, cwd=ROOT)
    with tempfile.TemporaryDirectory() as folder:
        model, url = scripted_model(build, folder)
        try:
            return statistics.median(rollout_own_ms(snaffle, url, folder)
                                     for _ in range(ROLLOUTS))
        finally:
            model.terminate()
            model.wait()


def rollout(build, known):
    numbers = {}
    for name in ("sandbox", "gateway_start"):
        numbers.update(run_program(known[name]))
    numbers["own_ms"] = round(own_ms(build), 1)
    return {field: numbers[field] for field in ROLLOUT_FIELDS}


TOGETHER = {  # What is put together here, beside the programs.
    "rollout": rollout,
    "batch": lambda build, known: bench_batch.measure(build, scripted_model),
    "gateway": lambda build, known: bench_gateway.measure(
        build, run_program(known["gateway_start"])["gateway_start_ms"], sys.argv),
    "server": lambda build, known: bench_server.measure(build),
    "sandbox-hf": lambda build, known: bench_hf.measure(build),
}


def take_backend(words):
    """The words without --backend NAME; `sandbox` of another backend than local has its own name."""
    if "--backend" not in words:
        return words
    at = words.index("--backend")
    backend = words[at + 1] if at + 1 < len(words) else ""
    if backend not in ("local", "hf") or "sandbox" not in words:
        raise SystemExit("dev: error: want bench sandbox --backend local|hf")
    rest = words[:at] + words[at + 2:]
    return rest if backend == "local" else [w if w != "sandbox" else "sandbox-hf" for w in rest]


def main():
    build = sys.argv[1]
    words = take_backend(sys.argv[2:])
    names = [a for a in words if not a.startswith("--")]
    flags = [a for a in words if a.startswith("--")]
    known = programs(build)
    for name in names:
        if name not in TOGETHER and name not in known:
            print(f"dev: error: nothing to measure is called '{name}' (there are: "
                  f"{' '.join([*sorted(known), *TOGETHER])})", file=sys.stderr)
            return 2
    unknown = [f for f in flags if f not in ("--json", "--markdown", "--quick")]
    if unknown:
        print(f"dev: error: bench does not know '{unknown[0]}'", file=sys.stderr)
        return 2
    all_numbers = {}
    for name in names or [*sorted(known), *TOGETHER]:
        numbers = (TOGETHER[name](build, known) if name in TOGETHER
                   else run_program(known[name]))
        all_numbers[name] = numbers
        if not {"--json", "--markdown"} & set(flags):
            for field, value in numbers.items():
                print(f"{name:16} {field:28} {value}")
    if "--json" in flags:
        print(json.dumps(all_numbers[names[0]] if len(names) == 1 else all_numbers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
