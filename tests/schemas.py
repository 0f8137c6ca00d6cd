#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The schemas in docs/schema agree with what the programs accept and write.

Arguments: the source's folder, the programs task_sample and trace_sample.
"""
import json
import pathlib
import subprocess
import sys
import unittest

import tap

tap.need("jsonschema")
import jsonschema  # noqa: E402

SOURCE = pathlib.Path(sys.argv[1])
TASK_SAMPLE, TRACE_SAMPLE = sys.argv[2:4]

TASKS = [
    "do it", "", " \n", 7, None, [], {},
    {"instruction": "i"}, {"instruction": ""}, {"instruction": 7}, {"instructions": "i"},
    {"instruction": "i", "task_id": None, "setup": None, "files": None, "network": None,
     "limits": None, "metadata": None},
    {"instruction": "i", "task_id": ""}, {"instruction": "i", "task_id": "t" * 256},
    {"instruction": "i", "task_id": "a\n"},
    {"instruction": "i", "setup": ["a"], "setup_shell": "b", "verify": ["c"]},
    {"instruction": "i", "setup": "a"}, {"instruction": "i", "setup": [" "]},
    {"instruction": "i", "verify": [1]}, {"instruction": "i", "verify": ["a"] * 1001},
    {"instruction": "i", "verify": ["x" * 131072]},
    {"instruction": "i", "files": {"a/./b": "", "/x/y": "1"}, "upload_files": {"c": ""},
     "verify_files": {"a..b": ""}},
    {"instruction": "i", "files": {"../x": ""}}, {"instruction": "i", "files": {"a/..": ""}},
    {"instruction": "i", "files": {"a/": ""}}, {"instruction": "i", "files": {"": ""}},
    {"instruction": "i", "files": {".": ""}}, {"instruction": "i", "files": {"//a": ""}},
    {"instruction": "i", "files": {"/a/./b": ""}}, {"instruction": "i", "files": {"/./b": ""}},
    {"instruction": "i", "files": {"a\nb": ""}}, {"instruction": "i", "files": {"a": 1}},
    {"instruction": "i", "files": []},
    {"instruction": "i", "network": "full"}, {"instruction": "i", "network": "all"},
    {"instruction": "i", "network": {"setup": "full", "agent": None}},
    {"instruction": "i", "network": {"agent": "all"}}, {"instruction": "i", "network": {"x": "full"}},
    {"instruction": "i", "limits": {"setup_s": 1, "agent_s": 0.5, "verify_s": 604800,
                                    "memory_mb": 16, "processes": 1, "disk_mb": 1}},
    {"instruction": "i", "limits": {"agent_s": 0}}, {"instruction": "i", "limits": {"agent_s": -1}},
    {"instruction": "i", "limits": {"agent_s": 604801}},
    {"instruction": "i", "limits": {"memory_mb": 15}},
    {"instruction": "i", "limits": {"processes": 1.5}}, {"instruction": "i", "limits": {"x": 1}},
    {"instruction": "i", "metadata": {"a": [1]}}, {"instruction": "i", "metadata": []},
]


def validator(name):
    schema = json.loads((SOURCE / "docs/schema" / f"{name}.schema.json").read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def parse(task):
    return subprocess.run([TASK_SAMPLE], input=json.dumps(task), text=True, capture_output=True,
                          check=False)


class Task(unittest.TestCase):
    def test_parser_and_schema_agree(self):
        schema = validator("task")
        for task in TASKS:
            parsed = parse(task)
            what = f"{str(task)[:200]}: {parsed.stderr}"
            self.assertIn(parsed.returncode, (0, 2), what)
            self.assertEqual(parsed.returncode == 0, schema.is_valid(task), what)

    def test_what_is_written_is_valid_and_means_the_same(self):
        schema = validator("task")
        for task in TASKS:
            parsed = parse(task)
            if parsed.returncode == 0:
                written = json.loads(parsed.stdout)
                schema.validate(written)
                self.assertEqual(json.loads(parse(written).stdout), written)

    def test_the_examples_are_valid(self):
        schema = validator("task")
        examples = sorted(SOURCE.glob("examples/*/task.json"))
        self.assertTrue(examples)
        for path in examples:
            schema.validate(json.loads(path.read_text()))


class Trace(unittest.TestCase):
    def test_every_kind_of_line_is_valid(self):
        schema = validator("trace")
        done = subprocess.run([TRACE_SAMPLE], capture_output=True, check=True)
        lines = done.stdout.decode("utf-8").splitlines()
        self.assertEqual([json.loads(line)["turn"] for line in lines], [1, 2, 3, 4, 5, 6, 7])
        for line in lines:
            schema.validate(json.loads(line))

    def test_a_wrong_line_is_not(self):
        schema = validator("trace")
        line = json.loads(subprocess.run([TRACE_SAMPLE], capture_output=True, check=True)
                          .stdout.splitlines()[0])
        for field in list(line):
            self.assertFalse(schema.is_valid({k: v for k, v in line.items() if k != field}), field)
        for field, wrong in (("turn", 0), ("schema", "snaffle.trace/2"), ("role", "x"),
                             ("end", "done"), ("trainable", "yes"), ("completion_token_ids", None)):
            self.assertFalse(schema.is_valid(line | {field: wrong}), field)


tap.main()
