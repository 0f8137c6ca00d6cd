# SPDX-License-Identifier: BSD-3-Clause
"""A WebSocket client of which a test says every frame."""
import json
import os
import socket
import struct

from programs import PATIENCE_S


class Closed(Exception):
    """The server closed: its status, or None for an end without one."""


class RawSocket:
    def __init__(self, port, path, headers=()):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.buffer, self.pongs = b"", []
        lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: Upgrade",
                 "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *headers]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.buffer:
            more = self.socket.recv(65536)
            if not more:
                raise Closed(self.buffer)
            self.buffer += more
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])

    def frame(self, opcode, payload, fin=True):
        mask = os.urandom(4)
        n = len(payload)
        size = (bytes([0x80 | n]) if n < 126 else bytes([0xfe]) + struct.pack(">H", n)
                if n < 65536 else bytes([0xff]) + struct.pack(">Q", n))
        key = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
        masked = (int.from_bytes(payload, "big") ^ key).to_bytes(n, "big")
        self.socket.sendall(bytes([opcode | (0x80 if fin else 0)]) + size + mask + masked)

    def send(self, text, may_fail=False):
        try:
            self.frame(1, text.encode())
        except OSError:
            if not may_fail:
                raise

    def _more(self, n):
        pieces, have = [self.buffer], len(self.buffer)
        while have < n:
            more = self.socket.recv(1 << 20)
            if not more:
                raise Closed(None)
            pieces.append(more)
            have += len(more)
        whole = b"".join(pieces)
        self.buffer = whole[n:]
        return whole[:n]

    def _frame(self):
        first, n = self._more(2)
        assert n < 128, "a server does not mask"
        if n == 126:
            n = struct.unpack(">H", self._more(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self._more(8))[0]
        return first, self._more(n)

    def receive(self):
        """The next message; pongs are kept, pings answered, a close is raised."""
        while True:
            first, payload = self._frame()
            assert first & 0x80, "the server sends whole messages"
            opcode = first & 0xf
            if opcode == 1:
                return payload.decode()
            if opcode == 10:
                self.pongs.append(payload)
                if getattr(self, "wanted", None) == payload:
                    return None
            elif opcode == 9:
                self.frame(10, payload)
            else:
                raise Closed(int.from_bytes(payload[:2], "big") if payload else None)

    def wait_pong(self, payload):
        self.wanted = payload
        while payload not in self.pongs:
            assert self.receive() is None, "no message was due"

    def talk(self, message):
        self.send(message if isinstance(message, str) else json.dumps(message, ensure_ascii=False))
        return json.loads(self.receive())

    def closed(self):
        """Reads to the server's close; its status."""
        while True:
            try:
                self.receive()
            except Closed as e:
                return e.args[0]

    def drop(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
