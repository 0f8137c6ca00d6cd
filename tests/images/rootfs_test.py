#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The sandbox image's steps, carried out here over Debian's smallest system, and a rollout in what
they make: rootfs_test.py SNAFFLE GUEST GATEWAY DEBIAN MODEL. Speaks TAP."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import steps

sys.path.insert(0, str(steps.ROOT / "tests"))
import tap  # noqa: E402

SNAFFLE, GUEST, GATEWAY, DEBIAN, MODEL = (os.path.abspath(path) for path in sys.argv[1:6])
BASE = "localhost/base"
ROLLOUT_S = 120
scratch = tempfile.TemporaryDirectory(prefix="snaffle-image-")
FOLDER = pathlib.Path(scratch.name)
PLACE = FOLDER / "root"


def installed_agent():
    done = subprocess.run([SNAFFLE, "agent", "ls", "--json"], capture_output=True, text=True,
                          check=True)
    found = [a["installed"] for a in json.loads(done.stdout) if a["agent"] == "opencode"][0]
    return found["program"] if found else tap.skip_all("opencode is not installed here")


def setUpModule():
    FOLDER.chmod(0o711)
    (FOLDER / "context").mkdir()
    subprocess.run(["cp", "-a", DEBIAN, PLACE], check=True)
    steps.put_context(FOLDER / "context", GUEST, GATEWAY, AGENT)


def tearDownModule():
    scratch.cleanup()


def start_model():
    """The scripted model, which must be there though nobody asks it; gives it and its address."""
    port = FOLDER / "port"
    script = steps.ROOT / "examples/python_agent/model_script.json"
    model = subprocess.Popen([MODEL, "--script", script, "--port-file", port, "--die-with-parent"],
                             stdout=subprocess.DEVNULL)
    for _ in range(400):
        if port.exists() and port.read_text():
            break
        time.sleep(0.05)
    return model, f"http://127.0.0.1:{port.read_text().strip()}/v1"


class Image(unittest.TestCase):
    def test_1_another_agent_than_the_pinned_one_ends_the_build(self):
        (FOLDER / "wrong").mkdir()
        steps.put_context(FOLDER / "wrong", GUEST, GATEWAY, "/bin/true")
        made = steps.Steps(PLACE, FOLDER / "wrong", BASE=BASE)
        with self.assertRaisesRegex(AssertionError, "the agent is not opencode .*: its digest is"):
            made.run(steps.SANDBOX.read_text())
        shutil.rmtree(PLACE / "opt/snaffle")

    def test_2_the_steps_can_be_carried_out(self):
        made = steps.Steps(PLACE, FOLDER / "context", BASE=BASE)
        made.run(steps.SANDBOX.read_text())
        self.assertEqual(made.folder, "/root")

    def test_3_each_program_is_found_by_its_digest(self):
        names = {"snaffle-guest": "bin", "snaffle-gateway": "bin", "opencode": "agent"}
        for name, folder in names.items():
            digest = hashlib.sha256((FOLDER / "context" / name).read_bytes()).hexdigest()
            found = PLACE / "opt/snaffle/by-digest" / digest
            self.assertEqual(found.read_text(), f"/opt/snaffle/{folder}/{name}\n")

    def test_4_the_programs_run_and_the_server_of_a_sandbox_can_be_fetched(self):
        made = steps.Steps(PLACE, FOLDER / "context", BASE=BASE)
        said = made.command("/opt/snaffle/agent/opencode --version; command -v curl || "
                            "command -v wget; test -s /etc/ssl/certs/ca-certificates.crt",
                            HOME="/root", PATH="/usr/bin:/bin")
        version = steps.defaults(steps.SANDBOX.read_text())["AGENT_VERSION"]
        self.assertEqual(said.splitlines()[0], version)
        note = json.loads((PLACE / "opt/snaffle/agent/installed.json").read_text())
        self.assertEqual(note["version"], version)

    def test_5_nothing_is_left_of_the_package_lists(self):
        self.assertEqual([*(PLACE / "var/lib/apt/lists").glob("*Packages*")], [])

    def test_6_a_rollout_has_it_as_its_system(self):
        task = {"instruction": "nothing", "verify": [
            "test \"$(cat said)\" = \"$(/opt/snaffle/bin/snaffle-gateway --version)\""]}
        (FOLDER / "task.json").write_text(json.dumps(task))
        model, url = start_model()
        self.addCleanup(model.wait)
        self.addCleanup(model.terminate)
        done = subprocess.run(
            [SNAFFLE, "run", FOLDER / "task.json", "--agent", "command", "--agent-cmd",
             "/opt/snaffle/bin/snaffle-gateway --version >said", "--rootfs", PLACE, "--base-url",
             url, "--model", "scripted", "--runs", FOLDER / "runs", "--json",
             "--quiet"], capture_output=True, text=True, timeout=ROLLOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["status"], result["reward"]), ("ok", 1.0), result)


if __name__ == "__main__":
    if os.geteuid() != 0:
        tap.skip_all("a system of another is made by root")
    made = subprocess.run([steps.ROOT / "tests/debian_root.sh", DEBIAN], capture_output=True,
                          text=True, check=False)
    if made.returncode != 0:
        tap.skip_all(made.stdout.strip())
    AGENT = installed_agent()
    tap.main()
