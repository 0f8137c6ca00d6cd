# SPDX-License-Identifier: BSD-3-Clause
"""Carries a Dockerfile's steps out over a root folder, and makes the folder it is built over."""
import pathlib
import re
import shlex
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANDBOX = ROOT / "images" / "sandbox" / "Dockerfile"
STEP_S = 400  # apt-get's look at its servers among them.


def read(text):
    """(instruction, rest) of each step, lines joined, comments left out."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [tuple(line.split(None, 1)) for line in kept.replace("\\\n", " ").splitlines()
            if line.strip()]


def defaults(text):
    return dict(rest.split("=", 1) for word, rest in read(text) if word == "ARG" and "=" in rest)


def put_context(folder, guest, gateway, agent, dockerfile=SANDBOX):
    """What `docker build` is given."""
    for source, name in ((guest, "snaffle-guest"), (gateway, "snaffle-gateway"),
                         (agent, "opencode"), (dockerfile, "Dockerfile")):
        shutil.copy2(source, folder / name)


class Steps:
    """Over `root`, with the files of `context`: what each instruction does, for those in use."""

    def __init__(self, root, context, **args):
        self.root, self.context, self.args = pathlib.Path(root), pathlib.Path(context), args
        self.folder, self.values = "/", {}

    def run(self, text):
        for word, rest in read(text):
            getattr(self, f"do_{word.lower()}")(rest)

    def filled(self, text):
        return re.sub(r"\$\{(\w+)\}", lambda m: self.values.get(m[1], ""), text)

    def inside(self, path):
        return self.root / str(pathlib.PurePosixPath(self.folder, path)).lstrip("/")

    def do_arg(self, rest):
        name, _, value = rest.partition("=")
        self.values[name] = self.args.get(name, value)

    def do_from(self, rest):
        if self.filled(rest) != self.args["BASE"]:
            raise AssertionError(f"builds on {self.filled(rest)}")

    def do_label(self, rest):
        if not all("=" in pair for pair in shlex.split(rest)):
            raise AssertionError(f"no pairs: {rest}")

    def do_workdir(self, rest):
        self.folder = self.filled(rest)
        self.inside(".").mkdir(parents=True, exist_ok=True)

    def do_copy(self, rest):
        *sources, place = self.filled(rest).split()
        self.inside(place).mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copy2(self.context / source, self.inside(place) / source)

    def do_run(self, rest):
        self.command(rest, PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                     **self.values)

    def command(self, text, **env):
        """In the system that stands so far, as root, with this machine's network."""
        variables = [word for pair in env.items() for word in ("--setenv", *pair)]
        done = subprocess.run(
            ["bwrap", "--bind", self.root, "/", "--dev", "/dev", "--proc", "/proc",
             "--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf", "--clearenv",
             *variables, "--chdir", self.folder, "/bin/sh", "-c", text],
            capture_output=True, text=True, timeout=STEP_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"exit {done.returncode}: {text[:80]}...\n{done.stdout[-800:]}"
                                 f"{done.stderr[-800:]}")
        return done.stdout
