#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The sandbox image, built by podman from its Dockerfile over Debian's smallest system, and run:
podman_test.py SNAFFLE GUEST GATEWAY DEBIAN. Speaks TAP."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import steps
from podman import BASE, LIMITS, Podman

sys.path.insert(0, str(steps.ROOT / "tests"))
import tap  # noqa: E402

SNAFFLE, GUEST, GATEWAY, DEBIAN = (os.path.abspath(path) for path in sys.argv[1:5])
IMAGE = "localhost/snaffle-sandbox:1"
scratch = tempfile.TemporaryDirectory(prefix="snaffle-podman-")
FOLDER = pathlib.Path(scratch.name)
podman = Podman(FOLDER)


def agent():
    done = subprocess.run([SNAFFLE, "agent", "install", "opencode", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tap.skip_all(done.stderr.strip())
    return json.loads(done.stdout)["program"]


class Image(unittest.TestCase):
    def test_1_it_builds(self):
        (FOLDER / "context").mkdir()
        steps.put_context(FOLDER / "context", GUEST, GATEWAY, agent())
        done = podman.build(FOLDER / "context", IMAGE)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_2_what_it_should_hold_works_without_a_network(self):
        version = steps.defaults(steps.SANDBOX.read_text())["AGENT_VERSION"]
        with open(steps.SANDBOX.parent / "smoke.sh", encoding="utf-8") as smoke:
            done = podman("run", "--rm", "-i", "--network=none", *LIMITS, IMAGE, "sh", "-s",
                          version, stdin=smoke)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()],
                         ["snaffle-guest", "snaffle-gateway", version, "/usr/bin/curl"])

    def test_3_its_labels_name_the_agent(self):
        done = podman("image", "inspect", IMAGE)
        labels = json.loads(done.stdout)[0]["Config"]["Labels"]
        found = steps.defaults(steps.SANDBOX.read_text())
        self.assertEqual((labels["snaffle.agent"], labels["snaffle.agent.version"]),
                         (found["AGENT"], found["AGENT_VERSION"]))

    def test_4_the_agent_is_in_it_once(self):
        """A step that touched the program would have kept a second copy of it in its layer."""
        done = podman("image", "inspect", IMAGE, BASE)
        image, base = (i["Size"] for i in json.loads(done.stdout))
        programs = sum((FOLDER / "context" / name).stat().st_size
                       for name in ("opencode", "snaffle-gateway", "snaffle-guest"))
        self.assertLess(image - base, 1.5 * programs)


if __name__ == "__main__":
    reason = podman.why_not(DEBIAN)
    if reason:
        tap.skip_all(reason)
    tap.main()
