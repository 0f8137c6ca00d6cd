# Floods its output: lines of 4 MB, binary bytes, and every character that breaks a careless reader.
import os, sys

out = sys.stdout.buffer
size = int(os.environ["MEGABYTES"]) << 20
odd = ("emoji \U0001f600 \u2028 \u2029 \ufeff \u0085 \x00 \x1b[31m \x7f \\u0000 \\ud800 \" \\ \r"
       .encode() + b"\xed\xa0\x80 \xed\xb0\x80 \xff\xfe \xc0\xaf \xf4\x90\x80\x80 \xe2\x82")
line = (odd * ((4 << 20) // len(odd) + 1))[:4 << 20] + b"\n"
binary = os.urandom(1 << 20)
written = 0
while written < size:
    written += out.write(line)
    written += out.write(binary)
out.write(odd + b"THE-END")
out.flush()
