#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks over the sources, each counted as one case.

lint.py [CHECK]...   (no CHECK: all)
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from cases import Case, FAILED, PASSED, closing_line

ROOT = pathlib.Path(__file__).resolve().parent.parent
# clang 14 hides this flag of ours behind another.
TIDY_EXTRA = ["-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang"]
# What the analyzer must know of errors; base/err.c itself defines them, and a user's program does
# not see them.
TIDY_ERRORS = ["-include", str(ROOT / "tools" / "analyzer.h")]
WITHOUT_ERRORS = {"src/base/err.c", "tests/rollout/api_test.c", "bench/batch_client.c"}
# Functions that have a safe counterpart in base, or hide a shell or a race.
BANNED = ("strcpy strcat strncpy strncat sprintf vsprintf strtok strtok_r atoi atol atoll sscanf "
          "gets mktemp tmpnam system popen alloca").split()
BANNED_CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
# Folders of one machine, which mean nothing on another: a person's home, a mount, and the folder
# at the file system's root in which this clone lies. Folders that every Debian has are fine.
EVERYWHERE = {"bin", "boot", "dev", "etc", "home", "lib", "opt", "proc", "run", "sbin", "srv", "sys",
              "tmp", "usr", "var"}
CLONE_TOP = {part for part in ROOT.parts[1:2] if part not in EVERYWHERE}
MACHINE_PATH = re.compile(r"(?<![\w.~$}>/-])/(?:home/(?!(?:user|other|someone)\b)\w+|"
                          + "|".join(sorted({"root", "Users", "mnt", "media"} | CLONE_TOP))
                          + r")/\w")
MAN_WARNINGS = "error"  # At `warning` scdoc's own output is never clean.


def tracked(*suffixes):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                         capture_output=True, text=True).stdout.splitlines()
    return [f for f in out if f.endswith(suffixes) and (ROOT / f).is_file()]


def run(argv, **more):
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, errors="replace",
                          check=False, **more)


def check_format():
    """clang-format: sources are formatted as .clang-format says (./dev fmt does it)"""
    done = run(["clang-format", "--dry-run", "-Werror", *tracked(".c", ".h")])
    lines = [line for line in done.stderr.splitlines() if "error:" in line]
    return lines if done.returncode else []


def check_tidy():
    """clang-tidy: every compiled file, with the checks of .clang-tidy"""
    if not (ROOT / "build" / "compile_commands.json").exists():
        return ["no build folder: run ./dev build first"]
    known = (ROOT / "build" / "compile_commands.json").read_text()
    files = [f for f in tracked(".c") if f"{f}\"" in known]

    def one(name):
        extra = TIDY_EXTRA + ([] if name in WITHOUT_ERRORS else TIDY_ERRORS)
        done = run(["clang-tidy", "-p", "build", "--quiet", *(f"--extra-arg={e}" for e in extra),
                    name])
        return done.stdout.splitlines() if done.returncode else []

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [line for lines in pool.map(one, files) for line in lines]


def check_cppcheck():
    """cppcheck: exceptions stand beside the line, with a reason"""
    done = run(["cppcheck", "-q", "--enable=warning,portability,performance", "--std=c11",
                "--inline-suppr", "--error-exitcode=1", f"-j{os.cpu_count() or 1}",
                # Macros of system headers are not seen, and casts to __typeof__ not understood. A
                # compound literal between ? and : is no syntax to 2.10; such a file is clang-tidy's.
                "--suppress=unknownMacro", "--suppress=internalAstError", "-D__typeof__(x)=void *", "-Isrc", "-Iinclude", "-I.", "-D_GNU_SOURCE",
                *tracked(".c")])
    return done.stderr.splitlines() if done.returncode else []


def check_man():
    """man pages: scdoc accepts them and mandoc finds no error"""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in tracked(".scd"):
            page = pathlib.Path(folder) / pathlib.Path(name).stem
            made = run(["scdoc"], input=(ROOT / name).read_text())
            if made.returncode:
                found.append(f"{name}: {made.stderr.strip()}")
                continue
            page.write_text(made.stdout)
            found += run(["mandoc", "-T", "lint", "-W", MAN_WARNINGS, str(page)]).stdout.splitlines()
    return found


def check_paths():
    """paths: no tracked text file names a folder of one machine"""
    found = []
    for name in tracked(""):
        if name.startswith("fuzz/corpus/"):
            continue
        data = (ROOT / name).read_bytes()
        if b"\0" in data[:8000]:
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if MACHINE_PATH.search(line):
                found.append(f"{name}:{number}: {line.strip()[:120]}")
    return found


def check_banned():
    """banned functions: none of strcpy, sprintf, system and their like is called"""
    found = []
    for name in tracked(".c", ".h"):
        text = without_comments((ROOT / name).read_text(errors="replace"))
        for number, line in enumerate(text.splitlines(), 1):
            match = BANNED_CALL.search(line)
            if match:
                found.append(f"{name}:{number}: '{match[1]}' is banned (see src/base for its like)")
    return found


def without_comments(text):
    """Comments and string literals blanked, lines kept."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


CHECKS = {"format": check_format, "tidy": check_tidy, "cppcheck": check_cppcheck,
          "man": check_man, "paths": check_paths, "banned": check_banned}


def run_checks(names):
    cases = []
    for name in names:
        found = CHECKS[name]()
        print(f"{'FAIL' if found else 'ok  '} lint: {CHECKS[name].__doc__}", flush=True)
        cases.append(Case(f"lint: {name}", FAILED if found else PASSED,
                          "\n".join("    " + line for line in found[:80])))
    return cases


def run_all():
    return run_checks(CHECKS)


def main():
    names = sys.argv[1:] or list(CHECKS)
    for name in names:
        if name not in CHECKS:
            print(f"dev: error: no check '{name}' (there are: {' '.join(CHECKS)})", file=sys.stderr)
            return 2
    cases = run_checks(names)
    for case in cases:
        if case.status == FAILED:
            print(f"failed: {case.name}\n{case.detail}")
    print(closing_line(cases))
    return 1 if any(case.status == FAILED for case in cases) else 0


if __name__ == "__main__":
    sys.exit(main())
