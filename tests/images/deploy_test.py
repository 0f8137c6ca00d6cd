#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The server's other papers: openenv.yaml, the Space's front matter, the systemd unit:
deploy_test.py SNAFFLE. Speaks TAP."""
import configparser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import steps

sys.path.insert(0, str(steps.ROOT / "tests"))
import tap  # noqa: E402

tap.need("yaml")
import yaml  # noqa: E402

SNAFFLE = os.path.abspath(sys.argv[1])
SERVER = steps.ROOT / "images" / "server"
PORT = 8000


def front_matter():
    _, head, _ = (SERVER / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head)


def options_of(command):
    said = subprocess.run([SNAFFLE, "help", "--json"], capture_output=True, text=True, check=True)
    found = [c for c in json.loads(said.stdout) if c["name"] == command][0]
    return {f"--{option['name']}" for option in found["options"]}


class Papers(unittest.TestCase):
    def test_1_openenv_yaml_has_the_fields_that_its_tools_read(self):
        said = yaml.safe_load((SERVER / "openenv.yaml").read_text())
        self.assertLessEqual({"spec_version", "name", "type", "runtime", "app", "port"}, set(said))
        self.assertEqual((said["spec_version"], said["name"], said["port"]), (1, "snaffle", PORT))
        self.assertTrue(all(isinstance(v, str) for v in said["variables"].values()))
        version = re.search(r"version: '([^']+)'", (steps.ROOT / "meson.build").read_text())[1]
        self.assertEqual(str(said["version"]), version)

    def test_2_no_secret_stands_in_what_everyone_may_read(self):
        for name in yaml.safe_load((SERVER / "openenv.yaml").read_text())["variables"]:
            self.assertNotRegex(name, "KEY|TOKEN|SECRET")

    def test_3_the_space_runs_the_dockerfile_at_the_port_that_it_serves(self):
        said = front_matter()
        self.assertEqual((said["sdk"], said["app_port"]), ("docker", PORT))
        self.assertIn("openenv", said["tags"])
        words = dict(steps.read((SERVER / "Dockerfile").read_text()))
        self.assertEqual(words["EXPOSE"], str(PORT))
        self.assertIn(f"127.0.0.1:{PORT}/health", words["HEALTHCHECK"])

    def test_4_the_dockerfile_starts_it_with_options_that_there_are(self):
        words = dict(steps.read((SERVER / "Dockerfile").read_text()))
        started = json.loads(words["ENTRYPOINT"]) + json.loads(words["CMD"])
        self.assertEqual(started[:2], ["snaffle", "serve"])
        self.assertLessEqual({w for w in started if w.startswith("--")}, options_of("serve"))

    def test_5_the_unit_starts_it_with_options_that_there_are(self):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        unit.read(SERVER / "snaffle.service")
        _, command, *words = unit["Service"]["ExecStart"].split()
        self.assertEqual(command, "serve")
        self.assertLessEqual({w for w in words if w.startswith("--")}, options_of("serve"))
        self.assertEqual(unit["Install"]["WantedBy"], "multi-user.target")

    def test_6_the_image_has_the_libraries_that_the_program_needs(self):
        if not shutil.which("dpkg-query"):
            self.skipTest("no Debian here")
        needed = subprocess.run(["readelf", "-d", SNAFFLE], capture_output=True, text=True,
                                check=True).stdout
        places = dict(re.findall(r"(\S+) => (/\S+)", subprocess.run(
            ["ldd", SNAFFLE], capture_output=True, text=True, check=True).stdout))
        dockerfile = (SERVER / "Dockerfile").read_text()
        for library in re.findall(r"NEEDED.*\[(.*)\]", needed):
            path = os.path.realpath(places.get(library, library))
            owner = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True,
                                   check=False).stdout.partition(":")[0]
            if owner not in ("libc6", ""):
                self.assertRegex(dockerfile, rf"\b{re.escape(owner)}\b", library)

    def test_7_systemd_has_nothing_to_say_of_the_unit(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        with tempfile.TemporaryDirectory() as folder:
            text = (SERVER / "snaffle.service").read_text()
            copy = pathlib.Path(folder, "snaffle.service")
            copy.write_text(text.replace("/usr/local/bin/snaffle", SNAFFLE))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy],
                                  capture_output=True, text=True, check=False)
        ours = [line for line in done.stderr.splitlines() if "snaffle" in line]
        self.assertEqual(ours, [])


if __name__ == "__main__":
    tap.main()
