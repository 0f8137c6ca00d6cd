#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The official client against the fake Hub: client_test.py HUB SBX PROTOCOL [PACKAGES]. Speaks TAP.

PROTOCOL is the generation of the server inside; PACKAGES a folder of Python packages that goes
before the others, for an older client.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
import tap  # noqa: E402

HUB, SBX, PROTOCOL = sys.argv[1], sys.argv[2], int(sys.argv[3])
if len(sys.argv) > 4:
    if not os.path.isdir(sys.argv[4]):
        tap.skip_all(f"no Python packages in {sys.argv[4]}")
    sys.path.insert(0, sys.argv[4])
if os.geteuid() != 0:
    tap.skip_all("the fake Hub's jobs are containers: needs root")
TOKEN = "hf_testtoken"
HOME = "/root"  # Of a command in a job.
os.environ |= {"HF_TOKEN": TOKEN, "HF_HUB_DISABLE_TELEMETRY": "1"}
folder = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(folder.name)
os.environ["HF_HOME"] = folder.name


def start_hub():
    hub = subprocess.Popen(
        [HUB, "--sbx", SBX, "--sbx-words", f"protocol={PROTOCOL}", "--token", TOKEN,
         "--port-file", FOLDER / "port", "--log", FOLDER / "log", "--die-with-parent"],
        stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not (FOLDER / "port").exists():
        if hub.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the fake Hub did not start")
        time.sleep(0.02)
    return hub, f"http://127.0.0.1:{(FOLDER / 'port').read_text().strip()}"


hub, url = start_hub()
os.environ["HF_ENDPOINT"] = url  # Read once, at import.
tap.need("huggingface_hub")
import huggingface_hub  # noqa: E402
from huggingface_hub import HfApi, Sandbox  # noqa: E402
from huggingface_hub.errors import SandboxCommandError  # noqa: E402


def tearDownModule():
    hub.terminate()
    hub.wait(20)
    folder.cleanup()


def set_faults(*rules):
    body = json.dumps(rules).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/_faults", body)) as answer:
        answer.read()


def state():
    with urllib.request.urlopen(f"{url}/_state") as answer:
        return json.load(answer)


def settled(command):
    """Generation 1 loses what a command writes just before its end: let it end later."""
    return f"{command}; sleep 0.2" if PROTOCOL == 1 else command


class Sandboxes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = Sandbox.create(image="python:3.12", env={"COLOUR": "green"},
                                 secrets={"HIDDEN": "deep"})

    @classmethod
    def tearDownClass(cls):
        cls.box.kill()

    def test_01_a_sandbox_is_created_and_runs_a_command_as_root(self):
        done = self.box.run(settled("echo out; echo err >&2; id -u"))
        self.assertEqual((done.exit_code, done.stdout, done.stderr), (0, "out\n0\n", "err\n"))

    def test_02_environment_secrets_folder_and_input_reach_a_command(self):
        done = self.box.run(settled("echo $COLOUR $HIDDEN $EXTRA; pwd; cat"), env={"EXTRA": "more"},
                            cwd="/usr", stdin="typed")
        self.assertEqual(done.stdout, "green deep more\n/usr\ntyped")

    def test_03_the_server_s_token_is_not_in_a_command_s_environment(self):
        self.assertEqual(self.box.run(settled("echo [$SBX_TOKEN]")).stdout, "[]\n")

    def test_04_an_exit_code_is_passed_on_and_raises_unless_told(self):
        self.assertEqual(self.box.run("exit 3", check=False).exit_code, 3)
        with self.assertRaises(SandboxCommandError):
            self.box.run("exit 3")

    def test_05_an_argument_list_is_run_as_it_is(self):
        self.assertEqual(
            self.box.run(["sh", "-c", 'printf "%s|" "$@"; sleep 0.2', "-", "a b", "$HOME"]).stdout,
            "a b|$HOME|")

    def test_06_a_command_out_of_time_is_killed_and_says_so(self):
        done = self.box.run("echo begun; sleep 30", timeout=0.5, check=False)
        self.assertTrue(done.timed_out)
        self.assertEqual((done.exit_code, done.stdout), (None, "begun\n"))

    def test_07_a_command_killed_by_a_signal_has_no_exit_code(self):
        done = self.box.run("kill -9 $$", check=False)
        self.assertEqual((done.exit_code, done.signal), (None, 9))

    def test_08_small_and_large_files_come_back_as_they_went(self):
        large = os.urandom(5 * 1024 * 1024 + 7)
        self.box.files.write(f"{HOME}/deep/er/small.bin", b"\x00\xff\n")
        self.box.files.write(f"{HOME}/large.bin", large)
        self.assertEqual(self.box.files.read(f"{HOME}/deep/er/small.bin"), b"\x00\xff\n")
        self.assertEqual(self.box.run(settled(f"sha256sum < {HOME}/large.bin")).stdout.split()[0],
                         hashlib.sha256(large).hexdigest())

    def test_09_folders_are_listed_and_files_deleted(self):
        self.box.files.write(f"{HOME}/list/b", b"22")
        self.box.files.write(f"{HOME}/list/a", b"1")
        self.box.files.mkdir(f"{HOME}/list/c")
        found = [(e.name, e.type, e.size if e.type == "file" else 0)
                 for e in self.box.files.list(f"{HOME}/list")]
        self.assertEqual(found, [("a", "file", 1), ("b", "file", 2), ("c", "dir", 0)])
        self.assertTrue(self.box.files.exists(f"{HOME}/list/a"))
        self.box.files.delete(f"{HOME}/list/a")
        self.assertFalse(self.box.files.exists(f"{HOME}/list/a"))

    def test_10_a_shorter_file_over_a_longer_one_has_a_stale_tail_in_generation_1_only(self):
        self.box.files.write(f"{HOME}/tail", b"x" * 3_145_745)
        self.box.files.write(f"{HOME}/tail", b"y" * 2_097_157)
        size = int(self.box.run(settled(f"stat -c %s {HOME}/tail")).stdout)
        self.assertEqual(size, 3_145_745 if PROTOCOL == 1 else 2_097_157)

    def test_11_a_background_process_is_listed_and_killed_by_who_knows_its_id(self):
        started = self.box.run("exec sleep 300", background=True)
        self.assertIn(started.pid, [p.pid for p in self.box.processes() if p.running])
        started.kill()
        look = f"kill -0 {started.pid} 2>/dev/null && echo yes || echo no"
        alive = self.box.run(settled(look)).stdout
        # The client of generation 1 sends the pid where an id is wanted, and hears that all is well.
        self.assertEqual(alive, "yes\n" if PROTOCOL == 1 else "no\n")

    def test_12_a_sandbox_is_found_again_by_its_id(self):
        again = Sandbox.connect(self.box.id)
        self.box.files.write(f"{HOME}/mark", b"1")
        self.assertTrue(again.files.exists(f"{HOME}/mark"))
        again.close()

    def test_13_a_server_inside_is_reached_through_the_proxy(self):
        self.box.run("mkdir -p /srv; echo from inside > /srv/hello.txt")
        self.box.run("cd /srv && exec python3 -m http.server 8123", background=True)
        base = self.box.proxy_url_for(8123).replace("https:", "http:")
        headers = self.box.proxy_headers
        for _ in range(100):
            try:
                request = urllib.request.Request(f"{base.rstrip('/')}/hello.txt", headers=headers)
                with urllib.request.urlopen(request) as answer:
                    self.assertEqual(answer.read(), b"from inside\n")
                    return
            except urllib.error.HTTPError as error:
                self.assertEqual(error.code, 502)
                time.sleep(0.1)
        self.fail("the server inside never answered")

    def test_14_jobs_are_listed_by_their_labels(self):
        jobs = list(HfApi().list_jobs(namespace="alice", status="RUNNING",
                                      labels={"hf-sandbox-mode": "dedicated"}))
        self.assertEqual([j.id for j in jobs], [self.box.id])

    def test_15_output_of_a_megabyte_comes_whole_where_the_server_drains(self):
        done = self.box.run("head -c 1000000 /dev/zero | tr '\\0' x")
        if PROTOCOL > 1:
            self.assertEqual(len(done.stdout), 1_000_000)
        else:
            self.assertLessEqual(len(done.stdout), 1_000_000)


class Faults(unittest.TestCase):
    def tearDown(self):
        set_faults()
        for _ in range(100):
            if state()["alive"] == 0:
                return
            time.sleep(0.05)
        self.fail(f"a sandbox is left: {state()}")

    def test_20_a_want_of_credit_a_lack_of_rights_and_a_rate_limit_are_errors(self):
        for status, word in ((402, "balance"), (403, "permission"), (500, "broken")):
            set_faults({"method": "POST", "path": "/api/jobs/", "status": status, "times": -1,
                        "body": {"error": f"the {word} is the matter"}})
            with self.assertRaises(huggingface_hub.errors.HfHubHTTPError) as caught:
                Sandbox.create()
            self.assertEqual(caught.exception.response.status_code, status)

    def test_21_a_job_that_dies_at_its_start_gives_its_log(self):
        set_faults({"method": "POST", "path": "/api/jobs/", "job": "die"})
        with self.assertRaisesRegex(Exception, "(?s)ERROR.*giving up"):
            Sandbox.create()

    def test_22_a_job_that_never_starts_is_cancelled_when_time_is_up(self):
        set_faults({"method": "POST", "path": "/api/jobs/", "job": "never_start"})
        with self.assertRaisesRegex(Exception, "did not become ready"):
            Sandbox.create(start_timeout=1)
        self.assertEqual(state()["jobs"][0]["status"]["stage"], "CANCELED")

    def test_23_a_create_whose_answer_is_lost_leaves_a_job_that_its_nonce_finds(self):
        set_faults({"method": "POST", "path": "/api/jobs/", "drop_answer": True})
        with self.assertRaises(Exception):
            Sandbox.create()
        left = [j for j in state()["jobs"] if j["status"]["stage"] in ("SCHEDULING", "RUNNING")]
        self.assertEqual(len(left), 1)
        nonce = left[0]["labels"]["hf-sandbox-nonce"]
        found = list(HfApi().list_jobs(namespace="alice", labels={"hf-sandbox-nonce": nonce}))
        self.assertEqual([j.id for j in found], [left[0]["id"]])
        HfApi().cancel_job(job_id=found[0].id, namespace="alice")

    def test_24_an_answer_cut_in_the_middle_is_an_error_for_the_client(self):
        box = Sandbox.create()
        set_faults({"face": "proxy", "path": "/v1/exec", "cut_after": 200})
        with self.assertRaises(Exception):
            box.run("echo begun; sleep 1; echo ended")
        box.kill()

    def test_25_a_wrong_token_is_refused_inside_and_outside(self):
        box = Sandbox.create()
        stranger = {**box.proxy_headers, "X-Sandbox-Token": "0" * 64}
        base = state()["jobs"][0]["status"]["exposeUrls"][0]
        for headers, status in ((stranger, 403), ({}, 401)):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(
                    urllib.request.Request(f"{base}/v1/processes", headers=headers))
            self.assertEqual(caught.exception.code, status)
        box.kill()

    def test_26_a_job_that_vanishes_under_a_command_is_an_error_for_the_client(self):
        box = Sandbox.create()
        set_faults({"face": "proxy", "path": "/v1/exec", "job": "vanish"})
        with self.assertRaises(Exception):
            box.run("sleep 5")
        box.kill()


if __name__ == "__main__":
    tap.main()
