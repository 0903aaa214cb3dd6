#!/usr/bin/env python3
"""Makes the tree of the golden image with rebuilt streams, out of what gzip, zlib and node write.

usage: golden-streams.py FOLDER
Needs gzip and node. Streams that ShaleFS knows and some that it does not, up to three layers deep; times are fixed.
"""

import io
import os
import random
import subprocess
import sys
import tarfile
import zipfile
import zlib

TIME = 1_700_000_000
NODE = "process.stdout.write(require('zlib').gzipSync(require('fs').readFileSync(0), {level: %d}))"


def run(command, data):
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def text(seed, lines):
    chance = random.Random(seed)
    words = ["stream", "block", "window", "of", "the", "is", "found", "chunk"]
    return "".join(f"{n} {' '.join(chance.choices(words, k=6))}\n" for n in range(lines)).encode()


def gzip(level, data):
    return run(["gzip", f"-{level}nc"], data)


def zipped(files, method=zipfile.ZIP_DEFLATED, level=6):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, compresslevel=level) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 24, 0, 0, 0)), data, method, level)
    return out.getvalue()


def tarred(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), TIME
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def pack(objects):
    out = b"PACK" + (2).to_bytes(4, "big") + len(objects).to_bytes(4, "big")
    for data in objects:
        size, header = len(data) >> 4, [3 << 4 | len(data) & 15]
        while size:
            header[-1] |= 128
            header.append(size & 127)
            size >>= 7
        out += bytes(header) + zlib.compress(data, 1)
    return out + bytes(20)


def document(streams):
    out = b"%PDF-1.5\n"
    for data in streams:
        stream = zlib.compress(data, 9)
        out += b"1 0 obj <</Filter/FlateDecode/Length %d>>\nstream\n" % len(stream) + stream + b"\nendstream endobj\n"
    return out


def main():
    folder = sys.argv[1]
    os.makedirs(folder)
    page, other = text(1, 300), text(2, 200)
    inner = zipped({"a.txt": page, "b.txt": other})
    middle = zipped({"inner.jar": inner, "c.txt": text(3, 100)})
    noise = random.Random(4).randbytes(3000)
    files = {
        "page": page,
        "page.9.gz": gzip(9, page),
        "page.1.gz": gzip(1, page),
        "members.gz": gzip(6, page) + gzip(6, other) + b"something else",
        "long.gz": gzip(6, text(5, 4500)),
        "node.gz": run(["node", "-e", NODE % 6], page + other),
        "node-9.tgz": run(["node", "-e", NODE % 9], tarred({"page": page, "other": other})),
        "wheel.whl": zipped({"a.txt": page, "d.txt": text(6, 150), "noise": noise}),
        "stored.zip": zipped({"page.gz": gzip(9, page)}, zipfile.ZIP_STORED, None),
        "nested.tar.gz": gzip(6, tarred({"middle.jar": middle, "page.gz": gzip(9, page), "page": page})),
        "plain.tar": tarred({"wheel.whl": zipped({"e.txt": text(7, 90)}), "page": page}),
        "loose-object": zlib.compress(b"blob %d\0" % len(other) + other, 1),
        "pack-0.pack": pack([page, other, text(8, 50)]),
        "paper.pdf": document([page, text(9, 80)]),
        "cut.gz": gzip(9, page)[:1000],
        "noise.gz": gzip(6, noise),
    }
    for name, data in files.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, 0o644)
        os.utime(path, (TIME, TIME))
    os.chmod(folder, 0o755)
    os.utime(folder, (TIME, TIME))


main()
