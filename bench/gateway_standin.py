# SPDX-License-Identifier: BSD-3-Clause
"""A recording proxy as it is commonly written in Python: FastAPI, uvicorn, httpx.

gateway_standin.py UPSTREAM_URL PORT TRACE

For the gateway's bench. It asks for log-probabilities, relays the stream's lines as they come, reads
each event, and appends one JSON line a call.
"""
import json
import sys
import time

import fastapi
import fastapi.responses
import httpx
import uvicorn

UPSTREAM, PORT, TRACE = sys.argv[1:]
TIMEOUT_S = 600
app = fastapi.FastAPI()
trace = open(TRACE, "a", buffering=1, encoding="utf-8")
turns = 0


@app.get("/healthz")
async def healthz():
    return {"status": "ok"}


def take(record, event):
    for choice in event.get("choices", []):
        delta = choice.get("delta") or {}
        record["content"] += delta.get("content") or ""
        record["finish_reason"] = choice.get("finish_reason") or record["finish_reason"]
        for row in (choice.get("logprobs") or {}).get("content") or []:
            record["logprobs"].append(row)
            record["completion_tokens"].append(row["token"])
            record["per_token_logps"].append(row["logprob"])
    record["usage"] = event.get("usage") or record["usage"]


async def relay(body, record, began):
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        async with client.stream("POST", f"{UPSTREAM}/chat/completions", json=body,
                                 headers={"Authorization": "Bearer none"}) as answer:
            async for line in answer.aiter_lines():
                yield line + "\n"
                if line.startswith("data: ") and line != "data: [DONE]":
                    take(record, json.loads(line[len("data: "):]))
    record["latency_s"] = time.time() - began
    trace.write(json.dumps(record) + "\n")


@app.post("/v1/chat/completions")
async def chat(request: fastapi.Request):
    global turns
    turns += 1
    body = await request.json()
    body.setdefault("logprobs", True)
    body.setdefault("top_logprobs", 5)
    record = {"turn": turns, "request": body, "content": "", "logprobs": [],
              "completion_tokens": [], "per_token_logps": [], "finish_reason": None, "usage": None}
    return fastapi.responses.StreamingResponse(relay(body, record, time.time()),
                                               media_type="text/event-stream")


uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="error")
