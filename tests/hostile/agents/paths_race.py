# Flips files, links, FIFOs and folders in each other's place as fast as it can, where the host is
# reading: the log, the work folder, its files.
import os, time

canary = os.environ["CANARY"]
home = "/home/user"
places = [home + "/logs/agent/agent.log", home + "/workdir/x.txt", home + "/workdir/sub/y.txt"]
os.makedirs(home + "/workdir/sub", exist_ok=True)
os.makedirs(home + "/made", exist_ok=True)
end = time.time() + float(os.environ.get("SECONDS_TO_RACE", "2"))
if os.fork() == 0:
    while time.time() < end:
        try:
            os.rename(home + "/workdir/sub", home + "/made/sub")
            os.symlink(os.path.dirname(canary), home + "/workdir/sub")
            os.unlink(home + "/workdir/sub")
            os.rename(home + "/made/sub", home + "/workdir/sub")
        except OSError:
            pass
    os._exit(0)
n = 0
while time.time() < end:
    for p in places:
        n += 1
        new = f"{home}/made/{n}"
        try:
            kind = n % 4
            if kind == 0:
                open(new, "w").write("honest\n")
            elif kind == 1:
                os.symlink(canary, new)
            elif kind == 2:
                os.mkfifo(new)
            else:
                os.symlink("../../../../canary", new)
            os.rename(new, p)
        except OSError:
            if os.path.lexists(new):  # Else the home fills up: another test's matter.
                os.unlink(new)
for p in places:
    os.path.lexists(p) and os.unlink(p)
    os.path.isdir(os.path.dirname(p)) and os.symlink(canary, p)
