# Talks to its model without a pause, beside children that try to get away.
import os, socket

for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        os.execlp("sleep", "sleep", os.environ["MARK"])
body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"go on"}]}'
for _ in range(20):
    try:
        with socket.create_connection(("127.0.0.1", 7000), 10) as s:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                      b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            while s.recv(65536):
                pass
    except OSError:
        pass
