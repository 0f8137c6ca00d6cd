#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An agent's model calls, for scripts: call.py N [WORD] makes N streamed calls, one by one."""
import json
import os
import sys
import urllib.request

for n in range(int(sys.argv[1])):
    request = urllib.request.Request(
        os.environ["BASE_URL"] + "/chat/completions",
        json.dumps({"model": "m", "stream": True,
                    "messages": [{"role": "user", "content": f"call {n} {' '.join(sys.argv[2:])}"}]}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["TOKEN"]})
    with urllib.request.urlopen(request) as answer:
        print(answer.status, len(answer.read()), flush=True)
