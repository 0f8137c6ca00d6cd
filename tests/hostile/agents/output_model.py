# Says to its model what breaks a careless reader, and hears it back.
import json, socket, time

odd = "emoji \U0001f600 \u2028\u2029 \x00 \ud800 \udc00 \x7f \ufeff"


def post(body):
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", 7000), 30) as s:
        s.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while s.recv(65536):
            pass


for stream in (False, True):
    post(json.dumps({"model": "m", "stream": stream,
                     "messages": [{"role": "user", "content": odd}]}).encode())
    post(json.dumps({"model": "m", "stream": stream, "messages": [
        {"role": "user", "content": odd.encode("utf-8", "replace").decode() * 20000}]},
        ensure_ascii=True).encode())
post(b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe\xed\xa0\x80"}]}')
post(b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * (4 << 20) + b'"}]}')
