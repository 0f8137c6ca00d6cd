# Knocks at every door that it was told of, and writes down which opened and what was said there.
import os, socket

with open("reached", "w") as out:
    for target in os.environ["TARGETS"].split():
        try:
            if target.startswith("@"):
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(3)
                s.connect("\0" + target[1:])
            else:
                host, port = target.rsplit(":", 1)
                s = socket.create_connection((host, int(port)), 3)
                s.settimeout(3)
            word = s.recv(100).decode()
        except OSError:
            continue
        out.write(f"{target} {word}\n")
