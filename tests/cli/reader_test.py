#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Readers of other programs over what real rollouts leave: trainers over trace.jsonl, the reference's
result over result.json.

reader_test.py SNAFFLE SCRIPTED_MODEL
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import harness
from harness import SOURCE, Model, Skip, equal, holds, run_cases, snaffle

# An agent: it sends the bodies that its instruction lists, one after the other, whatever comes.
AGENT = r"""
import http.client, json, os, urllib.request
for body in json.load(open("bodies.json")):
    call = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    try:
        with urllib.request.urlopen(call) as answer:
            answer.read()
            print(answer.status)
    except urllib.error.HTTPError as error:
        error.read()  # Who leaves before the end is another case.
        print(error.code)
    except (OSError, http.client.HTTPException) as error:
        print("broken off")
"""
TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]


def body(text, **more):
    return {"model": "scripted", "tools": TOOLS, "max_tokens": 200,
            "messages": [{"role": "user", "content": text}], **more}


class Rollout:
    """One rollout of these bodies: its result and the lines of its trace."""

    def __init__(self, scenes, bodies, *flags, verify=("true",)):
        folder = pathlib.Path(tempfile.mkdtemp(dir=harness.SCRATCH.name))
        script = folder / "script.json"
        script.write_text(json.dumps({"scenes": scenes}))
        task = {"instruction": "go", "verify": list(verify),
                "files": {"agent.py": AGENT, "bodies.json": json.dumps(bodies)}}
        with Model(script) as model:
            ran = snaffle("run", "t.json", *model.arguments, "--agent", "command", "--agent-cmd",
                          "exec python3 agent.py", "--run", "reader", "--rollout", "r", "--quiet",
                          *flags, files={"t.json": json.dumps(task)})
        self.folder = ran.folder
        self.dir = ran.folder / "runs/reader/r"
        if not (self.dir / "result.json").exists():
            raise Skip(ran.err.strip()) if ran.code == 3 else AssertionError(ran.err)
        self.result = json.loads((self.dir / "result.json").read_text())
        with open(self.dir / "trace.jsonl", encoding="utf-8") as lines:
            self.turns = [json.loads(line) for line in lines]
        self.codes = {f["code"] for f in self.result["findings"]}


def roles(rollout):
    return [(t["role"], t["trainable"]) for t in rollout.turns]


# --- readers, by what each of them is documented to look at ---

def first_generation(entries):
    """The rows that the first reader of such traces makes: prompts rendered anew, lengths trusted."""
    rows = []
    for entry in entries:
        messages = entry.get("request", {}).get("messages") or []
        response = entry.get("response")
        if not messages or not response:
            continue
        message = response["choices"][0]["message"] if response["choices"] else {}
        ids = entry.get("completion_token_ids") or [
            int(t.removeprefix("token_id:")) for t in entry.get("completion_tokens", [])
            if t.startswith("token_id:")]
        logps = entry.get("per_token_logps") or [0.0] * len(ids)
        if len(logps) != len(ids):
            raise AssertionError(f"turn {entry['turn']}: {len(ids)} ids, {len(logps)} values")
        for call in message.get("tool_calls") or []:
            holds(call["function"], "name")
            json.loads(call["function"]["arguments"])
        rows.append((messages, entry["request"].get("tools"), message.get("content"), ids, logps))
    return rows


class CaptureContractError(AssertionError):
    """What stops the newest reader's worker."""


def newest_generation(entries):
    """The newest reader's samples; it stops at the first that is not exact."""
    samples = []
    for entry in entries:
        prompt, ids = entry["prompt_token_ids"], entry["completion_token_ids"]
        logps = entry["per_token_logps"]
        mask = [0] * len(prompt) + [1] * len(ids)
        for good, what in ((prompt, "no prompt ids"), (ids, "no completion ids"),
                           (len(ids) == len(logps), "lengths differ"),
                           (all(type(i) is int and i >= 0 for i in prompt + ids), "an id"),
                           (all(type(p) in (int, float) and math.isfinite(p) and p <= 0
                                for p in logps), "a log-probability")):
            if not good:
                raise CaptureContractError(f"turn {entry['turn']}: {what}")
        samples.append({"input_ids": prompt + ids, "loss_mask": mask,
                        "logprobs": [0.0] * len(prompt) + logps})
    return samples


NUMBER = (int, float)
NONE = type(None)
RESULT_FIELDS = {
    "task_id": str, "sandbox_id": str, "reward": (*NUMBER, NONE), "agent_exit_code": (int, NONE),
    "wall_s": NUMBER, "mode": str, "setup_results": list, "verify_results": list,
    "proxy_turns": list, "files": dict, "files_extra": list, "agent_log_tail": str,
    "proxy_log_tail": str, "error": (str, NONE)}
TURN_FIELDS = {
    "turn": int, "finish_reason": (str, NONE), "completion_tokens": list,
    "completion_token_ids": list, "per_token_logps": list, "latency_s": NUMBER,
    "timestamp": NUMBER, "upstream_status": (int, NONE), "upstream_error": (str, NONE)}
COMMAND_FIELDS = {"cmd": str, "exit_code": int, "stdout": str, "stderr": str, "duration_s": NUMBER}


def typed(value, fields):
    for name, kinds in fields.items():
        if not isinstance(value[name], kinds) or isinstance(value[name], bool):
            raise AssertionError(f"{name}: {value[name]!r}")


def reference_result(result):
    typed(result, RESULT_FIELDS)
    for command in result["setup_results"] + result["verify_results"]:
        typed(command, COMMAND_FIELDS)
    for turn in result["proxy_turns"]:
        typed(turn, TURN_FIELDS)
        equal(len(turn["completion_token_ids"]), len(turn["per_token_logps"]), "ids and values")
        equal({type(i) for i in turn["completion_token_ids"]} - {int}, set())
        equal({type(p) for p in turn["per_token_logps"]} - {int, float}, set())


def usable(rollout):
    return [t for t in rollout.turns if t["role"] == "agent" and t["trainable"]]


CALLS = [{"when": {"user_has": "tool"},
          "reply": {"text": "I look.", "tool_calls": [{"name": "ls", "arguments": {"path": "."}}]}},
         {"reply": {"reasoning": "Let me think.", "text": "Done, \u00e9 and \U0001f600."}}]


# --- the cases ---

def every_reader_takes_a_whole_rollout():
    r = Rollout(CALLS, [body("tool"), body("end"), body("stream", stream=True),
                        body("tool stream", stream=True)], "--logprobs-processed")
    equal(roles(r), [("agent", True)] * 4)
    equal(r.result["capture_level"], "tokens")
    equal(r.result["reward"], 1.0)
    reference_result(r.result)
    rows = first_generation(r.turns)
    samples = newest_generation(r.turns)
    equal((len(rows), len(samples)), (4, 4))
    for turn, listed, sample in zip(r.turns, r.result["proxy_turns"], samples):
        equal(turn["per_token_logps"], listed["per_token_logps"])
        equal(turn["completion_token_ids"], listed["completion_token_ids"])
        equal(len(turn["prompt_token_ids"]), listed["n_prompt"])
        equal(len(sample["input_ids"]), len(sample["loss_mask"]))
        equal(sum(sample["loss_mask"]), turn["usage"]["completion_tokens"])
        equal(len(turn["completion_tokens"]), len(turn["completion_token_ids"]))
    equal([t["findings"] for t in r.turns], [[]] * 4)


def what_is_not_exact_is_never_trainable():
    scenes = [{"when": {"user_has": "nan"}, "bad_logprob": "NaN", "reply": {"text": "one two"}},
              {"when": {"user_has": "null"}, "bad_logprob": "null", "reply": {"text": "one two"}},
              {"when": {"user_has": "infinite"}, "bad_logprob": "-Infinity", "reply": {"text": "one two"}},
              {"when": {"user_has": "lost"}, "no_ids_from": 3, "reply": {"text": "one two three"}},
              {"when": {"user_has": "none"}, "no_ids_from": 0, "reply": {"text": "one two three"}},
              {"when": {"user_has": "open"}, "finish_reason": None, "reply": {"text": "one"}},
              {"when": {"user_has": "engine"}, "finish_reason": "abort", "reply": {"text": "one"}},
              {"reply": {"text": "one"}}]
    # The last: after it the gateway asks for ids in another way.
    words = ("good", "nan", "null", "infinite", "lost", "open", "engine", "none")
    r = Rollout(scenes, [body(w, stream=True) for w in words], "--logprobs-processed")
    want = ("nonfinite_logprob", "null_logprob", "nonfinite_logprob", "ids_incomplete",
            "no_finish_reason", "engine_abort", "no_sampled_ids")
    for turn, code in zip(r.turns[1:], want):
        holds(turn["findings"], code)
    equal([t["trainable"] for t in r.turns], [True] + [False] * 7)
    equal(len(newest_generation(usable(r))), 1)
    for code in want:
        holds(r.codes, code)


def a_failed_call_is_discarded_and_equal_bodies_that_were_answered_stay():
    scenes = [{"when": {"user_has": "again"}, "times": 1, "fault": {"kind": "status", "status": 503}},
              {"reply": {"text": "Yes."}}]
    r = Rollout(scenes, [body("again")] * 3, "--logprobs-processed")
    equal(roles(r), [("discarded", False), ("agent", True), ("agent", True)])
    equal([t["parent"] for t in r.turns], [None] * 3)
    equal([t["end"] for t in r.turns], ["error", "complete", "complete"])
    holds(r.codes, "discarded_turns")
    equal(len(newest_generation(usable(r))), 2)


def a_loop_is_broken_by_the_flag_and_the_result_says_so():
    scenes = [{"fault": {"kind": "status", "status": 503}}]
    r = Rollout(scenes, [body("same")] * 6, "--loop-break", "2", "--loop-break-s", "100")
    equal(len(r.turns), 3)
    equal([t["status"] for t in r.turns], [503] * 3)
    equal(r.result["agent_log_tail"].split(), ["503"] * 3 + ["400"] * 3)
    holds(r.codes, "loop_broken")
    holds(r.codes, "nothing_trainable")
    detail = [f["detail"] for f in r.result["findings"] if f["code"] == "loop_broken"]
    equal(detail, ["3 requests were refused"])
    r = Rollout(scenes, [body("same")] * 6)
    equal(len(r.turns), 6, "calls without the flag")


def flags_and_the_configuration_say_policy_sampling_and_engine():
    bodies = [body("end", temperature=1, top_p=0.9, presence_penalty=0.5)]
    r = Rollout(CALLS, bodies, "--neutral-sampling", "--policy-version", "step-41")
    turn = r.turns[0]
    equal(turn["policy_version"], "step-41")
    equal(turn["sampling"]["asked"]["top_p"], 0.9)
    equal({k: turn["sampling"]["sent"][k] for k in ("top_p", "top_k", "presence_penalty", "temperature")},
          {"top_p": 1, "top_k": -1, "presence_penalty": 0, "temperature": 1})
    equal((turn["trainable"], turn["findings"]), (True, ["sampling_neutralised"]))
    r = Rollout(CALLS, [body("end")], "--engine", "llama.cpp")
    equal((r.turns[0]["engine"], "return_token_ids" in r.turns[0]["request"]), ("llama.cpp", False))
    config = pathlib.Path(tempfile.mkdtemp(dir=harness.SCRATCH.name)) / "config.json"
    config.write_text(json.dumps({"policy_version": "step-42", "neutral_sampling": True,
                                  "loop_break_calls": 1, "loop_break_s": 30, "engine": "vllm"}))
    r = Rollout(CALLS, bodies, "--config", str(config))
    equal((r.turns[0]["policy_version"], r.turns[0]["trainable"]), ("step-42", True))
    equal(r.turns[0]["engine"], "vllm")
    r = Rollout(CALLS, bodies)
    equal((r.turns[0]["policy_version"], r.turns[0]["trainable"]), (None, False))
    equal(r.turns[0]["findings"], ["raw_logprobs"])
    r = Rollout(CALLS, bodies, "--logprobs-processed")
    equal((r.turns[0]["trainable"], r.turns[0]["findings"]), (True, ["biased_sampling"]))


def sampling_that_is_not_the_policy_s_is_told_in_every_mode():
    bodies = [body("end", response_format={"type": "json_object"}), body("end", temperature=0),
              body("end", guided_regex="a+"), body("end", tool_choice="auto")]
    r = Rollout(CALLS, bodies, "--logprobs-processed")
    equal([t["findings"] for t in r.turns],
          [["constrained_decoding"], ["greedy_sampling"], ["constrained_decoding"], []])
    equal([t["trainable"] for t in r.turns], [False, False, False, True])


def an_agent_without_a_call_leaves_an_empty_trace_and_a_finding():
    r = Rollout(CALLS, [])
    equal(r.turns, [])
    holds(r.codes, "no_turns")
    equal(r.result["capture_level"], None)


def what_a_rollout_leaves_fits_the_schemas():
    scenes = [{"when": {"user_has": "busy"}, "fault": {"kind": "status", "status": 503}},
              {"when": {"user_has": "gone"}, "fault": {"kind": "reset", "after_events": 1},
               "reply": {"text": "one two three"}},
              {"when": {"user_has": "nan"}, "bad_logprob": "NaN", "reply": {"text": "one two"}},
              *CALLS]
    r = Rollout(scenes, [body(w, stream=True, top_p=0.5)
                         for w in ("busy", "gone", "nan", "tool", "end")], "--neutral-sampling")
    equal([t["end"] for t in r.turns],
          ["error", "upstream_abort", "complete", "complete", "complete"])
    python = os.environ.get("SNAFFLE_TEST_PYTHON", sys.executable)
    for schema, name in (("trace", "trace.jsonl"), ("result", "result.json"), ("task", "task.json")):
        done = subprocess.run([python, str(SOURCE / "tests/schema.py"),
                               str(SOURCE / f"docs/schema/{schema}.schema.json"), str(r.dir / name)],
                              capture_output=True, text=True, check=False)
        if "no Python package" in done.stderr:
            raise Skip(done.stderr.strip())
        equal((done.returncode, done.stdout.strip()), (0, ""), name)


def findings_are_explained_where_a_turn_is_shown():
    r = Rollout(CALLS, [body("end", temperature=0)])
    shown = snaffle("show", "r", "--turn", "1", folder=r.folder, check=True).out
    holds(shown, "not trainable")
    holds(shown, "greedy_sampling")
    holds(shown, "the likeliest token was taken")
    holds(shown, "raw_logprobs")
    whole = snaffle("show", "r", folder=r.folder, check=True).out
    holds(whole, "nothing_trainable")
    if "\x1b" in shown + whole:
        raise AssertionError("colour without a terminal")


CASES = [(f.__name__, f) for f in (
    every_reader_takes_a_whole_rollout, what_is_not_exact_is_never_trainable,
    a_failed_call_is_discarded_and_equal_bodies_that_were_answered_stay,
    a_loop_is_broken_by_the_flag_and_the_result_says_so,
    flags_and_the_configuration_say_policy_sampling_and_engine,
    sampling_that_is_not_the_policy_s_is_told_in_every_mode,
    an_agent_without_a_call_leaves_an_empty_trace_and_a_finding,
    what_a_rollout_leaves_fits_the_schemas,
    findings_are_explained_where_a_turn_is_shown)]

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
