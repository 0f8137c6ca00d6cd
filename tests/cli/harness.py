# SPDX-License-Identifier: BSD-3-Clause
"""What the checks of the command line share: running the program in an empty folder, and TAP."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

PROGRAM = None  # The program under test; set by run_cases.
SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOREIGN = ("OPENAI_", "VLLM_", "HF_ROUTER_", "SNAFFLE_", "NO_COLOR", "COLUMNS")


class Skip(Exception):
    """Raised with the reason."""


class Result:
    def __init__(self, done, folder):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.folder = folder

    def made(self):
        """What stands in the folder that was empty, but for what the case put there."""
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*"))


def environment(extra=None):
    """With a state of its own: what another run left on this machine is none of a case's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    env["SNAFFLE_STATE"] = f"{SCRATCH.name}/state"
    env.update(extra or {})
    return env


def snaffle(*args, env=None, files=None, stdin="", folder=None, check=False):
    """Runs the program in a fresh folder with these files; the folder goes when the case ends."""
    folder = folder or pathlib.Path(tempfile.mkdtemp(dir=SCRATCH.name))
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    done = subprocess.run([PROGRAM, *args], cwd=folder, env=environment(env), input=stdin,
                          capture_output=True, text=True, timeout=120, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}")
    return Result(done, folder)


class Model:
    """The scripted model (the program that argv[2] names) with a script, while a case needs it."""

    def __init__(self, script):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH.name))
        self.script = script

    def __enter__(self):
        port = self.folder / "port"
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.argv[2], "--script", str(self.script), "--port-file", str(port),
             "--die-with-parent"], stdout=subprocess.DEVNULL)
        for _ in range(100):
            if port.exists() and port.read_text():
                break
            time.sleep(0.1)
        self.arguments = ["--base-url", f"http://127.0.0.1:{port.read_text().strip()}/v1",
                          "--model", "scripted"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def equal(got, want, what="value"):
    if got != want:
        raise AssertionError(f"{what}: want {want!r}, got {got!r}")


def holds(text, part):
    if part not in text:
        raise AssertionError(f"want {part!r} in {text!r}")


def run_cases(cases):
    """`cases`: (name, function) pairs; argv[1] is the program."""
    global PROGRAM
    PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    print(f"1..{len(cases)}")
    bad = 0
    for number, (name, function) in enumerate(cases, 1):
        try:
            function()
            print(f"ok {number} - {name}")
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}")
        except Exception:  # pylint: disable=broad-except
            bad += 1
            print(f"not ok {number} - {name}")
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
    SCRATCH.cleanup()
    return 1 if bad else 0


SCRATCH = tempfile.TemporaryDirectory(prefix="snaffle-cli-")
os.chmod(SCRATCH.name, 0o711)  # The sandboxes' users pass through it to their state.
