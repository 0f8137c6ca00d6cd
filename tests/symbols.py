#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that no two rooms define one name: symbols.py LIBRARY...

A linker that finds a name in one static library takes no other of that name from the next one, so
that a call goes astray without a word.
"""
import collections
import subprocess
import sys


def names(library):
    out = subprocess.run(["nm", "-g", "--defined-only", library], check=True, capture_output=True,
                         text=True).stdout
    return {line.split()[2] for line in out.splitlines() if len(line.split()) == 3}


def main():
    where = collections.defaultdict(list)
    for library in sys.argv[1:]:
        for name in names(library):
            where[name].append(library.rsplit("/", 1)[-1])
    twice = {name: places for name, places in where.items()
             if len(places) > 1 and not name.startswith(("__asan", "__tsan", "__odr"))}
    for name, places in sorted(twice.items()):
        print(f"{name} is defined in {' and '.join(places)}")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
