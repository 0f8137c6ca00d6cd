#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the OPTIONS of the man pages from the program's own tables.

man_options.py SNAFFLE            rewrites man/snaffle-*.1.scd
man_options.py SNAFFLE --check    only tells, in TAP, which pages differ
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^# OPTIONS\n.*?(?=^# )", re.M | re.S)
SPECIAL = re.compile(r"([\\*_`#\[\]<>|~])")


def escaped(text):
    return SPECIAL.sub(r"\\\1", text)


def option_text(option):
    value = f" _{escaped(option['value'])}_" if option["value"] else ""
    text = option["help"][0].upper() + option["help"][1:]
    dashes = "--" if len(option["name"]) > 1 else "-"
    return f"*{dashes}{option['name']}*{value}\n\t{escaped(text)}.\n"


def page_of(command):
    """A page a command; those of two words share the page of their first."""
    return f"snaffle-{command['name'].split()[0]}.1.scd"


def section(commands):
    parts = ["# OPTIONS\n"]
    for command in commands:
        if len(commands) > 1:
            parts.append(f"*snaffle {command['name']}* {escaped(command['operands'])}\n")
        parts += [option_text(option) for option in command["options"]]
    return "\n".join(parts) + "\n"


def main():
    program, check = sys.argv[1], "--check" in sys.argv[2:]
    out = subprocess.run([program, "help", "--json"], check=True, capture_output=True, text=True)
    pages = {}
    for command in json.loads(out.stdout):
        pages.setdefault(page_of(command), []).append(command)
    if check:
        print(f"1..{len(pages)}")
    bad = 0
    for number, (name, commands) in enumerate(sorted(pages.items()), 1):
        path = ROOT / "man" / name
        old = path.read_text() if path.exists() else ""
        new = SECTION.sub(lambda _: section(commands), old)
        same = old == new and SECTION.search(old) is not None
        if check:
            bad += not same
            print(f"{'ok' if same else 'not ok'} {number} - {name} has the options of the program")
        elif not same:
            path.write_text(new)
            print(f"wrote {path.relative_to(ROOT)}")
    if bad:
        print(f"# run: tools/man_options.py {program}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
