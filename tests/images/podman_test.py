#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The sandbox image, built by podman from its Dockerfile over Debian's smallest system, and run:
podman_test.py SNAFFLE GUEST GATEWAY DEBIAN. Speaks TAP."""
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

SNAFFLE, GUEST, GATEWAY, DEBIAN = (os.path.abspath(path) for path in sys.argv[1:5])
BASE, IMAGE = "localhost/snaffle-base:1", "localhost/snaffle-sandbox:1"
BUILD_S = 500
# Where this process may not raise limits, a container's own default is refused.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
scratch = tempfile.TemporaryDirectory(prefix="snaffle-podman-")
FOLDER = pathlib.Path(scratch.name)
# A second hierarchy of control groups, which some machines have, is more than the runtime takes.
PRIVATE = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec podman "$@"'


def podman(*args, stdin=None):
    """With a store of its own."""
    store = [f"--{name}={FOLDER / name}" for name in ("root", "runroot", "tmpdir")]
    return subprocess.run(["unshare", "-m", "sh", "-c", PRIVATE, "podman", *store, *args],
                          stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=BUILD_S, check=False)


def why_not():
    """None where podman can run a container over the base; else the reason, in one line."""
    if os.geteuid() != 0 or not shutil.which("podman"):
        return "podman, started by root, is not here"
    made = subprocess.run([steps.ROOT / "tests/debian_root.sh", DEBIAN], capture_output=True,
                          text=True, check=False)
    if made.returncode != 0:
        return made.stdout.strip()
    with subprocess.Popen(["tar", "-C", DEBIAN, "-c", "."], stdout=subprocess.PIPE) as tar:
        done = podman("import", "-q", "-", BASE, stdin=tar.stdout)
    if done.returncode == 0:
        done = podman("run", "--rm", "--network=none", *LIMITS, BASE, "true")
    return None if done.returncode == 0 else \
        f"podman can't run a container here: {' '.join(done.stdout.split())[-200:]}"


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
        done = podman("build", "-q", "--network=host", *LIMITS, "--build-arg", f"BASE={BASE}",
                      "-t", IMAGE, FOLDER / "context")
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
    reason = why_not()
    if reason:
        tap.skip_all(reason)
    tap.main()
