#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The scripted model's answers have the shape that the engines' own response models give: the same keys in
the same order, null where those are null. shapes_test.py SCRIPTED_MODEL. Speaks TAP."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

MODEL = sys.argv[1]
FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
ASKED = {"vllm": {"return_token_ids": True},
         "sglang": {"return_input_ids_in_sglext": True, "return_output_ids_in_sglext": True}}
# Counted apart by newer ones; what it says is the same.
LOOSE = {"usage", "matched_stop"}


def shape(value):
    if isinstance(value, dict):
        return [(k, None if k in LOOSE else shape(v)) for k, v in value.items()]
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None if value is None else "value"


class Shapes(unittest.TestCase):
    def ask(self, engine, **fields):
        with tempfile.TemporaryDirectory(prefix="snaffle-shapes-") as folder:
            script, port = pathlib.Path(folder, "script.json"), pathlib.Path(folder, "port")
            script.write_text(json.dumps({"otherwise": {"reply": {"text": "ab"}}}))
            model = subprocess.Popen([MODEL, "--script", script, "--personality", engine,
                                      "--port-file", port, "--die-with-parent"], stdout=subprocess.PIPE)
            try:
                model.stdout.readline()
                body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], **fields}
                with urllib.request.urlopen(urllib.request.Request(
                        f"http://127.0.0.1:{port.read_text().strip()}/v1/chat/completions",
                        json.dumps(body).encode(), {"Content-Type": "application/json"})) as answer:
                    return answer.read().decode()
            finally:
                model.terminate()
                model.wait()
                model.stdout.close()

    def check(self, engine, how):
        want = json.loads((FIXTURES / f"{engine}.json").read_text())[how]
        more = {"logprobs": True, "top_logprobs": 1, **ASKED[engine]} if how == "asked" else {}
        self.assertEqual(shape(json.loads(self.ask(engine, **more))), shape(want["unary"]))
        events = [json.loads(line[6:]) for line in self.ask(engine, stream=True, **more).splitlines()
                  if line.startswith("data: {")]
        ends = [e for e in events if e["choices"] and e["choices"][0]["finish_reason"]]
        self.assertEqual(shape(events[0]), shape(want["role"]))
        self.assertEqual(shape(events[1]), shape(want["text"]))
        self.assertEqual(shape(ends[0])[:4], shape(want["last"])[:4])
        last = dict(shape(want["last"])[4][1][0])
        got = dict(shape(ends[0])[4][1][0])
        self.assertEqual(list(got), list(last))
        if "ids" in want:
            self.assertEqual(shape(events[-1]), shape(want["ids"]))

    def test_vllm(self):
        self.check("vllm", "asked")
        self.check("vllm", "plain")

    def test_sglang(self):
        self.check("sglang", "asked")
        self.check("sglang", "plain")


if __name__ == "__main__":
    tap.main()
