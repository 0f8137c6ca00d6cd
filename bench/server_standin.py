# SPDX-License-Identifier: BSD-3-Clause
"""A server as it is commonly written in Python: FastAPI, uvicorn, one worker.

server_standin.py PORT TOOLS_JSON

For the server's bench: it answers /health and tools/list with what `snaffle serve` answers.
"""
import json
import sys

import fastapi
import uvicorn

PORT, TOOLS = sys.argv[1:]
app = fastapi.FastAPI()
with open(TOOLS, encoding="utf-8") as file:
    tools = json.load(file)


@app.get("/health")
async def health():
    return {"status": "healthy"}


@app.post("/mcp")
async def mcp(request: fastapi.Request):
    message = await request.json()
    if message.get("jsonrpc") != "2.0" or message.get("method") != "tools/list":
        return {"jsonrpc": "2.0", "id": message.get("id"),
                "error": {"code": -32601, "message": "Method not found", "data": None}}
    return {"jsonrpc": "2.0", "id": message.get("id"), "result": tools}


uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="error", access_log=False)
