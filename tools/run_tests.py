#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests of a build, counts single cases, and ends with `N passed, N failed`.

run_tests.py [--full] [GROUP]...

A group is a Meson suite (unit, rollout, gateway, sandbox, ...), a folder tests/GROUP with pytest
files, or one of: lint, asan (address and undefined-behaviour sanitizers over the unit tests), tsan
(thread sanitizer over the rooms with threads). No group: all of them. --full adds what is marked
`long`.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import lint
from cases import Case, FAILED, SKIPPED, closing_line, ended, junit_cases, tap_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ("unit", "rollout", "gateway", "sandbox", "server", "python", "web", "fuzz", "engine")
SPECIAL = ("lint", "asan", "tsan")
LONG = "long"
VENV = ROOT / "build" / "venv"
PATH = f"{VENV / 'bin'}:{os.environ['PATH']}"  # Of test programs, not of the build.
OUTPUT_LINES = 60  # Of a failed program: enough for a sanitizer's report with its stack.
SANITIZER_SLOWDOWN = 4  # Factor on time limits; the thread sanitizer is the slowest.
FULL_SLOWDOWN = 2  # Big counts on a small machine.
TSAN_ROOMS = ("base", "net", "journal", "gateway", "agent", "store", "train", "rollout",
              "server")
# A developer's own endpoints must not reach a test.
FOREIGN_ENV = ("OPENAI_", "VLLM_", "HF_ROUTER_", "SNAFFLE_", "E2B_", "HF_TOKEN")


def clean_env(extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN_ENV)}
    env["ASAN_OPTIONS"] = "abort_on_error=0:detect_stack_use_after_return=1"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    env["TSAN_OPTIONS"] = "halt_on_error=1:second_deadlock_stack=1"
    env.update(extra or {})
    return env


class Build:
    """A Meson build folder."""

    def __init__(self, name, *options):
        self.dir = ROOT / name
        self.options = options

    def configure(self):
        """Sets the folder up when it is new; gives a Case when that fails."""
        if (self.dir / "build.ninja").exists():
            return None
        return self._run("configure", ["meson", "setup", str(self.dir), *self.options])

    def make(self, targets=()):
        return self._run("build", ["ninja", "-C", str(self.dir), *targets])

    def _run(self, what, argv):
        log = ROOT / "build" / f"{self.dir.name}-{what}.log"
        log.parent.mkdir(exist_ok=True)
        with open(log, "wb") as out:
            code = subprocess.run(argv, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
                                  env=clean_env(), check=False).returncode
        if code == 0:
            return None
        return Case(f"{what} of {self.dir.name}", FAILED, tail(log.read_text(errors="replace")))

    def introspect(self, what):
        out = subprocess.run(["meson", "introspect", what, str(self.dir)], cwd=ROOT, check=True,
                             capture_output=True, text=True).stdout
        return json.loads(out)

    def tests(self):
        tests = self.introspect("--tests")
        for test in tests:
            test["suite"] = {s.split(":", 1)[-1] for s in test["suite"]}
            test["workdir"] = test["workdir"] or str(self.dir)  # As `meson test` does.
        return tests

    def targets_of(self, tests):
        """What ninja must build for these tests."""
        wanted = {dep for test in tests for dep in test["depends"]}
        files = [f for t in self.introspect("--targets") if t["id"] in wanted for f in t["filename"]]
        return [os.path.relpath(f, self.dir) for f in files]


def tail(text, lines=OUTPUT_LINES):
    kept = text.splitlines()[-lines:]
    return "\n".join("    " + line for line in kept)


def run_program(test, label, slowdown):
    """Runs one test program; gives its cases and prints one line."""
    started = time.monotonic()
    limit = None if test["timeout"] <= 0 else test["timeout"] * slowdown
    out, err, code = run_limited(
        test["cmd"], test["workdir"], clean_env({"PATH": PATH, **test["env"]}), limit)
    name = label + test["name"]
    if test["protocol"] == "tap":
        cases = tap_cases(name, out, code)
    elif code == 77:  # The exit status that stands for "skipped" among programs without TAP.
        cases = [Case(name, SKIPPED, out.strip().splitlines()[-1] if out.strip() else "")]
    else:
        cases = [Case(name, "passed" if code == 0 else FAILED, "" if code == 0 else ended(code))]
    bad = [case for case in cases if case.status == FAILED]
    if bad:
        bad[0].detail = "\n".join(filter(None, [bad[0].detail, tail(out), tail(err)]))
    took = time.monotonic() - started
    print(f"{'FAIL' if bad else 'ok  '} {name} ({len(cases)} cases, {took:.1f} s)", flush=True)
    return cases


def run_limited(argv, cwd, env, limit_s):
    """Output, errors and exit status; None for the status when the time limit passed."""
    child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace", start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit_s)
        return out, err, child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        return out, err, None


def run_programs(tests, label="", slowdown=1):
    """In parallel, and then those that must be alone."""
    side_by_side = [t for t in tests if t["is_parallel"]]
    alone = [t for t in tests if not t["is_parallel"]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda t: run_program(t, label, slowdown), side_by_side))
    found += [run_program(t, label, slowdown) for t in alone]
    return [case for cases in found for case in cases]


def install_agent(build):
    """OpenCode from npm, into the state directory, unless it is there. Without it the tests that
    need it are skipped, and say so."""
    done = subprocess.run([str(build.dir / "src/cli/snaffle"), "agent", "install", "opencode",
                           "--quiet"], env=clean_env(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"no opencode for the tests: {done.stderr.strip()}")


def run_main(groups, full):
    """The plain build's programs."""
    build = Build("build")
    failed = build.configure() or build.make()
    if failed:
        return [failed]
    install_agent(build)
    prepare_python()
    if not groups or "server" in groups:
        prepare_node()
    tests = [t for t in build.tests()
             if (not groups or t["suite"] & groups) and (full or LONG not in t["suite"])]
    return run_programs(tests, slowdown=FULL_SLOWDOWN if full else 1)


def run_sanitized(name, option, wanted):
    """Unit tests, and those of a suite of its name, under a sanitizer in a build folder of its own."""
    build = Build(f"build-{name}", f"-Db_sanitize={option}", "-Db_lundef=false")
    failed = build.configure()
    if failed:
        return [failed]
    tests = [t for t in build.tests()
             if t["protocol"] == "tap" and t["suite"] & {"unit", name} and LONG not in t["suite"]
             and t["depends"] and wanted(t)]
    failed = build.make(build.targets_of(tests))
    if failed:
        return [failed]
    return run_programs(tests, label=f"{name}: ", slowdown=SANITIZER_SLOWDOWN)


def run_asan():
    return run_sanitized("asan", "address,undefined", lambda test: True)


def run_tsan():
    return run_sanitized("tsan", "thread", lambda test: test["name"].split("/")[0] in TSAN_ROOMS)


def python_groups():
    return {p.parent.relative_to(ROOT / "tests").parts[0] for p in ROOT.glob("tests/*/test_*.py")}


def prepare_python():
    """The Python packages of tests/requirements.txt, in an environment of their own under build/,
    and those of tests/requirements-NAME.txt (each pinned whole), each in a folder
    build/packages-NAME of its own.

    Where they can't be had, the tests that need one say so and are skipped.
    """
    pip = str(VENV / "bin/pip")
    wanted = ROOT / "tests" / "requirements.txt"
    python_packages(wanted, VENV, ["/usr/bin/python3", "-m", "venv", "--system-site-packages",
                                   str(VENV)], [pip, "install", "-q", "-r", str(wanted)])
    for more in sorted((ROOT / "tests").glob("requirements-*.txt")):
        place = ROOT / "build" / more.stem.replace("requirements", "packages")
        python_packages(more, place, [pip, "install", "-q", "--no-deps", "--upgrade", "--target",
                                      str(place), "-r", str(more)])


def python_packages(wanted, place, *commands):
    """Runs the commands, which bring what the file `wanted` names to `place`, unless it is there."""
    stamp = place / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return
    for argv in commands:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"no Python packages for {wanted.name}: {tail(done.stderr, lines=1).strip()}")
            return
    stamp.write_text(wanted.read_text())


def prepare_node():
    """The npm packages of tests/server/package.json, in build/node. Where they can't be had, the
    tests that need them say so and are skipped."""
    wanted = ROOT / "tests" / "server"
    place = ROOT / "build" / "node"
    lock = (wanted / "package-lock.json").read_text()
    stamp = place / "installed.json"
    if stamp.exists() and stamp.read_text() == lock:
        return
    place.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(wanted / name, place)
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(place)]
    try:
        subprocess.run(argv, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        print(f"no npm packages: {tail(getattr(why, 'stderr', None) or str(why), lines=1).strip()}")
        return
    stamp.write_text(lock)


def run_python(group):
    """pytest over tests/GROUP."""
    report = ROOT / "build" / f"pytest-{group}.xml"
    report.unlink(missing_ok=True)
    done = subprocess.run([str(VENV / "bin/python"), "-m", "pytest", "-q", f"--junitxml={report}",
                           str(ROOT / "tests" / group)], cwd=ROOT, env=clean_env(),
                          capture_output=True, text=True, check=False)
    cases = junit_cases(group, report.read_text()) if report.exists() else []
    if done.returncode != 0 and not any(case.status == FAILED for case in cases):
        cases.append(Case(f"{group} (pytest)", FAILED, tail(done.stdout + done.stderr)))
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} pytest {group} ({len(cases)} cases)")
    return cases


def known_groups():
    return {*SUITES, *SPECIAL} | python_groups()


def run(groups, full):
    cases = []
    if not groups or groups - set(SPECIAL):
        cases += run_main(groups, full)
    for group in sorted(python_groups()):
        if not groups or group in groups:
            cases += run_python(group)
    for name, step in (("lint", lint.run_all), ("asan", run_asan), ("tsan", run_tsan)):
        if not groups or name in groups:
            cases += step()
    return cases


def report(cases):
    for case in cases:
        if case.status == SKIPPED:
            print(f"skipped: {case.name}: {case.detail or 'no reason given'}")
    for case in cases:
        if case.status == FAILED:
            print(f"failed: {case.name}")
            if case.detail:
                print(case.detail)
    if not cases:
        print("no test ran: this group has none yet")
    print(closing_line(cases), flush=True)
    failed = any(case.status == FAILED for case in cases)
    return 1 if failed or not cases else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also the long ones")
    parser.add_argument("group", nargs="*")
    args = parser.parse_args()
    unknown = set(args.group) - known_groups()
    if unknown:
        print(f"dev: error: no test group '{sorted(unknown)[0]}' (there are: "
              f"{' '.join(sorted(known_groups()))})", file=sys.stderr)
        return 2
    return report(run(set(args.group), args.full))


if __name__ == "__main__":
    sys.exit(main())
