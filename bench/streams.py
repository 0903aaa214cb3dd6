#!/usr/bin/env python3
"""Writes gzip files that many encoders made of parts of real files, whole and damaged, to compare what comes back.

usage: streams.py FOLDER COUNT [SOURCE]      SOURCE: a tree whose files are cut up, by default /usr/share

FOLDER gets one directory for each encoder that is there: Python's zlib at all levels, memory levels and strategies, GNU
gzip, node, Java, Go, 7-Zip (7zz), and the Python packages zlib_ng, deflate (libdeflate), isal and zopfli. COUNT
files are shared out among them; a tenth is damaged: bytes changed, cut off, or appended. The same arguments and
programs give the same files.

Then pack FOLDER with --recompress, which reads the image back, extract it and compare:

    shale create --recompress=on -v FOLDER -o s.shale
    mkdir copy && shale extract s.shale -C copy && diff -r FOLDER copy
"""

import os
import random
import shutil
import subprocess
import sys
import zlib

JAVA = """
import java.io.*; import java.nio.file.*; import java.util.zip.*;
public class Streams { public static void main(String[] a) throws Exception {
    for (String name : new BufferedReader(new InputStreamReader(System.in)).readLine().split(" ")) {
      byte[] plain = Files.readAllBytes(Path.of(name));
      Deflater d = new Deflater(1 + Math.abs(name.hashCode()) % 9, true);
      d.setInput(plain); d.finish();
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      byte[] part = new byte[65536];
      while (!d.finished()) { out.write(part, 0, d.deflate(part)); }
      Files.write(Path.of(name + ".raw"), out.toByteArray()); d.end();
    } } }
"""
GO = """
package main
import ("bufio"; "bytes"; "compress/flate"; "os"; "strings")
func main() { in := bufio.NewReader(os.Stdin); line, _ := in.ReadString(10)
  for i, name := range strings.Fields(line) { plain, _ := os.ReadFile(name); var out bytes.Buffer
    w, _ := flate.NewWriter(&out, 1 + i % 9); w.Write(plain); w.Close()
    os.WriteFile(name + ".raw", out.Bytes(), 0644) } }
"""
NODE = """
const zlib = require('zlib'), fs = require('fs');
fs.readFileSync(0, 'utf8').trim().split(' ').forEach((name, i) => fs.writeFileSync(name + '.raw',
  zlib.deflateRawSync(fs.readFileSync(name), {level: 1 + i % 9, memLevel: 8 + i % 2})));
"""


SOURCES_MAX = 3000


def sources(root):
    """Files to cut pieces from, in a fixed order."""
    found = []
    for top, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path) and 200 <= os.path.getsize(path) <= 8 << 20:
                found.append(path)
                if len(found) == SOURCES_MAX:
                    return found
    return found


def pieces(paths, chance, count):
    """Parts of files of 100 bytes to 300 KB, most of them short."""
    while count:
        path = chance.choice(paths)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if data[:2] == b"\x1f\x8b":
            try:
                data = zlib.decompress(data, 31)
            except zlib.error:
                pass
        want = int(100 * 3000 ** chance.random())
        start = chance.randrange(max(1, len(data) - want))
        if data[start:start + want]:
            count -= 1
            yield data[start:start + want]


def member(raw, plain):
    """A member of gzip around a raw stream."""
    return b"\x1f\x8b\x08" + bytes(7) + raw + zlib.crc32(plain).to_bytes(4, "little") + len(plain).to_bytes(4, "little")


def damaged(data, chance):
    data = bytearray(data)
    kind = chance.randrange(3)
    if kind == 0:
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del data[chance.randrange(len(data)):]
    else:
        data += chance.randbytes(chance.randrange(1, 300))
    return bytes(data)


def of_zlib(plain, n, chance):
    level, memory = 1 + n % 9, chance.choice([8, 8, 8, 9, 9, 1, 3, 5, 7])
    strategy, window = chance.choice([0] * 8 + [1, 2, 3, 4]), chance.choice([15] * 8 + [9, 10, 11, 12, 13, 14])
    encoder = zlib.compressobj(level, 8, -window, memory, strategy)
    if n % 11 == 0:
        # Written in pieces, sometimes flushed between them.
        half, flush = len(plain) // 2, chance.choice([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_NO_FLUSH])
        return encoder.compress(plain[:half]) + encoder.flush(flush) + encoder.compress(plain[half:]) + encoder.flush()
    return encoder.compress(plain) + encoder.flush()


def of_gzip(plain, n, _):
    run = subprocess.run(["gzip", f"-{1 + n % 9}nc"], input=plain, capture_output=True, check=True)
    return run.stdout[10:-8]


def of_zlib_ng(plain, n, _):
    from zlib_ng import zlib_ng
    encoder = zlib_ng.compressobj(1 + n % 9, 8, -15)
    return encoder.compress(plain) + encoder.flush()


def of_libdeflate(plain, n, _):
    import deflate
    return bytes(deflate.deflate_compress(plain, 1 + n % 12))


def of_isal(plain, n, _):
    from isal import isal_zlib
    encoder = isal_zlib.compressobj(n % 4, 8, -15)
    return encoder.compress(plain) + encoder.flush()


def of_zopfli(plain, *_):
    from zopfli import ZOPFLI_FORMAT_DEFLATE, ZopfliCompressor
    encoder = ZopfliCompressor(ZOPFLI_FORMAT_DEFLATE, iterations=3)
    return encoder.compress(plain[:20_000]) + encoder.flush()


def by_program(command, folder, plains):
    """Streams that a program writes beside files that it is told of."""
    names = []
    for n, plain in enumerate(plains):
        names.append(os.path.join(folder, f"plain-{n}"))
        with open(names[-1], "wb") as file:
            file.write(plain)
    for start in range(0, len(names), 500):
        part = names[start:start + 500]
        subprocess.run(command, input=(" ".join(part) + "\n").encode(), check=True)
    for name in names:
        with open(name + ".raw", "rb") as file:
            yield file.read()
        os.remove(name)
        os.remove(name + ".raw")


def by_7zip(program, folder, plains):
    for n, plain in enumerate(plains):
        command = [program, "a", "-tgzip", f"-mx={(1, 5, 9)[n % 3]}", "-si", "-so", "x.gz"]
        run = subprocess.run(command, input=plain, capture_output=True, check=True)
        at = 10 + (run.stdout.index(b"\0", 10) - 9 if run.stdout[3] & 8 else 0)
        yield run.stdout[at:-8]


def is_there(make):
    try:
        make(b"is it there?", 5, random.Random(1))
        return True
    except (ImportError, OSError):
        return False


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    paths = sources(sys.argv[3] if len(sys.argv) > 3 else "/usr/share")
    os.makedirs(folder)
    work = os.path.join(folder, ".work")
    os.makedirs(work)
    # Encoders that call themselves in this process, and their share; then programs.
    makers = [("zlib", of_zlib, 40), ("gzip", of_gzip, 10), ("zlib-ng", of_zlib_ng, 10),
              ("libdeflate", of_libdeflate, 8), ("isal", of_isal, 4), ("zopfli", of_zopfli, 1)]

    def one_by_one(make):
        return lambda plains: (make(plain, n, random.Random(n)) for n, plain in enumerate(plains))

    jobs = [(name, share, one_by_one(make)) for name, make, share in makers if is_there(make)]
    if shutil.which("node"):
        jobs.append(("node", 10, lambda plains: by_program(["node", "-e", NODE], work, plains)))
    if shutil.which("javac"):
        with open(os.path.join(work, "Streams.java"), "w") as file:
            file.write(JAVA)
        subprocess.run(["javac", "-d", work, os.path.join(work, "Streams.java")], check=True)
        jobs.append(("java", 8, lambda plains: by_program(["java", "-cp", work, "Streams"], work, plains)))
    if shutil.which("go"):
        with open(os.path.join(work, "streams.go"), "w") as file:
            file.write(GO)
        program = os.path.join(work, "streams")
        subprocess.run(["go", "build", "-o", program, os.path.join(work, "streams.go")], check=True)
        jobs.append(("go", 8, lambda plains: by_program([program], work, plains)))
    if shutil.which("7zz"):
        jobs.append(("7zip", 1, lambda plains: by_7zip("7zz", work, plains)))
    total, made = sum(share for _, share, _ in jobs), 0
    for index, (name, share, make) in enumerate(jobs):
        chance, own = random.Random(index), count * share // total
        plains = list(pieces(paths, chance, own))
        if name == "zopfli":
            plains = [plain[:20_000] for plain in plains]
        os.makedirs(os.path.join(folder, name))
        for n, (plain, raw) in enumerate(zip(plains, make(plains))):
            data = member(raw, plain)
            is_damaged = n % 10 == 3
            path = os.path.join(folder, name, f"{n:06}" + (".damaged" if is_damaged else ".gz"))
            with open(path, "wb") as file:
                file.write(damaged(data, chance) if is_damaged else data)
            made += 1
        print(f"{name}: {own} streams", flush=True)
    shutil.rmtree(work)
    print(f"{made} streams of {len(jobs)} encoders")


main()
