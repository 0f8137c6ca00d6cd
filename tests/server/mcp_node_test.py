#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The official MCP clients of npm (the SDK, the Inspector's command line) against the tool.

mcp_node_test.py SNAFFLE SCRIPTED_MODEL PACKAGES. Speaks TAP. What the SDK does stands in mcp_sdk.mjs.
"""
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
SNAFFLE, MODEL = sys.argv[1:3]
PACKAGES = pathlib.Path(sys.argv[3]).resolve()
sys.path[:0] = [str(TESTS), str(TESTS / "server")]
import tap  # noqa: E402

tap.need("jsonschema")
from ground import DO, WAIT, Ground, check_result  # noqa: E402

INSPECTOR = PACKAGES / "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"
PATIENCE_S = 120

if not shutil.which("node"):
    tap.skip_all("no node here")
if not INSPECTOR.exists():
    tap.skip_all("the packages of tests/server/package.json are not here")

GROUND = Ground(SNAFFLE, MODEL)


def node(*args):
    done = subprocess.run(["node", *map(str, args)], capture_output=True, text=True,
                          cwd=GROUND.folder, env=GROUND.environment(), timeout=PATIENCE_S,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"node ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Clients:
    """For each transport: `config` is what the SDK's scene takes, `target` what the Inspector does."""

    def setUp(self):
        if GROUND.lacks:
            self.skipTest(GROUND.lacks)

    def scene(self, name, arguments=None):
        seen = json.loads(node(TESTS / "server/mcp_sdk.mjs", PACKAGES, name,
                               json.dumps({**self.config(), "arguments": arguments})))
        self.assertEqual(seen["errors"], [])
        return seen

    def inspect(self, *args):
        return json.loads(node(INSPECTOR, "--cli", *self.target(), *args))

    def test_the_sdk_lists_the_tool(self):
        seen = self.scene("list")
        self.assertEqual(seen["server"]["name"], "snaffle")
        self.assertEqual([t["name"] for t in seen["tools"]], ["run_rollout"])

    def test_the_sdk_has_a_whole_rollout_with_progress(self):
        seen = self.scene("rollout", DO)
        check_result(seen["result"]["content"][0]["text"])
        self.assertIs(seen["result"]["isError"], False)
        numbers = [p["progress"] for p in seen["progress"]]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertTrue(any("verify [2/2]" in p["message"] for p in seen["progress"]))
        GROUND.until_empty()

    def test_the_sdk_has_a_whole_rollout_without_progress(self):
        check_result(self.scene("plain", DO)["result"]["content"][0]["text"])

    def test_the_sdk_gets_a_wrong_argument_as_a_result(self):
        seen = self.scene("plain", {**DO, "mode": "nonsense"})
        self.assertIs(seen["result"]["isError"], True)
        self.assertIn("mode: 'nonsense'", seen["result"]["content"][0]["text"])

    def test_the_sdk_cancels_and_goes_on(self):
        seen = self.scene("cancel", WAIT)
        self.assertIn("enough", seen["cancelled"])
        self.assertEqual(seen["after"], 1)
        GROUND.until_empty()

    def test_the_inspector_lists_the_tool(self):
        self.assertEqual([t["name"] for t in self.inspect("--method", "tools/list")["tools"]],
                         ["run_rollout"])

    def test_the_inspector_calls_the_tool(self):
        args = [f"{name}={value if isinstance(value, str) else json.dumps(value)}"
                for name, value in DO.items()]
        result = self.inspect("--method", "tools/call", "--tool-name", "run_rollout",
                              "--tool-arg", *args)
        check_result(result["content"][0]["text"])


class OverStdio(Clients, unittest.TestCase):
    def config(self):
        return {"command": GROUND.program, "args": ["mcp", *GROUND.flags()],
                "env": GROUND.environment()}

    def target(self):
        # The Inspector takes flags of its own from the command's: they go through a script.
        script = GROUND.folder / "mcp.sh"
        script.write_text("#!/bin/sh\nexec " + shlex.join([GROUND.program, "mcp", *GROUND.flags()]))
        script.chmod(0o755)
        return [script]


class OverHttp(Clients, unittest.TestCase):
    def config(self):
        return {"url": GROUND.url}

    def target(self):
        return [GROUND.url, "--transport", "http"]

    def test_the_sdk_has_a_session_of_its_own(self):
        first, second = self.scene("list"), self.scene("list")
        self.assertEqual(len(first["session"]), 32)
        self.assertNotEqual(first["session"], second["session"])


try:
    tap.main()
finally:
    GROUND.close()
