#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A coding agent in thirty lines: one tool, bash, until the model has no more calls to make."""
import json
import os
import subprocess
import sys
import urllib.request

TOOL = {"type": "function", "function": {
    "name": "bash", "description": "Run a command in the working folder.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}},
                   "required": ["command"]}}}


def chat(messages):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": [TOOL]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json",
         "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


def run(call):
    command = json.loads(call["function"]["arguments"])["command"]
    done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return {"role": "tool", "tool_call_id": call["id"],
            "content": f"{done.stdout}\n[exit {done.returncode}]"}


messages = [{"role": "user", "content": sys.stdin.read()}]
while True:
    messages.append(chat(messages))
    print(json.dumps(messages[-1]), flush=True)
    if not messages[-1].get("tool_calls"):
        break
    messages += [run(call) for call in messages[-1]["tool_calls"]]
