# Writes models.txt with the real encoders: zlib, gzip(1) and node.
# usage: vectors.py OUTPUT
import os
import subprocess
import sys
import tempfile
import zlib

WORDS = [b"alpha ", b"beta ", b"gamma ", b"delta\n", b"the ", b"of ", b"compression ", b"stream ",
         b"0x", b"1234567 ", b"window ", b"a", b"e", b"zz", b"\t", b"chain of matches "]
NODE = """
const zlib = require('zlib'), fs = require('fs');
const input = fs.readFileSync('input');
for (const level of [1, 2, 3, 4, 5, 6, 7, 8, 9])
  for (const memLevel of [8, 9])
    fs.writeFileSync(`output.${level}.${memLevel}`, zlib.deflateRawSync(input, {level, memLevel}));
"""


def noise(count, state):
    out = bytearray()
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out.append(state >> 56)
    return bytes(out)


def text(count, seed):
    out = bytearray()
    for byte in noise(count, seed):
        out += WORDS[byte & 15]
        if byte >> 4 == 3:
            out.append(byte)
    return bytes(out[:count])


def zlib_stream(data, level, memory, strategy, window):
    encoder = zlib.compressobj(level, 8, -window, memory, strategy)
    return encoder.compress(data) + encoder.flush()


def main():
    mix = text(90000, 4) + noise(70000, 5) + bytes(40000) + text(60000, 4)
    mix += noise(30000, 6)[:100] * 90 + text(20000, 9)
    inputs = {"tiny": b"hello hello hello", "text": text(300000, 1), "short": text(3000, 2),
              "noise": noise(150000, 3), "mix": mix}
    rows = []

    def row(encoder, level, memory, strategy, window, name, stream):
        fields = [encoder, level, memory, strategy, window, name, len(stream)]
        rows.append(" ".join(map(str, fields)) + f" {zlib.crc32(stream):08x}")

    output = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp())
    for name, data in inputs.items():
        for level in range(1, 10):
            for memory in (1, 8, 9):
                row(1, level, memory, 0, 15, name, zlib_stream(data, level, memory, 0, 15))
        for strategy in (1, 2, 3, 4):
            for level in (6, 9):
                row(1, level, 8, strategy, 15, name, zlib_stream(data, level, 8, strategy, 15))
        for window in (9, 10, 12, 14):
            row(1, 6, 8, 0, window, name, zlib_stream(data, 6, 8, 0, window))
        with open("input", "wb") as file:
            file.write(data)
        for level in range(1, 10):
            command = ["gzip", f"-{level}n", "-c"]
            with open("input", "rb") as file:
                stream = subprocess.run(command, stdin=file, capture_output=True, check=True)
            row(2, level, 8, 0, 15, name, stream.stdout[10:-8])
        subprocess.run(["node", "-e", NODE], check=True)
        for level in range(1, 10):
            for memory in (8, 9):
                with open(f"output.{level}.{memory}", "rb") as file:
                    row(3, level, memory, 0, 15, name, file.read())
    with open(output, "w") as file:
        file.write("# Streams of zlib 1.2.13, GNU gzip 1.12 and node 20 (zlib 1.3.1-e00f703), made by\n")
        file.write("# crates/shale-deflate/tests/vectors.py.\n")
        file.write("# encoder level memory-level strategy window-bits input length crc32\n")
        file.write("\n".join(rows) + "\n")


main()
