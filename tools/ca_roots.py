#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a bundle of certificates (PEM) as a C file: ca_roots.py BUNDLE > roots.c

The certificates stand one behind the other in DER, as net/tls.h takes them.
"""
import base64
import re
import sys

PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.S)
BYTES_A_LINE = 24


def main():
    with open(sys.argv[1], encoding="ascii") as f:
        found = [base64.b64decode("".join(body.split())) for body in PEM.findall(f.read())]
    if not found:
        print(f"{sys.argv[1]} holds no certificate", file=sys.stderr)
        return 1
    der = b"".join(found)
    print("/* Made by tools/ca_roots.py. */\n#include \"server/capture/roots.h\"\n")
    print("static const unsigned char der[] = {")
    for at in range(0, len(der), BYTES_A_LINE):
        print("    " + "".join(f"{byte}," for byte in der[at:at + BYTES_A_LINE]))
    print("};\n\nconst struct sv capture_roots = {(const char *)der, sizeof der};")
    return 0


if __name__ == "__main__":
    sys.exit(main())
