#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""engine_check.py against the scripted model in the voice of one engine:
personality_test.py SNAFFLE SCRIPTED_MODEL PERSONALITY. Speaks TAP."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SNAFFLE, MODEL, NAME = sys.argv[1:4]
# What the gateway can't tell by itself on a loopback address, and what each can give.
CONFIGURED = {"openai", "router", "together"}
LEVEL = {"vllm": "tokens", "sglang": "tokens"}
CALL = {"tool_calls": [{"name": "get_time", "arguments": {"city": "Paris"}}], "text": "I look."}
SCRIPT = {"scenes": [{"when": {"tools": True}, "reply": CALL},
                     {"reply": {"text": "red, gr\u00fcn, \U0001f499"}}]}

with tempfile.TemporaryDirectory(prefix="snaffle-voice-") as folder:
    script, port = pathlib.Path(folder, "script.json"), pathlib.Path(folder, "port")
    script.write_text(json.dumps(SCRIPT))
    model = subprocess.Popen([MODEL, "--script", script, "--personality", NAME, "--port-file", port,
                              "--die-with-parent"], stdout=subprocess.PIPE)
    try:
        model.stdout.readline()
        env = {**os.environ, "ENGINE_LEVEL": LEVEL.get(NAME, "logprobs"),
               "ENGINE_NAME": NAME if NAME in CONFIGURED else ""}
        check = pathlib.Path(__file__).with_name("engine_check.py")
        done = subprocess.run([sys.executable, check, SNAFFLE,
                               f"http://127.0.0.1:{port.read_text().strip()}/v1"], env=env, check=False)
    finally:
        model.terminate()
        model.wait()
        model.stdout.close()
raise SystemExit(done.returncode)
