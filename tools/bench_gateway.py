# SPDX-License-Identifier: BSD-3-Clause
"""The gateway beside plain forwarders and Python proxies, on one machine in one run.

`./dev bench gateway [--json] [--markdown] [--quick]`. Every forwarder has one worker and the same
engine (bench/gateway_engine.c); ours is `snaffle gateway`, recording. The load maker
(bench/gateway_load.c) compares every byte of every answer. Targets take turns, and each figure is the
median of its rounds. Two loads: `asked` (the agent's own body asks for log-probabilities, top 5 and
ids) and `injected` (a plain body through the gateway, the body with those fields through the
forwarders: the engine does the same work). The named keys are the worse of the two. What fails or
can't be had leaves its keys null, and says why under `skipped`.
"""
import contextlib
import json
import mmap
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import bench_gateway_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPTS = (30_000, 300_000)
CONNECTIONS = (1, 16, 64)
LOADS = ("asked", "injected")
FORWARDERS = ("nginx", "nginx 64k", "haproxy")
GATEWAYS = ("gateway", "gateway durable")
SLOW = ("python stand-in", "litellm")
STREAMS_MAX = 9_900  # Two descriptors each in the gateway, under the usual limit of 20,000.
DESCRIPTORS_KEPT = 150  # Listeners, the journal, idle connections.
START_S = 60
LITELLM_START_S = 150  # It takes tens of seconds on a busy machine.
INSTALL_S = 300
# Streams, events of each and the time between them in ms; what is compared with has fewer events.
FULL = {"rounds": 5, "seconds": 0.8, "slow_seconds": 20.0, "paced": (500, 1200, 50),
        "paced_others": 400, "idle": (STREAMS_MAX, 3, 30_000), "touched_bytes": 4 << 30}
QUICK = {"rounds": 3, "seconds": 0.4, "slow_seconds": 15.0, "paced": (500, 100, 50),
         "paced_others": 60, "idle": (2_000, 3, 5_000), "touched_bytes": 1 << 30}
AGENT_KEY = "bench-agent-0123456789abcdef"  # Long enough to be a key.
FAILURES = (subprocess.SubprocessError, OSError, ValueError, LookupError)

NGINX = """
daemon off; master_process off; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 19000; }}
http {{
  access_log off; client_max_body_size 0; keepalive_requests 100000000;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  {buffers}
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://engine; proxy_http_version 1.1; proxy_buffering off;
                  proxy_set_header Connection ""; proxy_read_timeout 600s; }}
  }}
}}
"""
NGINX_64K = ("proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k; "
             "client_body_buffer_size 64k;")
HAPROXY = """
global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect 10s
  timeout client 600s
  timeout server 600s
  http-reuse always
frontend in
  bind 127.0.0.1:{port}
  default_backend engine
backend engine
  server e 127.0.0.1:{engine}
"""


class Skipped(Exception):
    pass


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def touch_memory(n_bytes):
    """Where a hypervisor hands out memory page by page, the first use of each costs microseconds:
    what the page cache will take is used once before."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvail"))
    with mmap.mmap(-1, min(n_bytes, free // 4)) as memory:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def await_port(port, process, limit_s=START_S):
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Skipped("it ended at once")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    raise Skipped(f"it did not listen within {limit_s} s")


def stop(process):
    if process.stdin:
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_s(process):
    """Of all its threads, to the nanosecond."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e9


def rss_bytes(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").split("\n"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


class Target:
    """Something that answers: its port, the bearer token it wants, and its process."""

    def __init__(self, name, port, token, process):
        self.name, self.port, self.token, self.process = name, port, token, process


class Bench:
    def __init__(self, build, sizes, folder):
        self.build, self.sizes, self.folder = build, sizes, pathlib.Path(folder)
        self.processes = []
        self.results = {}   # (target, load, prompt, connections): runs of the load maker.
        self.skipped = {}
        self.load_before = os.getloadavg()[0]
        self.answered = 0   # By recording gateways, as their clients saw it.
        self.recorded = 0
        self.wrong = 0

    def start(self, argv, **options):
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, **options)
        self.processes.append(process)
        return process

    def stop(self, process):
        self.processes.remove(process)
        stop(process)

    def stop_all(self):
        for process in list(self.processes):
            self.stop(process)

    def program(self, name, *args):
        process = self.start([f"{self.build}/bench/{name}", *map(str, args)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline().split()
        if not line:
            raise SystemExit(f"bench: {name} did not start")
        return process, line

    def engine(self, *pacing):
        process, line = self.program("gateway_engine", *pacing)
        return Target("direct", int(line[0]), "none", process)

    def gateway(self, name, engine, *flags):
        journal = self.folder / f"journal-{time.monotonic_ns()}"
        process = self.start(
            [pathlib.Path(self.build).resolve() / "src/cli/snaffle", "gateway", "--upstream-url",
             f"http://127.0.0.1:{engine.port}/v1", "--journal", journal, "--port", "0", *flags],
            stdout=subprocess.PIPE, text=True, cwd=self.folder,
            env={**os.environ, "SNAFFLE_GATEWAY_KEY": AGENT_KEY,
                 "UPSTREAM_API_KEY": "sk-bench-0123456789abcdef"})
        line = process.stdout.readline()  # listening on http://127.0.0.1:40123/v1
        if not line:
            raise SystemExit("bench: the gateway did not start")
        target = Target(name, int(line.rsplit(":", 1)[1].split("/")[0]), AGENT_KEY, process)
        target.journal, target.recorded, target.answered = journal, {}, 0
        return target

    def count_old(self, target):
        """Counts once a segment is full, and then removes it: all would not fit on a disk."""
        if len(list(target.journal.glob("*/*.log"))) > 1:
            self.count(target)

    def count(self, target):
        """Adds up the calls in the journal's segments, and removes all but the newest."""
        paths = sorted(target.journal.glob("*/*.log"))
        out = subprocess.run([f"{self.build}/bench/gateway_count", target.journal],
                             check=True, capture_output=True, text=True)
        for place, (_, results) in json.loads(out.stdout)["segments"].items():
            target.recorded[paths[int(place)].name] = results
        for path in paths[:-1]:
            path.unlink()

    def end_gateway(self, target):
        self.stop(target.process)
        self.count(target)
        self.answered += target.answered
        self.recorded += sum(target.recorded.values())
        shutil.rmtree(target.journal)

    def nginx(self, name, engine, buffers):
        if not shutil.which("nginx"):
            raise Skipped("nginx is not installed")
        port, folder = free_port(), self.folder / name.replace(" ", "-")
        folder.mkdir()
        (folder / "nginx.conf").write_text(
            NGINX.format(dir=folder, engine=engine.port, port=port, buffers=buffers),
            encoding="ascii")
        process = self.start(["nginx", "-c", folder / "nginx.conf", "-p", folder])
        await_port(port, process)
        return Target(name, port, "none", process)

    def haproxy(self, engine):
        if not shutil.which("haproxy"):
            raise Skipped("haproxy is not installed")
        port, config = free_port(), self.folder / "haproxy.cfg"
        config.write_text(HAPROXY.format(engine=engine.port, port=port), encoding="ascii")
        process = self.start(["haproxy", "-q", "-db", "-f", config])
        await_port(port, process)
        return Target("haproxy", port, "none", process)

    def python(self, requirements):
        """The interpreter of an environment that holds them."""
        venv = pathlib.Path(self.build).resolve() / f"venv-{pathlib.Path(requirements).stem}"
        mark = venv / "complete"
        if not mark.exists():
            for argv in ([sys.executable, "-m", "venv", venv],
                         [venv / "bin/pip", "install", "-q", "-r", ROOT / "bench" / requirements]):
                try:
                    subprocess.run(argv, check=True, capture_output=True, timeout=INSTALL_S)
                except subprocess.SubprocessError as why:
                    raise Skipped("its packages could not be installed") from why
            mark.touch()
        return venv / "bin/python"

    def standin(self, engine):
        port = free_port()
        process = self.start([self.python("requirements.txt"), ROOT / "bench/gateway_standin.py",
                              f"http://127.0.0.1:{engine.port}/v1", str(port),
                              self.folder / "standin.jsonl"])
        await_port(port, process)
        return Target("python stand-in", port, "none", process)

    def litellm(self, engine):
        port, config = free_port(), self.folder / "litellm.json"
        config.write_text(json.dumps({"model_list": [{
            "model_name": "bench/model-8b",
            "litellm_params": {"model": "openai/bench", "api_key": "none",
                               "api_base": f"http://127.0.0.1:{engine.port}/v1"}}]}),
            encoding="ascii")
        python = self.python("requirements-litellm.txt")
        process = self.start([python.parent / "litellm", "--config", config, "--port", str(port),
                              "--host", "127.0.0.1", "--num_workers", "1"],
                             stdout=subprocess.DEVNULL,
                             env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                                  "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"})
        await_port(port, process, LITELLM_START_S)
        return Target("litellm", port, "none", process)

    def load(self, target, load, prompt, connections, seconds):
        """One round; keeps what it gave."""
        plain = target.name in GATEWAYS and load == "injected"
        answer = "any" if target.name in SLOW else "plain" if plain else "full"
        before = cpu_s(target.process)
        out = subprocess.run(
            [f"{self.build}/bench/gateway_load", str(target.port), target.token, str(connections),
             str(seconds), str(prompt), "plain" if plain else "asks", answer],
            check=True, capture_output=True, text=True)
        numbers = json.loads(out.stdout)
        numbers["cpu_us"] = 1e6 * (cpu_s(target.process) - before) / max(1, numbers["answered"])
        self.wrong += numbers["wrong"] + numbers["unanswered"]
        self.results.setdefault((target.name, load, prompt, connections), []).append(numbers)
        if target.name in GATEWAYS:
            target.answered += numbers["answered"]
            self.count_old(target)
        return numbers

    def median(self, name, load, prompt, connections, field):
        runs = self.results.get((name, load, prompt, connections))
        return statistics.median(r[field] for r in runs) if runs else None

    def skip(self, name, why):
        self.skipped[name] = str(why)
        say(f"{name}: skipped: {why}")

    def try_start(self, name, make):
        try:
            return [make()]
        except Skipped as why:
            self.skip(name, why)
            return []

    def stage(self, name, measure):
        """One part of the whole, that must not take the others with it."""
        try:
            return measure(self)
        except FAILURES as why:
            self.skip(name, f"{type(why).__name__}: {why}")
            self.stop_all()
            return None


def start_targets(bench, engine):
    targets = [engine]
    targets += bench.try_start("nginx", lambda: bench.nginx("nginx", engine, ""))
    targets += bench.try_start("nginx 64k", lambda: bench.nginx("nginx 64k", engine, NGINX_64K))
    targets += bench.try_start("haproxy", lambda: bench.haproxy(engine))
    return targets + [bench.gateway("gateway", engine),
                      bench.gateway("gateway durable", engine, "--durable")]


def measure_throughput(bench):
    engine = bench.engine()
    targets = start_targets(bench, engine)
    for prompt in PROMPTS:
        for connections in CONNECTIONS:
            say(f"{prompt // 1000} KB, {connections} connections")
            for _ in range(bench.sizes["rounds"]):
                for target in targets:  # Forwarders do the same in both loads.
                    for load in LOADS if target.name in GATEWAYS else LOADS[:1]:
                        bench.load(target, load, prompt, connections, bench.sizes["seconds"])
    for target in targets:
        if target.name in GATEWAYS:
            bench.end_gateway(target)
        elif target is not engine:
            bench.stop(target.process)
    bench.stop(engine.process)


def measure_python(bench, name, make):
    """A proxy so slow that one round is enough."""
    say(name)
    engine = bench.engine()
    for target in bench.try_start(name, lambda: make(engine)):
        bench.load(target, "asked", PROMPTS[0], 16, 1.0)  # Its first calls are slower.
        bench.results.pop((name, "asked", PROMPTS[0], 16))
        bench.load(target, "asked", PROMPTS[0], 16, bench.sizes["slow_seconds"])
        bench.stop(target.process)
    bench.stop(engine.process)


def paced_run(bench, target, streams, events, period_ms, prompt, body):
    argv = [f"{bench.build}/bench/gateway_paced", target.port, target.token, streams, events,
            period_ms, prompt, body]
    return subprocess.Popen(list(map(str, argv)), stdout=subprocess.PIPE, text=True)


def measure_paced(bench):
    """How late events come, and the processor time each costs."""
    streams, most, period_ms = bench.sizes["paced"]
    few = bench.sizes["paced_others"]
    say(f"{streams} streams, an event each {period_ms} ms")
    makes = [("direct", few, lambda engine: engine),
             ("nginx", few, lambda engine: bench.nginx("nginx paced", engine, "")),
             ("gateway", most, lambda engine: bench.gateway("gateway", engine))]
    numbers = {}
    for name, events, make in makes:
        engine = bench.engine(period_ms, events)
        for target in bench.try_start(name, lambda make=make, engine=engine: make(engine)):
            before = cpu_s(target.process)
            run = paced_run(bench, target, streams, events, period_ms, PROMPTS[0], "plain")
            out = json.loads(run.communicate()[0].splitlines()[-1])
            out["cpu_us_per_event"] = 1e6 * (cpu_s(target.process) - before) / out["events"]
            out["cpu_percent"] = 100 * (cpu_s(target.process) - before) / (
                events * period_ms / 1000)
            numbers[name] = out
            bench.wrong += out["cut"]
            if name == "gateway":
                target.answered += out["answered"]
                bench.end_gateway(target)
            elif target is not engine:
                bench.stop(target.process)
        bench.stop(engine.process)
    return numbers


def measure_idle(bench):
    """Memory of open streams that say something now and then."""
    streams, events, period_ms = bench.sizes["idle"]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    streams = min(streams, (limit - DESCRIPTORS_KEPT) // 2)
    say(f"{streams} streams, an event each {period_ms / 1000:g} s")
    engine = bench.engine(period_ms, events)
    target = bench.gateway("gateway", engine)
    before = rss_bytes(target.process)
    run = paced_run(bench, target, streams, events, period_ms, PROMPTS[0], "plain")
    most = 0
    if run.stdout.readline().strip() == "open":
        until = time.monotonic() + (events - 2) * period_ms / 1000
        while time.monotonic() < until and run.poll() is None:
            most = max(most, rss_bytes(target.process))
            time.sleep(0.5)
    out = json.loads(run.communicate()[0].splitlines()[-1])
    bench.wrong += out["cut"]
    target.answered += out["answered"]
    bench.end_gateway(target)
    bench.stop(engine.process)
    return {"streams": streams, "kb_per_stream": (most - before) / streams / 1024,
            "answered": out["answered"]}


def gateway_rps(bench, connections):
    """The worse of the two loads."""
    rates = [bench.median("gateway", load, PROMPTS[0], connections, "rps") for load in LOADS]
    return None if None in rates else min(rates)


def ratio(bench, connections, others):
    """The gateway's rate to the best of the others'."""
    best = max((bench.median(o, "asked", PROMPTS[0], connections, "rps") or 0) for o in others)
    ours = gateway_rps(bench, connections)
    return ours / best if best and ours is not None else None


def added(bench, field):
    direct = bench.median("direct", "asked", PROMPTS[0], 1, field)
    ours = [bench.median("gateway", load, PROMPTS[0], 1, field) for load in LOADS]
    return None if None in (direct, *ours) else max(ours) - direct


def static_mb(build):
    path = pathlib.Path(build) / "src/cli/snaffle-gateway"
    return path.stat().st_size / 1e6 if path.exists() else None


def static_start_ms(build):
    """Of the static gateway; `start_ms` is that of `snaffle gateway`."""
    program = pathlib.Path(build) / "src/cli/snaffle-gateway"
    if not program.exists():
        return None
    out = subprocess.run([f"{build}/bench/gateway_start", program, "--level=tokens"], check=True,
                         capture_output=True, text=True)
    return json.loads(out.stdout)["gateway_start_ms"]


def keys(bench, paced, idle, start_ms):
    found = {
        "nginx_ratio_c16": ratio(bench, 16, ["nginx"]),
        "nginx_ratio_c64": ratio(bench, 64, ["nginx"]),
        "best_ratio_c16": ratio(bench, 16, FORWARDERS),
        "best_ratio_c64": ratio(bench, 64, FORWARDERS),
        "reference_ratio_c16": ratio(bench, 16, ["python stand-in"]),
        "litellm_ratio_c16": ratio(bench, 16, ["litellm"]),
        "added_p50_us": added(bench, "p50_us"),
        "added_p99_us": added(bench, "p99_us"),
        "ttft_added_p50_us": added(bench, "ttft_p50_us"),
        "event_p99_us": paced["gateway"]["p99_us"] if paced else None,
        "idle_10k_mb": idle["kb_per_stream"] * 10_000 / 1024 if idle else None,
        "idle_streams": idle["streams"] if idle else None,
        "start_ms": start_ms,
        "calls_lost": bench.answered - bench.recorded,
        "calls_answered": bench.answered,
        "answers_wrong": bench.wrong,
        "static_mb": static_mb(bench.build),
        "static_start_ms": bench.stage("static start", lambda b: static_start_ms(b.build)),
        "load_before": bench.load_before,
    }
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}


def rows(bench):
    """A line for each target, load, prompt and number of connections."""
    for prompt in PROMPTS:
        for connections in CONNECTIONS:
            for name in ("direct", *FORWARDERS, *GATEWAYS, *SLOW):
                for load in LOADS:
                    at = (name, load, prompt, connections)
                    if at in bench.results:
                        yield {"prompt": prompt, "connections": connections, "target": name,
                               "load": load if name in GATEWAYS else "",
                               **{f: round(bench.median(*at, f), 1) for f in
                                  ("rps", "p50_us", "p99_us", "ttft_p50_us", "cpu_us")}}


def show(table, paced, idle, skipped):
    print(f"{'prompt':>7} {'conns':>5}  {'target':16} {'load':9} {'calls/s':>9} {'p50 us':>9} "
          f"{'p99 us':>9} {'ttft us':>9} {'cpu us':>8}")
    for r in table:
        print(f"{r['prompt'] // 1000:>4} KB {r['connections']:>5}  {r['target']:16} {r['load']:9} "
              f"{r['rps']:>9.0f} {r['p50_us']:>9.0f} {r['p99_us']:>9.0f} {r['ttft_p50_us']:>9.0f} "
              f"{r['cpu_us']:>8.0f}")
    for name, p in (paced or {}).items():
        print(f"paced   {name:16} {p['events']} events, late by {p['p50_us']:.0f} us (p50) "
              f"{p['p99_us']:.0f} us (p99), {p['cpu_us_per_event']:.1f} us of processor each")
    if idle:
        print(f"idle    {idle['streams']} open streams, {idle['kb_per_stream']:.1f} KB each")
    for name, why in skipped.items():
        print(f"skipped {name}: {why}")


def measure(build, start_ms, flags):
    """With --json one object that holds the tables too."""
    with tempfile.TemporaryDirectory(prefix="snaffle-bench-") as folder:
        bench = Bench(build, QUICK if "--quick" in flags else FULL, folder)
        try:
            touch_memory(bench.sizes["touched_bytes"])
            bench.stage("throughput", measure_throughput)
            paced = bench.stage("paced", measure_paced)
            idle = bench.stage("idle", measure_idle)
            for name, make in (("python stand-in", bench.standin), ("litellm", bench.litellm)):
                bench.stage(name, lambda b, name=name, make=make: measure_python(b, name, make))
        finally:
            bench.stop_all()
        found = keys(bench, paced, idle, start_ms)
        whole = {**found, "table": list(rows(bench)), "paced": paced, "idle": idle,
                 "skipped": bench.skipped}
        if "--markdown" in flags:
            print(bench_gateway_page.page(whole))
        elif "--json" not in flags:
            show(whole["table"], paced, idle, bench.skipped)
        return whole if "--json" in flags else found
