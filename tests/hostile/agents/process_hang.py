# Hangs, takes no SIGTERM, and its children hang too, each in a session of its own.
import os, signal, time
for s in range(1, 32):
    try:
        signal.signal(s, signal.SIG_IGN)
    except OSError:
        pass
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        break
while True:
    with open("ticks", "a") as f:
        f.write("x")
    time.sleep(0.05)
