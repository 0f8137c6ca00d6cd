# A thousand processes, as far as the sandbox lets it; all live on when it ends.
import os, time
made = refused = 0
for _ in range(1000):
    try:
        pid = os.fork()
    except OSError:
        refused += 1
        continue
    if pid == 0:
        os.setsid()
        time.sleep(3600)
        os._exit(0)
    made += 1
with open("counts", "w") as f:
    f.write(f"{made} {refused}\n")
