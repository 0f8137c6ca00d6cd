#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks JSON against one of docs/schema: schema.py SCHEMA FILE... ('-': stdin).

A file that ends in .jsonl is checked line by line. Knows the words that our schemas use, and fails
on a word that it does not know, so that no rule goes unchecked.
"""
import json
import pathlib
import re
import sys

SILENT = {"$schema", "$id", "$defs", "title", "description", "$comment", "examples", "default"}
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool))
    or (isinstance(v, float) and v.is_integer()),
}


class Checker:
    def __init__(self, schema):
        self.root = schema
        self.faults = []

    def fault(self, at, text):
        self.faults.append(f"{at or 'the value'}: {text}")

    def resolve(self, reference):
        node = self.root
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        return node

    def is_valid(self, value, schema):
        inner = Checker(self.root)
        inner.check(value, schema, "")
        return not inner.faults

    def check(self, value, schema, at):
        if isinstance(schema, bool):
            if not schema:
                self.fault(at, "is not allowed")
            return
        for word, rule in schema.items():
            if word in SILENT:
                continue
            method = getattr(self, "check_" + word.replace("$", ""), None)
            if not method:
                sys.exit(f"schema.py does not know '{word}'")
            method(value, rule, schema, at)

    def check_ref(self, value, rule, _schema, at):
        self.check(value, self.resolve(rule), at)

    def check_type(self, value, rule, _schema, at):
        names = [rule] if isinstance(rule, str) else rule
        if not any(TYPES[name](value) for name in names):
            self.fault(at, f"want {' or '.join(names)}, got {json.dumps(value)[:80]}")

    def check_enum(self, value, rule, _schema, at):
        if not any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in rule):
            self.fault(at, f"{json.dumps(value)[:80]} is none of {json.dumps(rule)}")

    def check_const(self, value, rule, _schema, at):
        self.check_enum(value, [rule], None, at)

    def check_required(self, value, rule, _schema, at):
        for name in rule if isinstance(value, dict) else []:
            if name not in value:
                self.fault(at, f"lacks '{name}'")

    def check_properties(self, value, rule, _schema, at):
        for name, sub in rule.items() if isinstance(value, dict) else []:
            if name in value:
                self.check(value[name], sub, f"{at}.{name}")

    def check_additionalProperties(self, value, rule, schema, at):
        known = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        for name in value if isinstance(value, dict) else []:
            if name not in known and not any(re.search(p, name) for p in patterns):
                self.check(value[name], rule, f"{at}.{name}")

    def check_patternProperties(self, value, rule, _schema, at):
        for pattern, sub in rule.items() if isinstance(value, dict) else []:
            for name in value:
                if re.search(pattern, name):
                    self.check(value[name], sub, f"{at}.{name}")

    def check_propertyNames(self, value, rule, _schema, at):
        for name in value if isinstance(value, dict) else []:
            self.check(name, rule, f"{at}: the name '{name}'")

    def check_items(self, value, rule, _schema, at):
        for i, item in enumerate(value if isinstance(value, list) else []):
            self.check(item, rule, f"{at}[{i}]")

    def check_pattern(self, value, rule, _schema, at):
        if isinstance(value, str) and not re.search(rule, value):
            self.fault(at, f"'{value[:80]}' does not match {rule}")

    def bound(self, value, at, kind, ok, text):
        if TYPES[kind](value) and not ok(value):
            self.fault(at, text)

    def check_minimum(self, value, rule, _schema, at):
        self.bound(value, at, "number", lambda v: v >= rule, f"is below {rule}")

    def check_maximum(self, value, rule, _schema, at):
        self.bound(value, at, "number", lambda v: v <= rule, f"is above {rule}")

    def check_exclusiveMinimum(self, value, rule, _schema, at):
        self.bound(value, at, "number", lambda v: v > rule, f"is not above {rule}")

    def check_minLength(self, value, rule, _schema, at):
        self.bound(value, at, "string", lambda v: len(v) >= rule, f"is shorter than {rule}")

    def check_maxLength(self, value, rule, _schema, at):
        self.bound(value, at, "string", lambda v: len(v) <= rule, f"is longer than {rule}")

    def check_minItems(self, value, rule, _schema, at):
        self.bound(value, at, "array", lambda v: len(v) >= rule, f"has fewer than {rule}")

    def check_maxItems(self, value, rule, _schema, at):
        self.bound(value, at, "array", lambda v: len(v) <= rule, f"has more than {rule}")

    def check_maxProperties(self, value, rule, _schema, at):
        self.bound(value, at, "object", lambda v: len(v) <= rule, f"has more than {rule}")

    def check_uniqueItems(self, value, rule, _schema, at):
        if rule and isinstance(value, list) and len({json.dumps(v) for v in value}) < len(value):
            self.fault(at, "has the same twice")

    def check_not(self, value, rule, _schema, at):
        if self.is_valid(value, rule):
            self.fault(at, "fits what it must not")

    def check_allOf(self, value, rule, _schema, at):
        for sub in rule:
            self.check(value, sub, at)

    def check_anyOf(self, value, rule, _schema, at):
        if not any(self.is_valid(value, sub) for sub in rule):
            self.fault(at, "fits none of the alternatives")

    def check_oneOf(self, value, rule, _schema, at):
        if sum(self.is_valid(value, sub) for sub in rule) != 1:
            self.fault(at, "does not fit exactly one of the alternatives")


def values(path):
    text = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.endswith(".jsonl") \
        else [json.loads(text)]


def main():
    checker = Checker(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
    for path in sys.argv[2:]:
        for number, value in enumerate(values(path), 1):
            checker.check(value, checker.root, f"{path} {number}: ")
    print("\n".join(checker.faults) or "valid")
    return 1 if checker.faults else 0


if __name__ == "__main__":
    sys.exit(main())
