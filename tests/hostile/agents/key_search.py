# Looks for the endpoint's real key (it knows it backwards only) wherever a process can look, and
# provokes answers that may hold it.
import os, socket, stat

key = os.environ["YEK"][::-1].encode()
found = []


def look(where, data):
    if key in data:
        found.append(where)


def read(path, limit=1 << 20):
    try:
        with open(path, "rb") as f:
            return f.read(limit)
    except OSError:
        return b""


look("environment", "\0".join(f"{k}={v}" for k, v in os.environ.items() if k != "YEK").encode())
for pid in [p for p in os.listdir("/proc") if p.isdigit()] + ["self"]:
    for name in ("environ", "cmdline", "comm", "status", "mountinfo", "maps", "stack", "auxv"):
        look(f"/proc/{pid}/{name}", read(f"/proc/{pid}/{name}"))
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            look(f"/proc/{pid}/fd/{fd}", os.readlink(f"/proc/{pid}/fd/{fd}").encode())
    except OSError:
        pass
    if pid not in ("self", str(os.getpid())):
        try:
            with open(f"/proc/{pid}/mem", "rb", 0) as mem:
                for line in read(f"/proc/{pid}/maps").decode().splitlines():
                    a, b = (int(x, 16) for x in line.split()[0].split("-"))
                    if line.split()[1].startswith("r") and b - a < 1 << 26 and a < 1 << 62:
                        mem.seek(a)
                        try:
                            look(f"memory of {pid}", mem.read(b - a))
                        except OSError:
                            pass
        except OSError:
            pass
for top in ("/home", "/run", "/tmp", "/etc", "/dev", "/var", "/opt", "/sys/fs/cgroup"):
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(path).st_mode) and "key_search" not in name:
                look(path, read(path))

BODY = '{"model":"m","stream":%s,"messages":[{"role":"user","content":"%s"}]}'


def ask(text):
    answer = b""
    with socket.create_connection(("127.0.0.1", 7000), 10) as s:
        s.settimeout(10)
        s.sendall(text)
        try:
            while True:
                more = s.recv(65536)
                if not more:
                    break
                answer += more
        except OSError:
            pass
    return answer


def post(path, body, more=""):
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
            f"{more}\r\n{body}").encode()


answers = 0
for kind in ("401", "500", "header", "json", "stream", "event", "split", "cut", "reason"):
    for stream in ("false", "true"):
        a = ask(post("/v1/chat/completions", BODY % (stream, kind)))
        answers += b"HTTP/1.1 " in a
        look(f"answer to {kind}, stream {stream}", a)
for text in (b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             b"TRACE /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             b"garbage\r\n\r\n", post("/v1/chat/completions", "{"),
             post("/v1/chat/completions", BODY % ("false", "json"), "Authorization: Bearer wrong\r\n"),
             post("/v1/chat/completions", BODY % ("false", "json"), "Host: elsewhere\r\n")):
    look(f"answer to {text[:40]}", ask(text))
with open("found", "w") as f:
    f.write("".join(w + "\n" for w in found) or "nothing\n")
with open("answers", "w") as f:
    f.write(f"{answers}\n")
