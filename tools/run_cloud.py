#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The contract of a sandbox backend on its real cloud: run_cloud.py hf

It costs money, little and bounded (tests/sandbox/hf_cloud_test.c), so it runs only when it is asked
for, and with HF_TOKEN set; without, one case is skipped. At the end what is left is swept, and counts
as a failure if it lives on.
"""
import json
import os
import subprocess
import sys

import run_tests
from cases import Case, FAILED, PASSED, SKIPPED, tap_cases

PROGRAMS = {"test": "tests/sandbox/hf_cloud_test", "snaffle": "src/cli/snaffle",
            "guest": "src/guest/snaffle-guest"}
RUN = "contract"  # The label of its sandboxes.
LIMIT_S = 3000
NO_TOKEN = ("HF_TOKEN is not set: a token of an account that may run jobs, and has credit for some "
            "minutes of cpu-basic")


def environment(guest):
    """The token and the endpoint reach it, and nothing else of a developer's own."""
    named = {k: v for k, v in os.environ.items() if k.startswith("HF_") and "ROUTER" not in k}
    return run_tests.clean_env({**named, "SNAFFLE_GUEST": guest})


def left_over(snaffle, env):
    """Ends what this machine's dead processes left; gives the ids of what lives on."""
    subprocess.run([snaffle, "gc", "--backend", "hf", "--run", RUN], env=env, check=True)
    listed = subprocess.run([snaffle, "sandbox", "ls", "--backend", "hf", "--run", RUN, "--json"],
                            env=env, check=True, capture_output=True, text=True).stdout
    return [entry["id"] for entry in json.loads(listed)]


def run(programs):
    """The cases, for programs by the names of PROGRAMS."""
    if not os.environ.get("HF_TOKEN"):
        return [Case("cloud/hf", SKIPPED, NO_TOKEN)]
    env = environment(programs["guest"])
    out, err, code = run_tests.run_limited([programs["test"]], str(run_tests.ROOT), env, LIMIT_S)
    print("\n".join(line for line in out.splitlines() if line.startswith("# ")))
    cases = tap_cases("cloud/hf", out, code)
    if any(case.status == FAILED for case in cases):
        print(run_tests.tail(out) + run_tests.tail(err))
    try:
        left = left_over(programs["snaffle"], env)
        last = Case("cloud/hf: nothing is left", FAILED if left else PASSED, " ".join(left))
    except (subprocess.CalledProcessError, ValueError) as error:
        last = Case("cloud/hf: nothing is left", FAILED, f"it can't be told: {error}")
    return [*cases, last]


def main():
    if sys.argv[1:] != ["hf"]:
        print("dev: error: want ./dev test cloud hf", file=sys.stderr)
        return 2
    build = run_tests.Build("build")
    failed = build.configure() or build.make(PROGRAMS.values())
    return run_tests.report([failed] if failed else run(
        {name: str(build.dir / path) for name, path in PROGRAMS.items()}))


if __name__ == "__main__":
    sys.exit(main())
