#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Usage: help, completions, version, and what a wrong command line gets."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import harness
from harness import Skip, equal, holds, run_cases, snaffle

WRONG = [
    # arguments, the one line on stderr
    (["fly"], "no command 'fly' (see 'snaffle help')"),
    (["agent"], "agent: want one of: agent install, agent ls"),
    (["agent", "fly"], "no command 'agent fly' (there are: agent install, agent ls)"),
    (["run"], "run: want TASK, got nothing (see 'snaffle run --help')"),
    (["run", "a", "b"], "run: 'b' is one word too many (see 'snaffle run --help')"),
    (["run", "--modle", "x", "t"], "run: unknown option '--modle' (did you mean '--mode'?)"),
    (["run", "--mode", "x", "t"], "run: --mode: 'x' is none of: transparent_proxy, black_box"),
    (["run", "--endpoint", "gpt", "t"], "run: --endpoint: 'gpt' is none of: vllm, openai, hf_router"),
    (["run", "--budget-s", "soon", "t"],
     "run: --budget-s: want a number of 0 or more, got 'soon'"),
    (["run", "--retries", "-1", "t"], "run: --retries: want a whole number, got '-1'"),
    (["run", "--json=1", "t"], "run: --json takes no value"),
    (["run", "--model"], "run: --model: want NAME, got nothing"),
    (["batch"], "batch: want TASKS, got nothing (see 'snaffle batch --help')"),
    (["batch", "-n", "x", "t"], "batch: -n: want a whole number, got 'x'"),
    (["batch", "-n"], "batch: -n: want K, got nothing"),
    (["batch", "-n", "0", "t"], "batch: -n: want 1 to 100000"),
    (["batch", "-k", "1", "t"], "batch: unknown option '-k' (see 'snaffle batch --help')"),
    (["batch", "--resume", "t"], "batch: --resume wants --run NAME: which run goes on?"),
    (["batch", "--rollout", "x", "t"],
     "batch: unknown option '--rollout' (see 'snaffle batch --help')"),
    (["show"], "show: want ROLLOUT, got nothing (see 'snaffle show --help')"),
    (["show", "--turn", "0", "x"], "show: --turn: turns are counted from 1"),
    (["completion", "tcsh"], "completion: 'tcsh' is none of: bash, zsh, fish"),
    (["help", "fly"], "help: no command 'fly' (see 'snaffle help')"),
]


def wrong(args, line):
    def case():
        result = snaffle(*args)
        equal(result.err, f"snaffle: error: {line}\n", "standard error")
        equal(result.out, "", "standard output")
        equal(result.code, 2, "exit status")
        equal(result.made(), [], "files made")
    return (f"snaffle {' '.join(args)}: {line}", case)


def commands():
    return json.loads(snaffle("help", "--json", check=True).out)


def help_of_every_command():
    for command in commands():
        result = snaffle(*command["name"].split(), "--help", check=True)
        first = result.out.splitlines()[0]
        equal(first, f"snaffle {command['name']} - {command['summary']}", "first line")
        for option in command["options"]:
            holds(result.out, f"--{option['name']}")
        equal(result.made(), [], "files made")
        too_long = [line for line in result.out.splitlines() if len(line) > 100]
        equal(too_long, [], "lines over 100 columns")


def help_and_version_go_to_standard_output():
    holds(snaffle("--help", check=True).out, "usage: snaffle COMMAND")
    version = snaffle("--version", check=True).out
    holds(version, "snaffle ")
    for library in ("libuv", "jansson", "openssl", "libcurl", "sqlite", "libseccomp"):
        holds(version, library)


def nothing_at_all_is_bad_usage():
    result = snaffle()
    equal(result.code, 2)
    holds(result.err, "usage: snaffle COMMAND")


def a_broken_dotenv_is_named_and_leaves_help_alone():
    files = {".env": "no equals sign\n"}
    result = snaffle("ls", files=files)
    equal((result.code, result.err), (2, "snaffle: error: .env line 1: want NAME=value\n"))
    equal(snaffle("help", files=files).code, 0)


def bash_completes(line):
    """What bash offers after this line."""
    words = line.split(" ")
    script = (f"source <({harness.PROGRAM} completion bash)\n"
              f"COMP_WORDS=({' '.join(repr(w) for w in words)}) COMP_CWORD={len(words) - 1}\n"
              "_snaffle\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True,
                          check=True, cwd=tempfile.mkdtemp(dir=harness.SCRATCH.name))
    equal(done.stderr, "")
    return done.stdout.split()


def bash_offers_commands_options_and_words():
    equal(bash_completes("snaffle ru"), ["run"])
    equal(bash_completes("snaffle agent "), ["install", "ls"])
    equal(bash_completes("snaffle run --mod"), ["--model", "--mode"])
    equal(bash_completes("snaffle run --mode "), ["transparent_proxy", "black_box"])
    equal(bash_completes("snaffle run --base-url "), [])
    equal(bash_completes("snaffle completion "), ["bash", "zsh", "fish"])
    holds(" ".join(bash_completes("snaffle agent install --")), "--help")


def script_of(shell):
    if not shutil.which(shell):
        raise Skip(f"no {shell} here")
    path = pathlib.Path(harness.SCRATCH.name) / f"completion.{shell}"
    path.write_text(snaffle("completion", shell, check=True).out)
    return path


def zsh_can_read_its_script():
    done = subprocess.run(["zsh", "-n", str(script_of("zsh"))], capture_output=True, text=True,
                          check=False)
    equal((done.returncode, done.stderr), (0, ""))


def fish_offers_commands_options_and_words():
    def offered(line):
        done = subprocess.run(["fish", "--no-config", "-c",
                               f"source {path}; complete -C {line!r}"], capture_output=True,
                              text=True, check=True, env=harness.environment())
        equal(done.stderr, "")
        return [word.split("\t")[0] for word in done.stdout.splitlines()]

    path = script_of("fish")
    equal(offered("snaffle ru"), ["run"])
    equal(offered("snaffle agent "), ["install", "ls"])
    equal(sorted(offered("snaffle run --mode ")), ["black_box", "transparent_proxy"])
    equal(offered("snaffle show --tu"), ["--turn"])


def output_that_cannot_be_written_is_an_error():
    try:
        full = open("/dev/full", "w")  # pylint: disable=consider-using-with
    except OSError as error:
        raise Skip("no /dev/full here") from error
    with full:
        done = subprocess.run([harness.PROGRAM, "help"], stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False)
    equal((done.returncode, done.stderr.split(":")[2].strip()),
          (1, "cannot write to standard output"))


CASES = [wrong(*row) for row in WRONG] + [
    (f.__name__, f) for f in (
        help_of_every_command, help_and_version_go_to_standard_output, nothing_at_all_is_bad_usage,
        a_broken_dotenv_is_named_and_leaves_help_alone, bash_offers_commands_options_and_words,
        zsh_can_read_its_script,
        fish_offers_commands_options_and_words, output_that_cannot_be_written_is_an_error)]

if __name__ == "__main__":
    sys.exit(run_cases(CASES))
