#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The official MCP client for Python against the tool, in the real local sandbox.

mcp_python_test.py SNAFFLE SCRIPTED_MODEL PACKAGES. Speaks TAP.
"""
import asyncio
import json
import pathlib
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
SNAFFLE, MODEL, PACKAGES = sys.argv[1:4]
sys.path[:0] = [PACKAGES, str(TESTS), str(TESTS / "server")]
import tap  # noqa: E402

tap.need("jsonschema")
from ground import DO, WAIT, Ground, check_result  # noqa: E402

tap.need("mcp")
from mcp import Client, MCPError, StdioServerParameters  # noqa: E402

GROUND = Ground(SNAFFLE, MODEL)
PATIENCE_S = 60


class Clients:
    """For each transport: client() gives one."""

    def setUp(self):
        if GROUND.lacks:
            self.skipTest(GROUND.lacks)

    async def test_the_newest_client_falls_back_to_a_version_that_both_know(self):
        async with self.client() as client:
            self.assertEqual(client.protocol_version, "2025-11-25")
            self.assertEqual(client.server_info.name, "snaffle")

    async def test_the_one_tool_is_listed_with_its_arguments(self):
        async with self.client(mode="legacy") as client:
            (tool,) = (await client.list_tools()).tools
            self.assertEqual(tool.name, "run_rollout")
            self.assertIn("seconds", tool.description)
            self.assertEqual(tool.input_schema["properties"]["agent_timeout_s"]["default"], 600)
            await client.send_ping()

    async def test_a_whole_rollout_with_its_progress(self):
        told = []

        async def on_progress(progress, total, message):
            told.append((progress, total, message))

        async with self.client() as client:
            result = await client.call_tool("run_rollout", DO, progress_callback=on_progress,
                                            read_timeout_seconds=PATIENCE_S)
            self.assertFalse(result.is_error)
            check_result(result.content[0].text)
            self.assertEqual(result.structured_content, {"result": result.content[0].text})
        numbers = [progress for progress, _, _ in told]
        self.assertEqual(numbers, sorted(set(numbers)))
        words = " ".join(message for _, _, message in told)
        for phase in ("sandbox", "agent running", "verify [1/2]", "collecting", "tearing down"):
            self.assertIn(phase, words)
        self.assertEqual(GROUND.secrets(), [])
        GROUND.until_empty()

    async def test_the_prompt_s_ids_come_when_they_are_asked_for(self):
        async with self.client() as client:
            result = await client.call_tool("run_rollout", {**DO, "include_prompt_ids": True},
                                            read_timeout_seconds=PATIENCE_S)
            turn = check_result(result.content[0].text)["proxy_turns"][0]
            self.assertEqual(len(turn["prompt_token_ids"]), turn["n_prompt"])
            self.assertGreater(turn["n_prompt"], 0)

    async def test_wrong_arguments_are_results_that_say_so(self):
        async with self.client() as client:
            for arguments, words in (({}, "instruction"), ({**DO, "mode": "x"}, "mode: 'x'"),
                                     ({**DO, "nonsense": 1}, "nonsense"),
                                     ({**DO, "backend": "e3b"}, "backend: 'e3b'"),
                                     ({**DO, "network": "full"}, "--allow network=full"),
                                     ({**DO, "base_url": "http://169.254.169.254/v1",
                                       "model": "m"}, "link-local")):
                result = await client.call_tool("run_rollout", arguments)
                self.assertTrue(result.is_error, arguments)
                self.assertIn(words, result.content[0].text)
            with self.assertRaises(MCPError):
                await client.call_tool("reset", {})

    async def test_a_cancelled_call_ends_its_sandbox_and_the_session_goes_on(self):
        running = asyncio.Event()

        async def on_progress(_progress, _total, message):
            if message.startswith("agent running"):
                running.set()

        async with self.client() as client:
            call = asyncio.create_task(client.call_tool("run_rollout", WAIT,
                                                        progress_callback=on_progress))
            await asyncio.wait_for(running.wait(), PATIENCE_S)
            self.assertEqual(len(GROUND.boxes()), 1)
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(GROUND.until_empty)
            self.assertEqual(len((await client.list_tools()).tools), 1)

    async def test_calls_side_by_side_each_have_their_own_answer(self):
        async with self.client() as client:
            tasks = [{**DO, "task_id": f"side-{i}"} for i in range(3)]
            results = await asyncio.gather(*(
                client.call_tool("run_rollout", t, read_timeout_seconds=PATIENCE_S) for t in tasks))
            for task, result in zip(tasks, results):
                self.assertEqual(json.loads(result.content[0].text)["task_id"], task["task_id"])
                self.assertEqual(json.loads(result.content[0].text)["reward"], 0.5)

    async def test_a_client_that_goes_away_leaves_nothing_behind(self):
        running = asyncio.Event()

        async def on_progress(_progress, _total, message):
            if message.startswith("agent running"):
                running.set()

        async with self.client() as client:
            call = asyncio.create_task(client.call_tool("run_rollout", WAIT,
                                                        progress_callback=on_progress))
            await asyncio.wait_for(running.wait(), PATIENCE_S)
        with self.assertRaises((MCPError, asyncio.CancelledError)):
            call.cancel()
            await call
        GROUND.until_empty()


class OverStdio(Clients, unittest.IsolatedAsyncioTestCase):
    def client(self, **options):
        server = StdioServerParameters(command=GROUND.program, args=["mcp", *GROUND.flags()],
                                       env=GROUND.environment(), cwd=str(GROUND.folder))
        return Client(server, **options)


class OverHttp(Clients, unittest.IsolatedAsyncioTestCase):
    def client(self, **options):
        return Client(GROUND.url, **options)


try:
    tap.main()
finally:
    GROUND.close()
