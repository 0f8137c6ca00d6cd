#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What bad input gets: one line that names file, field and remedy, the exit status, nothing made."""
import json
import socket
import sys

from harness import Skip, equal, holds, run_cases, snaffle

TASK = {"instruction": "do it"}
MODEL = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m"]


def bad(name, line, code, *args, files=None, env=None, stdin=""):
    """A case: the command line, and the one line it must print."""
    def case():
        files_now = {"t.json": json.dumps(TASK)} if files is None else files
        result = snaffle("run", *args, files=files_now, env=env, stdin=stdin)
        equal(result.err.count("\n"), 1, "lines on standard error")
        holds(result.err, line)
        equal(result.err[:16], "snaffle: error: ", "start of the line")
        equal(result.out, "", "standard output")
        equal(result.code, code, "exit status")
        equal(result.made(), sorted(files_now), "files made")
    return (name, case)


def task(name, line, text):
    text = text if isinstance(text, str) else json.dumps(text)
    return bad(f"a task {name} is refused", line, 2, "t.json", *MODEL, files={"t.json": text})


TASKS = [
    task("with an unknown field", "t.json: unknown field 'instrution' (did you mean 'instruction'?)",
         {"instrution": "x"}),
    task("without an instruction", "t.json: instruction: is missing (say what the agent is to do)",
         {}),
    task("with an empty instruction", "t.json: instruction: is empty", {"instruction": " "}),
    task("with a wrong type", "t.json: limits: agent_s: want a number, got a string",
         {**TASK, "limits": {"agent_s": "long"}}),
    task("with a command that is none", "t.json: setup[0]: want a command, got a number",
         {**TASK, "setup": [1]}),
    task("that is no JSON", "t.json line 1 column 1: no valid JSON", "{"),
    task("that is a list", "t.json: want", []),
    task("with an unknown network", "t.json: network: unknown word 'lan' (use none, model or full)",
         {**TASK, "network": "lan"}),
    task("with a file out of its place", "t.json: files:", {**TASK, "files": {"../x": "y"}}),
    bad("a missing task is refused", "cannot open 'none.json'", 2, "none.json", *MODEL),
    bad("a folder without a task is refused", "task.json", 2, ".", *MODEL),
    bad("a task from standard input is named so", "stdin: instruction: is missing", 2, "-", *MODEL,
        stdin="{}"),
]

SETTINGS = [
    bad("a model is needed", "run: which model? give --endpoint vllm|openai|hf_router, or "
        "--base-url with --model", 2, "t.json"),
    bad("an address without a model is refused", "no model", 2, "t.json", "--base-url",
        "http://127.0.0.1:9/v1"),
    bad("vllm needs its address", "vllm: no base_url", 2, "t.json", "--endpoint", "vllm"),
    bad("openai needs its key", "openai: no api_key", 2, "t.json", "--endpoint", "openai"),
    bad("a key's variable that is not set is named", "NO_SUCH_KEY", 2, "t.json", *MODEL,
        "--api-key-env", "NO_SUCH_KEY"),
    bad("a configuration with an unknown field is refused",
        "c.json: unknown field 'modle' (did you mean 'model'?)", 2, "t.json", "--config", "c.json",
        *MODEL, files={"t.json": json.dumps(TASK), "c.json": '{"modle": "x"}'}),
    bad("a bad run name is refused", "'No Good'", 2, "t.json", *MODEL, "--run", "No Good"),
    bad("an address that is none is refused", "not-a-url", 2, "t.json", "--base-url", "not-a-url",
        "--model", "m"),
]


def sandboxes_work():
    """Else what follows can't be seen."""
    report = json.loads(snaffle("doctor", "--json").out)
    lacks = [f["text"] for f in report["findings"]
             if f["name"] == "sandbox" and f["state"] != "ok"]
    if lacks:
        raise Skip("; ".join(lacks))


def an_endpoint_that_is_not_there_is_found_before_any_sandbox():
    sandboxes_work()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    result = snaffle("run", "t.json", "--base-url", url, "--model", "m", "--agent", "command",
                     "--agent-cmd", "true", files={"t.json": json.dumps(TASK)})
    equal((result.code, result.out, result.made()), (3, "", ["t.json"]))
    equal(result.err.count("\n"), 1)
    holds(result.err, f"snaffle: error: no model endpoint answers at '{url}'")


def an_agent_that_is_not_installed_is_found_before_any_sandbox():
    sandboxes_work()
    result = snaffle("run", "t.json", *MODEL, "--opencode-version", "0.0.1",
                     files={"t.json": json.dumps(TASK)})
    equal((result.code, result.out, result.made()), (3, "", ["t.json"]))
    holds(result.err, "snaffle agent install opencode")


def no_bwrap_is_told_with_the_remedy():
    result = snaffle("run", "t.json", *MODEL, files={"t.json": json.dumps(TASK)},
                     env={"PATH": "/nonexistent"})
    equal((result.code, result.out, result.made()), (3, "", ["t.json"]))
    equal(result.err.count("\n"), 1)
    holds(result.err, "bubblewrap")


def doctor_prints_one_json_object():
    result = snaffle("doctor", "--json")
    report = json.loads(result.out)
    equal(sorted(report), ["findings", "ok"])
    equal(result.code, 0 if report["ok"] else 3)
    for finding in report["findings"]:
        equal(sorted(finding), ["name", "remedy", "state", "text"])


def doctor_says_of_each_limit_who_holds_it():
    if json.loads(snaffle("doctor", "--json").out)["findings"][2]["state"] != "ok":
        raise Skip("no sandbox can be made here")
    found = snaffle("doctor", "--json", env={"SNAFFLE_LOCAL_WITHOUT": "cgroup loop"})
    texts = {f["text"].split(":")[0]: (f["state"], f["text"])
             for f in json.loads(found.out)["findings"] if f["name"] == "isolation"}
    equal(texts["processes"], ("ok", "processes: enforced: RLIMIT_NPROC"))
    for limit, word in (("memory", "memory: watchdog: "), ("disk", "disk: counted: ")):
        equal(texts[limit][0], "note")
        holds(texts[limit][1], word)


def doctor_names_what_lacks_and_exits_3():
    result = snaffle("doctor", env={"PATH": "/nonexistent"})
    equal(result.code, 3)
    holds(result.out, "apt-get install bubblewrap")


def looking_at_runs_that_are_not_there_makes_nothing():
    for args in (["ls"], ["show", "x"], ["trace", "x"]):
        result = snaffle(*args)
        equal((result.code, result.out, result.made()), (2, "", []))
        holds(result.err, "there are no runs in './runs'")


CASES = TASKS + SETTINGS + [
    (f.__name__, f) for f in (
        an_endpoint_that_is_not_there_is_found_before_any_sandbox,
        an_agent_that_is_not_installed_is_found_before_any_sandbox,
        no_bwrap_is_told_with_the_remedy, doctor_prints_one_json_object,
        doctor_says_of_each_limit_who_holds_it,
        doctor_names_what_lacks_and_exits_3, looking_at_runs_that_are_not_there_makes_nothing)]

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
