#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/performance.md, of what `./dev bench gateway --json` measured.

bench_gateway_page.py [FILE]

FILE: its JSON; without one it is read from standard input.
"""
import json
import sys

NAMES = {"nginx": "nginx as it comes", "nginx 64k": "nginx, 64 KB buffers",
         "python stand-in": "FastAPI, uvicorn, httpx stand-in"}


def number(value, form=",.0f"):
    return "–" if value is None else format(value, form)


def rates(table):
    """A row a target: calls a second, and what each took of the processor."""
    cells = {}
    for row in table:
        name = NAMES.get(row["target"], row["target"])
        name = f"{name}, {row['load']}" if row["load"] else name
        at = (row["prompt"], row["connections"])
        cells.setdefault(name, {})[at] = f"{row['rps']:,.0f} ({row['cpu_us']:,.0f})"
    columns = sorted({at for row in cells.values() for at in row})
    head = "".join(f" {prompt // 1000} KB, {n} |" for prompt, n in columns)
    yield f"| calls/s (processor µs each); prompt, connections |{head}"
    yield "|---|" + "---|" * len(columns)
    for name, row in cells.items():
        yield f"| {name} |" + "".join(f" {row.get(at, '–')} |" for at in columns)


def is_missed(value, aim, at_least):
    return value is None or (value < aim if at_least else value > aim)


def judged(text, aim, *values, at_least=False, form=",.2f", unit=""):
    shown = "; ".join(number(v, form) + unit for v in values)
    missed = "**missed**: " if any(is_missed(v, aim, at_least) for v in values) else ""
    return f"| {text} | {shown} | {missed}{aim:g}{unit} |"


def paced(p):
    delays = ", ".join(f"{name} {p[name]['p50_us']:,.0f} and {p[name]['p99_us']:,.0f}"
                       for name in ("direct", "nginx") if name in p)
    ours = p["gateway"]
    return (f"| the same: p50; the others' p50 and p99; processor time an event "
            f"| {ours['p50_us']:,.0f}; {delays}; {ours['cpu_us_per_event']:.1f} µs | – |")


def figures(k):
    yield "| what | figure | aimed at |"
    yield "|---|---|---|"
    yield judged("to nginx as it comes, 16 and 64 connections", 1, k["nginx_ratio_c16"],
                 k["nginx_ratio_c64"], at_least=True)
    yield judged("to the fastest plain forwarder", 0.6, k["best_ratio_c16"], k["best_ratio_c64"],
                 at_least=True)
    yield (f"| to the Python stand-in; to litellm; 16 connections "
           f"| {number(k['reference_ratio_c16'])}; {number(k['litellm_ratio_c16'])} | – |")
    yield judged("added at one connection, p50", 150, k["added_p50_us"], form=",.0f", unit=" µs")
    yield judged("the same, p99", 1000, k["added_p99_us"], form=",.0f", unit=" µs")
    yield (f"| the same to the first byte, p50 | {number(k['ttft_added_p50_us'])} µs | – |")
    yield judged("delay of an event, 500 streams at 20/s, p99", 1000, k["event_p99_us"],
                 form=",.0f", unit=" µs")
    if k["paced"]:
        yield paced(k["paced"])
    yield judged(f"memory of 10,000 open streams, measured with {number(k['idle_streams'])}", 300,
                 k["idle_10k_mb"], form=",.0f", unit=" MB")
    yield judged("start to `/healthz`; of the static gateway", 20, k["start_ms"],
                 k["static_start_ms"], form=",.1f", unit=" ms")
    yield judged(f"calls lost of {number(k['calls_answered'])}; answers that differed", 0,
                 k["calls_lost"], k["answers_wrong"], form=",d")
    yield judged("static gateway", 6, k["static_mb"], form=",.1f", unit=" MB")


def page(k):
    lines = [*rates(k["table"]), "", *figures(k)]
    lines += ["", *(f"Skipped: {name}: {why}." for name, why in k["skipped"].items())]
    return "\n".join(lines).strip()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") if len(sys.argv) > 1 else sys.stdin as source:
        print(page(json.load(source)))
