#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compiles each header alone: headers.py SOURCE_ROOT CC [ARG]... Speaks TAP, one case a header.

The public headers are compiled as plain C11 and, when there is a C++ compiler, as C++17 too.
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def main():
    root, cc = pathlib.Path(sys.argv[1]), sys.argv[2:]
    jobs = [(h, [*cc, "-std=gnu11", "-x", "c", "-D_GNU_SOURCE"])
            for folder in ("src", "include", "tests") for h in sorted(root.glob(f"{folder}/**/*.h"))]
    public = sorted(root.glob("include/**/*.h"))
    jobs += [(h, [*cc, "-std=c11", "-Wpedantic", "-x", "c"]) for h in public]
    cxx = shutil.which("c++")
    if cxx:
        jobs += [(h, [cxx, "-std=c++17", "-Wpedantic", "-x", "c++"]) for h in public]

    def check(job):
        header, compiler = job
        name = header.relative_to(root)
        shown = "/".join(name.parts[1:]) if name.parts[0] in ("src", "include") else str(name)
        done = subprocess.run(
            [*compiler, *WARNINGS, f"-I{root}/src", f"-I{root}/include", f"-I{root}", "-"],
            input=f'#include "{shown}"\n', capture_output=True, text=True, check=False)
        language = {"-std=gnu11": "C", "-std=c11": "C11", "-std=c++17": "C++17"}[
            next(word for word in compiler if word.startswith("-std="))]
        return f"{name} compiles alone as {language}", done

    print(f"1..{len(jobs)}")
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for number, (name, done) in enumerate(pool.map(check, jobs), 1):
            bad += done.returncode != 0
            print(f"{'not ok' if done.returncode else 'ok'} {number} - {name}")
            for line in done.stderr.splitlines():
                print(f"# {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
