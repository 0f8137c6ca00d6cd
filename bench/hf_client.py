# SPDX-License-Identifier: BSD-3-Clause
"""The same work as hf_bench's, by the official Python client: hf_client.py trips|upload|many ..."""
import json
import statistics
import sys
import threading
import time

from huggingface_hub import Sandbox

TRIPS = 20
HOME = "/root"  # Of a command in a job.


def since_ms(begin):
    return 1000 * (time.monotonic() - begin)


def percentile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def trips(runs):
    first, more = [], []
    for _ in range(runs):
        begin = time.monotonic()
        with Sandbox.create() as box:
            box.run(["/bin/true"])
            first.append(since_ms(begin))
            for _ in range(TRIPS):
                begin = time.monotonic()
                box.run(["/bin/true"])
                more.append(since_ms(begin))
    return {"create_exec_p50_ms": round(statistics.median(first), 1),
            "create_exec_p99_ms": round(percentile(first, 0.99), 1),
            "exec_p50_ms": round(statistics.median(more), 2),
            "exec_p99_ms": round(percentile(more, 0.99), 2)}


def upload(runs, path):
    with open(path, "rb") as file:
        content = file.read()
    times = []
    with Sandbox.create() as box:
        for _ in range(runs):
            begin = time.monotonic()
            box.files.write(f"{HOME}/sent", content, mode="755")
            times.append(since_ms(begin))
    return {"upload_ms": round(statistics.median(times), 1)}


def status_of(field):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


class Many:
    def __init__(self, count, hold_s):
        self.count, self.hold_s = count, hold_s
        self.ready, self.failed, self.lock = 0, 0, threading.Lock()
        self.go = threading.Event()

    def one(self):
        box = None
        try:
            try:
                box = Sandbox.create(start_timeout=500)
            finally:
                with self.lock:
                    self.ready += 1
            self.go.wait()
            box.run(["/bin/sleep", str(self.hold_s)])
        except Exception as error:  # Whatever it was, it counts and the others go on.
            print(f"hf_client: {error}", file=sys.stderr)
            with self.lock:
                self.failed += 1
        finally:
            if box:
                box.kill()

    def run(self):
        threading.stack_size(256 * 1024)
        threads = [threading.Thread(target=self.one) for _ in range(self.count)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        while self.ready < self.count:
            time.sleep(0.02)
        created_s, since = time.monotonic() - begin, time.time()
        self.go.set()
        time.sleep(self.hold_s / 2)
        at_work = status_of("Threads:")
        for thread in threads:
            thread.join()
        return {"at_once": self.count, "failed": self.failed,
                "mb": round(status_of("VmHWM:") / 1024, 1), "threads": at_work,
                "create_s": round(created_s, 1), "from": since, "hold_s": self.hold_s}


def main():
    word, *more = sys.argv[1:]
    if word == "trips":
        answer = trips(int(more[0]))
    elif word == "upload":
        answer = upload(int(more[0]), more[1])
    else:
        answer = Many(int(more[0]), int(more[1])).run()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
