# SPDX-License-Identifier: BSD-3-Clause
"""podman with a store of its own, for images that are built over Debian's smallest system."""
import os
import shutil
import subprocess

import steps

BASE = "localhost/snaffle-base:1"
BUILD_S = 500
# Where this process may not raise limits, a container's own default is refused.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
# A second hierarchy of control groups, which some machines have, is more than the runtime takes.
PRIVATE = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec podman "$@"'


class Podman:
    def __init__(self, folder):
        self.store = [f"--{name}={folder / name}" for name in ("root", "runroot", "tmpdir")]

    def __call__(self, *args, stdin=None):
        return subprocess.run(["unshare", "-m", "sh", "-c", PRIVATE, "podman", *self.store, *args],
                              stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=BUILD_S, check=False)

    def why_not(self, debian):
        """None where podman can run a container over the base; else the reason, in one line."""
        if os.geteuid() != 0 or not shutil.which("podman"):
            return "podman, started by root, is not here"
        made = subprocess.run([steps.ROOT / "tests/debian_root.sh", debian], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            return made.stdout.strip()
        with subprocess.Popen(["tar", "-C", debian, "-c", "."], stdout=subprocess.PIPE) as tar:
            done = self("import", "-q", "-", BASE, stdin=tar.stdout)
        if done.returncode == 0:
            done = self("run", "--rm", "--network=none", *LIMITS, BASE, "true")
        return None if done.returncode == 0 else \
            f"podman can't run a container here: {' '.join(done.stdout.split())[-200:]}"

    def build(self, context, image):
        # Docker's form: the other one has no HEALTHCHECK.
        return self("build", "-q", "--format=docker", "--network=host", *LIMITS, "--build-arg",
                    f"BASE={BASE}", "-t", image, context)
