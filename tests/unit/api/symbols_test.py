#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares what libsnaffle exports with what the public header declares: symbols_test.py SO HEADER"""
import pathlib
import re
import subprocess
import sys

shown = {line.split()[-1].partition("@")[0]
         for line in subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], check=True,
                                    capture_output=True, text=True).stdout.splitlines()
         if " A " not in line}
header = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
declared = set(re.findall(r"SNAFFLE_API[^;(]*?\b(snaffle_\w+)\(", header))

print("1..2")
bad = 0
for number, (name, odd) in enumerate((("everything declared is exported", declared - shown),
                                      ("nothing else is exported", shown - declared)), 1):
    print(f"{'not ' if odd else ''}ok {number} - {name}")
    for symbol in sorted(odd):
        print(f"# {symbol}")
    bad += bool(odd)
sys.exit(bad > 0)
