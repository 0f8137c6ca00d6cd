#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `snaffle image dockerfile` prints, and whether the Dockerfiles here are sound:
dockerfile_test.py SNAFFLE. Speaks TAP."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import steps

sys.path.insert(0, str(steps.ROOT / "tests"))
import tap  # noqa: E402

SNAFFLE = os.path.abspath(sys.argv[1])
TEXT = steps.SANDBOX.read_text()


class Printed(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.state = pathlib.Path(scratch.name)
        self.state.chmod(0o711)

    def snaffle(self, *args):
        return subprocess.run([SNAFFLE, *args], capture_output=True, text=True, check=False,
                              cwd=self.state, env={**os.environ, "SNAFFLE_STATE": str(self.state)})

    def printed(self, *args):
        done = self.snaffle("image", "dockerfile", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refused(self, *args):
        done = self.snaffle("image", "dockerfile", *args)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr.strip()

    def put_agent(self, version, content=b"#!/bin/sh\n"):
        folder = self.state / "agents" / "opencode" / version
        folder.mkdir(parents=True)
        (folder / "opencode").write_bytes(content)
        (folder / "opencode").chmod(0o755)
        digest = hashlib.sha256(content).hexdigest()
        (folder / "installed.json").write_text(json.dumps({"version": version, "sha256": digest}))
        return digest

    def changed(self, text):
        """The lines that differ from the file, as ARG pairs."""
        old, new = TEXT.splitlines(), text.splitlines()
        self.assertEqual(len(old), len(new))
        return dict(b.removeprefix("ARG ").split("=", 1) for a, b in zip(old, new) if a != b)

    def test_1_without_options_it_prints_the_file(self):
        self.assertEqual(self.printed(), TEXT)

    def test_2_the_pinned_agent_is_the_one_that_snaffle_installs(self):
        agents = {a["agent"]: a for a in json.loads(self.snaffle("agent", "ls", "--json").stdout)}
        found = steps.defaults(TEXT)
        self.assertEqual(found["AGENT_VERSION"], agents[found["AGENT"]]["default_version"])
        self.assertRegex(found["AGENT_SHA256"], "^[0-9a-f]{64}$")

    def test_3_its_digest_is_that_of_the_program_as_npm_gives_it(self):
        """Against the program that the other tests installed."""
        done = subprocess.run([SNAFFLE, "agent", "ls", "--json"], capture_output=True, text=True,
                              check=True)
        found = [a["installed"] for a in json.loads(done.stdout) if a["agent"] == "opencode"][0]
        if not found:
            self.skipTest("opencode is not installed here")
        digest = hashlib.sha256(pathlib.Path(found["program"]).read_bytes()).hexdigest()
        self.assertEqual(steps.defaults(TEXT)["AGENT_SHA256"], digest)

    def test_4_another_base_changes_one_line(self):
        self.assertEqual(self.changed(self.printed("--base", "debian:12")), {"BASE": "debian:12"})

    def test_5_another_version_comes_with_the_digest_of_what_is_installed(self):
        digest = self.put_agent("1.99.0")
        self.assertEqual(self.changed(self.printed("--agent-version", "1.99.0")),
                         {"AGENT_VERSION": "1.99.0", "AGENT_SHA256": digest})

    def test_6_what_cannot_be_pinned_is_refused_with_the_remedy(self):
        code, line = self.refused("--agent-version", "1.98.0")
        self.assertEqual(code, 3)
        self.assertIn("run 'snaffle agent install opencode --version 1.98.0'", line)
        self.put_agent("1.97.0")
        (self.state / "agents/opencode/1.97.0/installed.json").unlink()
        code, line = self.refused("--agent-version", "1.97.0")
        self.assertEqual(code, 2)
        self.assertIn("--again", line)

    def test_7_nothing_foreign_gets_into_the_file(self):
        for base in ("debian:12\nRUN rm -rf /", "a b", "-x", "x" * 300):
            code, line = self.refused(f"--base={base}")
            self.assertEqual((code, "is no image's name" in line), (2, True), base)
        for agent in ("command", "fly"):
            self.assertEqual(self.refused("--agent", agent)[0], 2)


class Sound(unittest.TestCase):
    def test_8_the_linter_has_nothing_to_say_of_the_dockerfiles(self):
        hadolint = shutil.which("hadolint")
        if not hadolint:
            self.skipTest("no hadolint here (tests/requirements.txt)")
        files = sorted((steps.ROOT / "images").glob("*/Dockerfile"))
        self.assertIn(steps.SANDBOX, files)
        done = subprocess.run([hadolint, "--no-color", *files], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.stdout, done.returncode), ("", 0))

    def test_9_they_build_on_a_base_that_can_be_chosen_and_copy_nothing_from_elsewhere(self):
        for file in (steps.ROOT / "images").glob("*/Dockerfile"):
            found = steps.read(file.read_text())
            words = [word for word, _ in found]
            self.assertEqual(words[:2], ["ARG", "FROM"], file)
            self.assertEqual([rest for word, rest in found if word == "FROM"], ["${BASE}"], file)
            self.assertNotIn("ADD", words, file)


if __name__ == "__main__":
    tap.main()
