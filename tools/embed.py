#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a file as a C string of its own: embed.py NAME HEADER FILE > name.c"""
import pathlib
import sys

BYTES_A_LINE = 24


def main():
    name, header, path = sys.argv[1:]
    content = pathlib.Path(path).read_bytes()
    print(f"/* Made by tools/embed.py. */\n#include \"{header}\"\n")
    print("static const unsigned char bytes[] = {")
    for at in range(0, len(content), BYTES_A_LINE):
        print("    " + "".join(f"{byte}," for byte in content[at:at + BYTES_A_LINE]))
    print(f"}};\n\nconst struct sv {name} = {{(const char *)bytes, sizeof bytes}};")


if __name__ == "__main__":
    main()
