# Serves at a fixed port of all addresses, and asks there who it is: another's word is a collision.
import os, socket, threading, time

me = open("/proc/sys/kernel/random/uuid").read().strip()
server = socket.create_server(("0.0.0.0", 8123))


def serve():
    while True:
        c, _ = server.accept()
        c.sendall(me.encode())
        c.close()


threading.Thread(target=serve, daemon=True).start()
wrong = 0
end = time.time() + 2
while time.time() < end:
    for host in ("127.0.0.1", "10.0.2.100"):
        try:
            with socket.create_connection((host, 8123), 3) as c:
                c.settimeout(3)
                wrong += c.recv(100).decode() != me
        except OSError as e:
            wrong += 1
            print(host, e)
    time.sleep(0.01)
for host in os.environ["OUTER"].split():
    try:
        with socket.create_connection((host, 8123), 2) as c:
            c.settimeout(2)
            print("reached by the host's address:", c.recv(100))
            wrong += 1
    except OSError:
        pass
open("wrong", "w").write(f"{wrong}\n")
