# Hundreds of children that nobody waits for, and orphans of orphans.
import os, time
for _ in range(200):
    if os.fork() == 0:
        os._exit(0)
for _ in range(50):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3600)
            os._exit(0)
        os._exit(0)
time.sleep(0.2)
