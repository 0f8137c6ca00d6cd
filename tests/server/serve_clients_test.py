#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""OpenEnv's own clients: serve_clients_test.py SNAFFLE MODEL PACKAGES... Speaks TAP.

Each folder of PACKAGES holds a version of the client, or what it needs; the first is found first.
"""
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402
from served import ASKS, Place, lacks_sandbox, until, use_packages  # noqa: E402

SNAFFLE, MODEL = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PACKAGES = [os.path.abspath(p) for p in sys.argv[3:]]
for place in reversed(PACKAGES):
    if not use_packages(place):
        tap.skip_all(f"no packages in {pathlib.Path(place).name}")
from openenv.core import GenericEnvClient, MCPToolClient  # noqa: E402

LACKS = lacks_sandbox(SNAFFLE)
LONG_S = 41  # Twice the clients' 20 s between pings, and a little.
ROOT = pathlib.Path(__file__).resolve().parents[2]


def cli(*args):
    return subprocess.run([sys.executable, "-m", "openenv.cli", *args], capture_output=True,
                          text=True, check=False,
                          env={**os.environ, "PYTHONPATH": ":".join(PACKAGES), "COLUMNS": "200"})


def has_opencode():
    out = subprocess.run([SNAFFLE, "agent", "ls", "--json"], capture_output=True, text=True,
                         check=False).stdout
    return '"opencode"' in out


class Case(unittest.TestCase):
    def setUp(self):
        self.place = Place(SNAFFLE, MODEL)
        self.addCleanup(self.place.close)


class Clients(Case):
    def test_generic_client(self):
        s = self.place.serve()
        with GenericEnvClient(base_url=s.url).sync() as env:
            got = env.reset(episode_id="mine")
            self.assertFalse(got.done)
            self.assertIsNone(got.reward)
            got = env.step({"type": "list_tools"})
            self.assertEqual([t["name"] for t in got.observation["tools"]], ["run_rollout"])
            self.assertEqual(env.state()["episode_id"], "mine")
            with self.assertRaisesRegex(RuntimeError, "VALIDATION_ERROR"):
                env.step({"type": "dance"})
            self.assertEqual(env.state()["step_count"], 0)

    def test_tool_client_sync(self):
        s = self.place.serve()
        with MCPToolClient(base_url=s.url).sync() as env:
            env.reset()
            tools = env.list_tools()
            self.assertEqual([t.name for t in tools], ["run_rollout"])
            self.assertIn("instruction", tools[0].input_schema["properties"])
            with self.assertRaisesRegex(RuntimeError, "instruction: is missing"):
                env.call_tool("run_rollout", instruction="")
            with self.assertRaisesRegex(RuntimeError, "Unknown tool: 'dance'"):
                env.call_tool("dance")
            self.assertGreaterEqual(env.state().step_count, 1)

    def test_tool_client_async(self):
        s = self.place.serve()

        async def use():
            async with MCPToolClient(base_url=s.url) as env:
                await env.reset(episode_id="mine")
                self.assertEqual([t.name for t in await env.list_tools()], ["run_rollout"])
                state = await env.state()
                self.assertEqual((state.episode_id, state.step_count), ("mine", 0))
        asyncio.run(use())

    def test_production_client(self):
        s = self.place.serve("--openenv-mode", "production", env={"MAX_CONCURRENT_ENVS": "2"})

        async def use():
            client = MCPToolClient(base_url=s.url)
            client.use_production_mode = True
            async with client as env:
                self.assertEqual([t.name for t in await env.list_tools()], ["run_rollout"])
                with self.assertRaisesRegex(RuntimeError, "instruction"):
                    await env.call_tool("run_rollout", instruction="")
        for _ in range(5):  # More than there are places: each gives its own back.
            asyncio.run(use())

    def test_capacity_reaches_the_client(self):
        s = self.place.serve(env={"MAX_CONCURRENT_ENVS": "1"})
        with GenericEnvClient(base_url=s.url).sync() as env:
            env.reset()
            with self.assertRaisesRegex(RuntimeError, "CAPACITY_REACHED"):
                with GenericEnvClient(base_url=s.url).sync() as other:
                    other.reset()

    def test_key_in_the_path(self):
        s = self.place.serve(env={"SNAFFLE_SERVE_KEY": "serve-key-0123456789"})
        with GenericEnvClient(base_url=f"{s.url}/k/serve-key-0123456789").sync() as env:
            self.assertFalse(env.reset().done)
        with self.assertRaises(Exception):
            with GenericEnvClient(base_url=s.url).sync() as env:
                env.reset()

    def test_validate(self):
        as_json = ["--json"] if "--json" in cli("validate", "--help").stdout else []
        for mode in ("simulation", "production"):
            s = self.place.serve("--openenv-mode", mode)
            done = cli("validate", "--url", s.url, *as_json)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            report = json.loads(done.stdout[done.stdout.index("{"):])
            self.assertTrue(report["passed"])
            self.assertEqual(report["mode"], mode)


@unittest.skipIf(LACKS, LACKS)
class Rollouts(Case):
    def test_rollout_through_call_tool(self):
        s = self.place.serve(agent=ASKS)
        call = self.place.call(verify=["test -e done", "false"], task_id="half")
        with MCPToolClient(base_url=s.url, message_timeout_s=120).sync() as env:
            env.reset()
            result = json.loads(env.call_tool("run_rollout", **call))
            self.assertEqual((result["task_id"], result["reward"]), ("half", 0.5))
            self.assertEqual(len(result["proxy_turns"]), 1)
            turn = result["proxy_turns"][0]
            self.assertEqual(len(turn["completion_token_ids"]), len(turn["per_token_logps"]))
            self.assertEqual(env.state().step_count, 1)

    def test_long_rollout_with_pinging_client(self):
        s = self.place.serve(agent=f"sleep {LONG_S}")
        started = time.monotonic()
        with MCPToolClient(base_url=s.url, message_timeout_s=180).sync() as env:
            env.reset()
            result = json.loads(env.call_tool("run_rollout", **self.place.call()))
        self.assertGreater(time.monotonic() - started, 40)
        self.assertEqual(result["agent_exit_code"], 0)

    @unittest.skipUnless(has_opencode(), "no opencode is installed")
    def test_whole_rollout_of_opencode(self):
        example = ROOT / "examples/binary_search"
        task = json.loads((example / "task.json").read_text())
        self.place.model.kill()
        (self.place.folder / "model.json").write_text((example / "model_script.json").read_text())
        self.place.model.start()
        verify = ["python3 -c 'from search import binary_search as b; "
                  "assert b([1, 3, 5], 5) == 2 and b([1, 3], 2) == -1'"]
        s = self.place.serve(agent=None, own_state=False)
        call = self.place.call(instruction=task["instruction"], verify=verify, task_id="search")
        with MCPToolClient(base_url=s.url, message_timeout_s=300).sync() as env:
            env.reset()
            result = json.loads(env.call_tool("run_rollout", **call))
        self.assertEqual((result["error"], result["reward"]), (None, 1.0))
        self.assertGreater(len(result["proxy_turns"]), 1)
        self.assertIn("search.py", " ".join(result["files"]))

    def test_client_that_vanishes(self):
        s = self.place.serve(agent="sleep 120", env={"MAX_CONCURRENT_ENVS": "1"})
        script = ("import sys\nfrom openenv.core import MCPToolClient\n"
                  "import json\nwith MCPToolClient(base_url=sys.argv[1]).sync() as env:\n"
                  "    print('here', flush=True)\n"
                  "    env.call_tool('run_rollout', **json.loads(sys.argv[2]))\n")
        client = subprocess.Popen(
            [sys.executable, "-c", script, s.url, json.dumps(self.place.call())],
            env={**os.environ, "PYTHONPATH": ":".join(PACKAGES)}, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.assertEqual(client.stdout.readline(), b"here\n")  # Its packages take their time.
        until(lambda: len(self.place.boxes()) == 1, "the sandbox")
        client.kill()
        client.wait()
        client.stdout.close()
        until(lambda: not self.place.boxes(), "the sandbox's end")

        def is_free():
            try:
                with GenericEnvClient(base_url=s.url).sync() as env:
                    return not env.reset().done
            except RuntimeError:
                return False
        until(is_free, "a place")


if __name__ == "__main__":
    tap.main()
