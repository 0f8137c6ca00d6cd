# Writers that want to outlive the agent: a new session, a double fork, no SIGTERM or SIGHUP, many.
import os, signal, time
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(s, signal.SIG_IGN)
        for fd in range(3):
            os.close(fd)
        while True:
            try:
                os.makedirs("/home/user/logs/verifier", exist_ok=True)
                with open("/home/user/logs/verifier/reward.txt", "w") as f:
                    f.write("1")
            except OSError:
                pass
            time.sleep(0.001)
time.sleep(0.2)
