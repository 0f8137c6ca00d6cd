#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sandboxes that another process has: a command in one, and an end to one.

sandbox_test.py SNAFFLE SCRIPTED_MODEL
"""
import json
import subprocess
import sys
import time

import harness
from harness import Model, environment, equal, holds, run_cases
from place import PATIENCE_S, Place, await_none, plain_script

HANGS = "echo looked > note; exec sleep 3600"


class Hung:
    """A rollout whose agent hangs, by its process and its sandbox's id."""

    def __init__(self, place, model, name="hung"):
        (place.folder / "t.json").write_text(json.dumps({"instruction": "go"}))
        self.process = place.begin("run", str(place.folder / "t.json"), *model.arguments, "--run",
                                   "r", "--rollout", name, "--retries", "0", agent=HANGS)
        until = time.monotonic() + PATIENCE_S
        while place.call("sandbox", "exec", name, "test", "-e", "workdir/note").code != 0:
            if time.monotonic() > until or self.process.poll() is not None:
                self.process.kill()
                raise AssertionError(f"its agent does not run: {self.process.communicate()}")
            time.sleep(0.05)
        self.id = next(box["id"] for box in place.boxes() if box["rollout"] == name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def a_command_shows_what_a_hung_agent_does():
    with Place() as place, Model(plain_script()) as model, Hung(place, model) as hung:
        def inside(*words):
            return place.call("sandbox", "exec", *words)
        for name in (hung.id, hung.id[:6], "hung", "r/hung"):
            equal(inside(name, "cat", "workdir/note").out, "looked\n", name)
        holds(inside("hung", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").out,
              "sleep 3600")
        equal(inside("hung", "id", "-u").out, "1000\n")
        parts = inside("hung", "sh", "-c", "echo out; echo err >&2; exit 7")
        equal((parts.code, parts.out, parts.err), (7, "out\n", "err\n"))
        equal(inside("hung", "printf", "%s|", "--json", "--", "-x").out, "--json|--|-x|")
        late = inside("--timeout-s", "0.2", "hung", "sleep", "60")
        equal(late.code, 124)
        holds(late.err, "timed out")
        whole = inside("--json", "hung", "sh", "-c", "printf 'a\\377'; exit 3")
        equal(whole.code, 3)
        equal(json.loads(whole.out), {"id": hung.id, "exit_code": 3, "timed_out": False,
                                      "truncated": False, "stdout": "a\ufffd", "stderr": ""})
        equal(hung.process.poll(), None, "the rollout's end")


def output_comes_at_once_and_the_command_ends_with_its_caller():
    with Place() as place, Model(plain_script()) as model, Hung(place, model):
        with subprocess.Popen([harness.PROGRAM, "sandbox", "exec", "hung", "sh", "-c",
                               "echo first; exec sleep 3599"], cwd=place.folder,
                              env=environment(place.env), stdout=subprocess.PIPE) as caller:
            equal(caller.stdout.readline(), b"first\n")
            caller.kill()
        await_none("sleep 3599")


def kill_ends_a_living_one_and_its_rollout_says_so():
    with Place() as place, Model(plain_script()) as model, Hung(place, model) as hung:
        done = place.call("sandbox", "kill", "hung", check=True)
        holds(done.out, f"killed {hung.id} (its owner ")
        out, err = hung.process.communicate(timeout=PATIENCE_S)
        equal(hung.process.returncode, 1, err)
        holds(out, "status      failed, sandbox_lost")
        equal(place.boxes(), [], "sandboxes left")


def kill_removes_what_a_dead_owner_left():
    with Place() as place, Model(plain_script()) as model:
        with Hung(place, model) as hung, Hung(place, model, "other") as other:
            hung.process.kill()
            hung.process.communicate()
            lost = place.call("sandbox", "exec", hung.id, "true")
            equal(lost.code, 1, lost.err)
            holds(lost.err, "has ended")
            done = place.call("sandbox", "kill", "--json", hung.id[:8], check=True)
            equal(json.loads(done.out), [{"id": hung.id, "was_alive": False}])
            equal([box["id"] for box in place.boxes()], [other.id])
        await_none("snaffle-sandbox-" + other.id)
        equal(place.call("sandbox", "kill", other.id, check=True).code, 0)
        equal(place.boxes(), [])


def what_is_not_there_or_not_clear_is_told():
    with Place() as place, Model(plain_script()) as model:
        none = place.call("sandbox", "kill", "nothing")
        equal(none.code, 2)
        holds(none.err, "no sandbox 'nothing' ('snaffle sandbox ls' lists them)")
        equal(place.call("sandbox", "exec", "abc").code, 2)
        with Hung(place, model, "one") as one, Hung(place, model, "two") as two:
            unclear = place.call("sandbox", "exec", "", "true")
            equal(unclear.code, 2, unclear.err)
            both = place.call("sandbox", "kill", "nothing", one.id, two.id)
            equal((both.code, both.out.count("killed ")), (2, 2), both.err)


CASES = [(f.__name__, f) for f in (
    a_command_shows_what_a_hung_agent_does,
    output_comes_at_once_and_the_command_ends_with_its_caller,
    kill_ends_a_living_one_and_its_rollout_says_so,
    kill_removes_what_a_dead_owner_left,
    what_is_not_there_or_not_clear_is_told)]

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
