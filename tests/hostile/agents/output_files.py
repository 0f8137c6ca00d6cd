# Files with names and texts that break a careless reader.
import os

names = [b"\xff\xfe", b"\xed\xa0\x80.txt", "\u2028.txt".encode(), "\U0001f600.txt".encode(), b"a\nb",
         b"a\tb", b"\x1b[2Jx", b"'\"\\$(id)`id`", b"-rf", b"%s%n", b"..x", b"x" * 255, b"...", b"~",
         "\u202egpj.exe".encode(), b"CON", b"\x01\x02"]
texts = [b"\xff\xfe\x00", b"\xed\xa0\x80", "\u2028\u2029\U0001f600".encode(), b"\\u0000\\ud800",
         b"\x00" * 1000, b"{\"a\": \"\\ud83d\"}", b"line\r\nline\r", b"\xc0\x80", b"\xf0\x9f\x98"]
for i, n in enumerate(names):
    with open(n, "wb") as f:
        f.write(texts[i % len(texts)])
for i in range(3000):
    os.makedirs(b"many/" + str(i).encode(), exist_ok=True)
    open(b"many/" + b"\xfe" * 200 + str(i).encode(), "w").close()
for _ in range(2000):  # Far beyond the longest path.
    os.mkdir(b"deep")
    os.chdir(b"deep")
