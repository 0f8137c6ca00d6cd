#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`show` and `trace` while the agent makes its calls: what they read grows, and is whole each time.

growing_test.py SNAFFLE SCRIPTED_MODEL
"""
import json
import shlex
import subprocess
import sys
import time

import harness
from harness import Model, equal, run_cases
from place import PATIENCE_S, Place

CALLS = 300
READS_MIN = 5  # Of each kind, while the rollout runs: fewer would have seen no growth.

# An agent: streamed and whole answers in turn, over one connection.
AGENT = "python3 -c " + shlex.quote(f"""
import http.client, json, os, urllib.parse
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
conn = http.client.HTTPConnection(url.hostname, url.port)
for i in range({CALLS}):
    body = {{"model": "scripted", "stream": i % 2 == 1,
             "messages": [{{"role": "user", "content": f"call {{i + 1}}"}}]}}
    conn.request("POST", url.path + "/chat/completions", json.dumps(body),
                 {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}})
    conn.getresponse().read()
""")


def read_trace(place):
    """The turns of `trace`; each line is whole, their order that of the calls."""
    lines = place.call("trace", "grow/r", check=True).out.splitlines()
    turns = [json.loads(line) for line in lines]
    equal([t["turn"] for t in turns], list(range(1, len(turns) + 1)))
    equal([t["request"]["messages"][0]["content"] for t in turns],
          [f"call {i + 1}" for i in range(len(turns))])
    equal({t["end"] for t in turns[:-1]} - {"complete"}, set(), "ends before the last")
    return len(turns)


def read_show(place):
    shown = json.loads(place.call("show", "grow/r", "--json", check=True).out)
    return len(shown["turns"])


def show_and_trace_read_a_journal_that_grows():
    with Place() as place:
        script = place.folder / "script.json"
        script.write_text(json.dumps({"scenes": [{"delay_ms": 10, "reply": {"text": "Yes."}}]}))
        (place.folder / "t.json").write_text(json.dumps({"instruction": "go", "verify": ["true"]}))
        with Model(script) as model:
            run = place.begin("run", "t.json", *model.arguments, "--run", "grow", "--rollout", "r",
                              "--quiet", agent=AGENT)
            try:
                counts = read_while_it_runs(place, run)
            finally:
                if run.poll() is None:
                    run.terminate()
                _, errors = run.communicate(timeout=PATIENCE_S)
        equal(run.returncode, 0, errors)
        equal((read_trace(place), read_show(place)), (CALLS, CALLS), "turns in the end")
        for kind, seen in counts.items():
            equal(seen, sorted(seen), f"turns that {kind} gave, one reading after the other")
            if len(set(seen)) < READS_MIN:
                raise AssertionError(f"{kind} saw no growth: {seen}")
        print(f"# readings: {({kind: len(seen) for kind, seen in counts.items()})}")


def read_while_it_runs(place, run):
    counts = {"trace": [], "show": []}
    begun = place.folder / "runs/grow/journal"
    until = time.monotonic() + PATIENCE_S
    while run.poll() is None and not (begun.exists() and any(begun.rglob("*.log"))):
        if time.monotonic() > until:
            raise AssertionError("no call came")
        time.sleep(0.01)
    while run.poll() is None:
        counts["trace"].append(read_trace(place))
        counts["show"].append(read_show(place))
    return counts


if __name__ == "__main__":
    sys.exit(run_cases([(f.__name__, f) for f in (show_and_trace_read_a_journal_that_grows,)]))
