#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The server image, built by podman over Debian's smallest system, and run:
server_test.py SNAFFLE GUEST GATEWAY DEBIAN. Speaks TAP."""
import os
import pathlib
import shutil
import sys
import tempfile
import time
import unittest

import steps
from podman import LIMITS, Podman

sys.path.insert(0, str(steps.ROOT / "tests"))
import tap  # noqa: E402

SNAFFLE, GUEST, GATEWAY, DEBIAN = (os.path.abspath(path) for path in sys.argv[1:5])
SERVER = steps.ROOT / "images" / "server"
IMAGE, NAME, KEY = "localhost/snaffle-server:1", "server", "the-key"
START_S = 30
scratch = tempfile.TemporaryDirectory(prefix="snaffle-podman-")
FOLDER = pathlib.Path(scratch.name)
podman = Podman(FOLDER)


class Image(unittest.TestCase):
    def start(self, *more):
        return podman("run", "-d", "--name", NAME, "--network=none", *LIMITS, "-e",
                      "HF_TOKEN=hf_testtoken", *more, IMAGE)

    def inside(self, *command):
        return podman("exec", NAME, *command)

    def tearDown(self):
        podman("rm", "-f", "-t", "0", "-i", NAME)

    def await_health(self):
        deadline = time.monotonic() + START_S
        while podman("healthcheck", "run", NAME).returncode != 0:
            if time.monotonic() > deadline:
                self.fail(f"it never got healthy: {podman('logs', NAME).stdout}")
            time.sleep(0.2)

    def test_1_it_builds(self):
        context = FOLDER / "context"
        shutil.copytree(SERVER, context)
        for program in (SNAFFLE, GUEST, GATEWAY):
            shutil.copy2(program, context)
        done = podman.build(context, IMAGE)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_2_without_a_key_it_ends_and_says_so(self):
        done = podman("run", "--rm", "--network=none", *LIMITS, IMAGE)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("needs a key: set SNAFFLE_SERVE_KEY", done.stdout)

    def test_3_it_gets_healthy_serves_who_has_the_key_and_ends_well(self):
        self.assertEqual(self.start("-e", f"SNAFFLE_SERVE_KEY={KEY}").returncode, 0)
        self.await_health()
        ask = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
        url = "http://127.0.0.1:8000/metadata"
        self.assertEqual(self.inside(*ask, url).stdout, "401")
        self.assertEqual(self.inside(*ask, "-H", f"Authorization: Bearer {KEY}", url).stdout, "200")
        self.assertEqual(self.inside("id", "-u").stdout.strip(), "1000")
        self.assertEqual(podman("stop", "-t", "30", NAME).returncode, 0)
        code = podman("inspect", "-f", "{{.State.ExitCode}}", NAME)
        self.assertEqual(code.stdout.strip(), "0", podman("logs", NAME).stdout)

    def test_4_no_secret_is_in_its_log(self):
        self.start("-e", f"SNAFFLE_SERVE_KEY={KEY}")
        self.await_health()
        log = podman("logs", NAME).stdout
        self.assertNotIn(KEY, log)
        self.assertNotIn("hf_testtoken", log)


if __name__ == "__main__":
    reason = podman.why_not(DEBIAN)
    if reason:
        tap.skip_all(reason)
    tap.main()
