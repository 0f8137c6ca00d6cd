#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the law of the house over the #include lines: a room uses only the rooms it may use."""
import pathlib
import re
import sys

BELOW_ROLLOUT = {"base", "net", "journal"}
MAY_USE = {
    "base": set(),
    "net": {"base"},
    "journal": {"base", "net"},
    "guest": {"base"},
    "sandbox": BELOW_ROLLOUT | {"guest"},
    "agent": BELOW_ROLLOUT,
    "gateway": BELOW_ROLLOUT,
    "tunnel": BELOW_ROLLOUT,
    "store": BELOW_ROLLOUT,
    "train": BELOW_ROLLOUT | {"store", "agent"},
}
MAY_USE["rollout"] = set(MAY_USE)
MAY_USE["api"] = set(MAY_USE)
MAY_USE["server"] = set(MAY_USE)
MAY_USE["cli"] = set(MAY_USE)
# Single headers that a room may take from a room it may not use otherwise.
ONLY = {("train", "agent"): {"agent/agent.h"}, ("sandbox", "guest"): {"guest/parcel.h", "guest/protocol.h"}}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"/]+)/([^"]+)"', re.M)


def faults(root):
    for path in sorted(root.glob("src/*/**/*.[ch]")):
        room = path.relative_to(root / "src").parts[0]
        for other, rest in INCLUDE.findall(path.read_text()):
            header = f"{other}/{rest}"
            if other == room or other not in MAY_USE:
                continue
            only = ONLY.get((room, other))
            if other not in MAY_USE[room] or (only is not None and header not in only):
                yield f"{path.relative_to(root)}: {room} may not include {header}"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "the layers hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
