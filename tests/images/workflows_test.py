#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Are the workflow files sound: workflows_test.py. Speaks TAP."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import tap  # noqa: E402

tap.need("yaml")
import yaml  # noqa: E402

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Of this repository, as a command names it.
OWN_PATH = re.compile(r"(?<![\w/.$])\.?/?((?:\.ci|images|tests|tools)/[\w./-]+|dev)(?=[\s)]|$)")


def workflows():
    return [(file.name, yaml.safe_load(file.read_text())) for file in FILES]


def jobs():
    return [(f"{name}: {job_name}", job) for name, workflow in workflows()
            for job_name, job in workflow["jobs"].items()]


def steps():
    return [(f"{name}, step {i}", step) for name, job in jobs()
            for i, step in enumerate(job["steps"], 1)]


def commands():
    return [(name, step["run"]) for name, step in steps() if "run" in step]


class Workflows(unittest.TestCase):
    def test_1_there_is_one_for_the_tests_and_one_for_the_image(self):
        self.assertEqual([file.name for file in FILES], ["ci.yml", "image.yml"])

    def test_2_each_says_when_it_runs_and_gets_few_rights(self):
        for name, workflow in workflows():
            self.assertTrue(workflow[True], name)  # YAML takes the word "on" for a truth.
            self.assertEqual(workflow["permissions"], {"contents": "read"}, name)

    def test_3_each_job_names_its_machine_its_limit_and_jobs_that_are_there(self):
        for name, job in jobs():
            self.assertRegex(job["runs-on"], r"^ubuntu-\d", name)
            self.assertLessEqual(job["timeout-minutes"], 120, name)
            self.assertIn(job.get("needs", name.split(": ")[1]), {n.split(": ")[1] for n, _ in jobs()})

    def test_4_each_step_runs_a_command_or_a_pinned_action(self):
        for name, step in steps():
            self.assertEqual(len({"run", "uses"} & set(step)), 1, name)
            self.assertRegex(step.get("uses", "a@v1"), r"^[\w./-]+@(v\d+|[0-9a-f]{40})$", name)

    def test_5_the_commands_are_shell_and_the_files_they_name_are_there(self):
        for name, command in commands():
            done = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.stderr, "", name)
            for path in OWN_PATH.findall(command):
                self.assertTrue((ROOT / path).exists(), f"{name}: {path}")
        self.assertIn("dev", OWN_PATH.findall(" ".join(c for _, c in commands())))

    def test_6_a_value_from_outside_reaches_a_command_by_its_environment_only(self):
        for name, command in commands():
            self.assertNotIn("${{", command, name)


if __name__ == "__main__":
    tap.main()
