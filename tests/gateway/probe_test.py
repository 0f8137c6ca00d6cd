#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What 'snaffle gateway probe' says of each engine: probe_test.py SNAFFLE SCRIPTED_MODEL. Speaks TAP."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

SNAFFLE, MODEL = map(os.path.abspath, sys.argv[1:3])
CALL = {"tool_calls": [{"name": "get_time", "arguments": {"city": "Paris"}}]}
SCENES = {"scenes": [{"when": {"tools": True}, "reply": CALL}, {"reply": {"text": "red, fox"}}]}


class Probe(unittest.TestCase):
    def run_probe(self, *args, personality="vllm", **script):
        with tempfile.TemporaryDirectory(prefix="snaffle-probe-") as folder:
            path, port = pathlib.Path(folder, "script.json"), pathlib.Path(folder, "port")
            path.write_text(json.dumps({**SCENES, **script}))
            model = subprocess.Popen([MODEL, "--script", path, "--personality", personality,
                                      "--port-file", port, "--die-with-parent"], stdout=subprocess.PIPE)
            try:
                model.stdout.readline()
                return subprocess.run(
                    [SNAFFLE, "gateway", "probe", "--base-url",
                     f"http://127.0.0.1:{port.read_text().strip()}/v1", *args],
                    capture_output=True, text=True, check=False, cwd=folder)
            finally:
                model.terminate()
                model.wait()
                model.stdout.close()

    def probe(self, *args, **options):
        done = self.run_probe("--json", *args, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertLessEqual(said["calls"], 24)
        return said, {f["code"] for f in said["findings"]}

    def test_vllm_gives_everything_and_raw_log_probabilities(self):
        said, codes = self.probe()
        self.assertEqual((said["engine"], said["level"], said["logprobs"]), ("vllm", "tokens", "raw"))
        self.assertEqual(said["models"], ["scripted"])
        self.assertEqual(said["tools"]["tool_calls"], 1)
        self.assertEqual(codes, {"raw_logprobs"})
        self.assertEqual(said["flags"], ["--neutral-sampling"])

    def test_processed_log_probabilities_are_told_from_raw_ones(self):
        said, codes = self.probe(logprobs_mode="processed")
        self.assertEqual(said["logprobs"], "processed")
        self.assertEqual(said["flags"], ["--logprobs-processed"])
        self.assertEqual(codes, set())

    def test_an_old_vllm_gives_no_ids_of_the_prompt(self):
        said, codes = self.probe(ignore_fields=["return_token_ids"])
        self.assertEqual(said["level"], "logprobs")
        self.assertIn("no_prompt_token_ids", codes)

    def test_sglang(self):
        said, _ = self.probe(personality="sglang")
        self.assertEqual((said["engine"], said["level"]), ("sglang", "tokens"))

    def test_llamacpp_gives_ids_of_the_answer_only_and_with_tools_too(self):
        said, codes = self.probe(personality="llamacpp")
        self.assertEqual((said["engine"], said["level"]), ("llama.cpp", "logprobs"))
        self.assertGreater(said["tools"]["ids"], 0)
        self.assertLessEqual({"no_prompt_token_ids", "token_strings"}, codes)

    def test_openai_refuses_what_it_does_not_know(self):
        said, codes = self.probe(personality="openai")
        self.assertEqual(said["level"], "logprobs")
        self.assertEqual(said["unary"]["refused"], 1)
        self.assertIn("no_completion_token_ids", codes)

    def test_a_reasoning_model_of_openai_gives_only_text(self):
        said, codes = self.probe(personality="openai", model="gpt-5-mini")
        self.assertEqual(said["level"], "text")
        self.assertEqual(said["unary"]["status"], 200)
        self.assertIn("no_logprobs", codes)

    def test_router(self):
        said, _ = self.probe("--engine", "router", personality="router")
        self.assertEqual((said["engine"], said["level"]), ("router", "logprobs"))

    def test_together_is_asked_by_number(self):
        said, _ = self.probe("--engine", "together", personality="together")
        self.assertEqual((said["engine"], said["level"]), ("together", "logprobs"))
        self.assertGreater(said["stream"]["ids"], 0)
        self.assertEqual(said["stream"]["refused"], 0)

    def test_it_speaks_in_plain_words(self):
        done = self.run_probe()
        self.assertIn("answers as vllm", done.stdout)
        self.assertIn("what training needs", done.stdout)
        self.assertIn("flags to use: --neutral-sampling", done.stdout)

    def test_a_wrong_key_and_no_endpoint_are_told(self):
        self.assertIn("refuses the key", self.run_probe(api_key="sk-1").stderr)
        done = subprocess.run([SNAFFLE, "gateway", "probe", "--base-url", "http://127.0.0.1:9/v1"],
                              capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    tap.main()
