#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks JSON against one of docs/schema: schema.py SCHEMA FILE... ('-': stdin).

A file that ends in .jsonl is checked line by line. Prints each fault; the exit status is 1 if there
is any.
"""
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    raise SystemExit("no Python package 'jsonschema': install python3-jsonschema")


def documents(name):
    text = sys.stdin.read() if name == "-" else pathlib.Path(name).read_text()
    if name.endswith(".jsonl"):
        return [(f"{name} line {i}", json.loads(line))
                for i, line in enumerate(text.split("\n"), 1) if line]
    return [(name, json.loads(text))]


def main(schema_path, *names):
    schema = json.loads(pathlib.Path(schema_path).read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    faults = [f"{where}: {'/'.join(map(str, fault.absolute_path)) or 'top'}: {fault.message[:300]}"
              for name in names
              for where, document in documents(name)
              for fault in kind(schema).iter_errors(document)]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
