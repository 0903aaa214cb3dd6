#!/usr/bin/env python3
"""Reads images behind nginx on a slow link: round trips, bytes and seconds, and how far the bars are reached.

The link is a proxy in front of nginx: a connection takes a round trip to open, bytes arrive half a delay later in each
direction, and all answers together share a bandwidth. Slow start of TCP is not imitated. Every run begins without a
cache. Medians of --rounds; the most of all files for the random ones.

usage: remote.py --shale BINARY --scratch DIR [--delay 50] [--link 100] [--rounds 3] [--level 6] [--only REGEX]
                 [--rootfs TREE] [--versions TREE] [--day TREE]

--delay is a round trip in milliseconds, --link megabytes a second. Images are made once in DIR, and used again by the
next run. Needs nginx, root to mount, and for --versions `shalefs` with its compiled module (a wheel, or PYTHONPATH).
"""
import argparse
import asyncio
import collections
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

RANDOM_FILES = 20


async def serve(upstream, delay, bandwidth):
    """The link: prints its port, and ends with its standard input."""
    free_at = 0.0

    async def pump(reader, writer, due):
        """Passes bytes on, each piece when it is due."""
        waiting, more = collections.deque(), asyncio.Event()

        async def send():
            while True:
                while not waiting:
                    more.clear()
                    await more.wait()
                at, data = waiting.popleft()
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                if not data:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()

        sender = asyncio.ensure_future(send())
        data = b"-"
        while data:
            try:
                data = await reader.read(1 << 17)
            except ConnectionError:
                data = b""
            waiting.append((due(len(data)), data))
            more.set()
        try:
            await sender
        except ConnectionError:
            pass

    async def connection(reader, writer):
        opened = time.monotonic() + delay
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", upstream, limit=1 << 22)

        def answered(count):
            nonlocal free_at
            free_at = max(free_at, time.monotonic()) + count / bandwidth
            return free_at + delay / 2

        await asyncio.gather(pump(reader, far_writer, lambda _: max(opened, time.monotonic()) + delay / 2),
                             pump(far_reader, writer, answered))

    server = await asyncio.start_server(connection, "127.0.0.1", 0, limit=1 << 22)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


class Web:
    """nginx in front of the scratch folder, and the link in front of nginx."""

    def __init__(self, scratch, delay, bandwidth):
        folder = scratch / "nginx"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        user = "user root;" if os.geteuid() == 0 else ""
        paths = "".join(f"{name}_temp_path {folder}/{name};" for name in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "conf").write_text(
            f"{user} worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error; events {{}}\n"
            f"http {{ log_format short '$status $body_bytes_sent'; access_log {folder}/log short;\n"
            f"{paths} sendfile on;\nserver {{ listen 127.0.0.1:{port}; root {scratch}; keepalive_timeout 60; }} }}\n")
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        self.log = folder / "log"
        self.nginx = subprocess.Popen([nginx, "-e", folder / "error", "-c", folder / "conf"])
        self.link = subprocess.Popen([sys.executable, __file__, "--link-of", str(port), str(delay), str(bandwidth)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.link.stdout.readline())
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            raise SystemExit(f"nginx does not listen; see {folder}/error")

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def sent(self):
        """Answers so far, and the bytes of their bodies."""
        sizes = [int(line.split()[1]) for line in self.log.read_text().splitlines()]
        return len(sizes), sum(sizes)

    def close(self):
        self.link.stdin.close()
        self.link.wait()
        self.nginx.terminate()
        self.nginx.wait()


class Bench:
    def __init__(self, args):
        self.args, self.missed = args, 0
        args.scratch.mkdir(parents=True, exist_ok=True)
        self.web = Web(args.scratch.resolve(), args.delay / 1000, args.link * 1e6)

    def image(self, name, tree):
        path = self.args.scratch / name
        if not path.exists():
            subprocess.run([self.args.shale, "create", "-q", f"-{self.args.level}", tree, "-o", path], check=True)
        print(f"\n{name}: {path.stat().st_size} bytes", flush=True)
        return path

    def command(self, *words):
        """Runs the command without a cache: seconds, requests, round trips, bytes that nginx sent, bytes of output."""
        _, before = self.web.sent()
        start = time.monotonic()
        run = subprocess.Popen([self.args.shale, "-v", "--cache-size", "0", *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        out = 0
        while data := run.stdout.read(1 << 20):
            out += len(data)
        seconds = time.monotonic() - start
        told = run.stderr.read().decode()
        if run.wait():
            raise SystemExit(told)
        found = re.search(r"(\d+) requests in (\d+) round trips", told)
        time.sleep(0.05)  # nginx writes its log after the answer.
        return seconds, int(found[1]), int(found[2]), self.web.sent()[1] - before, out

    def bar(self, what, value, limit, at_most=True):
        reached = value <= limit if at_most else value >= limit
        self.missed += not reached
        print(f"  {what}: {value:.3g}; {'at most' if at_most else 'at least'} {limit}: "
              f"{'reached' if reached else 'missed'}", flush=True)

    def listing(self, tree):
        path = self.image("rootfs.shale", tree)
        runs = [self.command("ls", "-R", self.web.url(path.name)) for _ in range(self.args.rounds)]
        seconds, requests, trips, sent, _ = map(statistics.median, zip(*runs))
        print(f"ls -R: {seconds:.2f} s, {requests:.0f} requests, {trips:.0f} round trips, {sent:.0f} bytes")
        self.bar("round trips", trips, 6)
        self.bar("bytes", sent, 400_000)

    def random_files(self, tree):
        import shalefs
        path = self.image("versions.shale", tree)
        with shalefs.open(path) as image:
            files = sorted(name for name in image.find() if image.isfile(name) and not image.islink(name))
        chosen = random.Random(7).sample(files, RANDOM_FILES)
        rows = []
        for name in chosen:
            needed = needed_bytes(path, name)
            seconds, requests, trips, sent, _ = self.command("cat", self.web.url(path.name), name)
            rows.append((seconds, requests, trips, sent, needed, sent / needed))
        print(f"cat of one file, {len(rows)} files: median, most")
        for title, column in zip(("seconds", "requests", "round trips", "bytes sent", "bytes needed", "ratio"),
                                 zip(*rows)):
            print(f"  {title:12} {statistics.median(column):10.2f} {max(column):10.2f}")
        self.bar("round trips, most", max(row[2] for row in rows), 5)
        self.bar("bytes sent for each byte needed, median", statistics.median(row[5] for row in rows), 1.3)
        self.bar("bytes sent for each byte needed, most", max(row[5] for row in rows), 1.3)

    def day(self, tree):
        path = self.image("day.shale", tree)
        for image, what, pattern in ((path, "a day of logs, all files", "*/*"),
                                     (self.noise(), "a file of noise", "noise")):
            runs = [self.command("cat", self.web.url(image.name), pattern) for _ in range(self.args.rounds)]
            seconds, requests, trips, sent, out = map(statistics.median, zip(*runs))
            print(f"cat of {what}: {seconds:.2f} s, {requests:.0f} requests, {trips:.0f} round trips, {sent:.0f} bytes "
                  f"sent, {out:.0f} bytes of output")
            self.bar("MB/s of output", out / seconds / 1e6, 0.8 * self.args.link, at_most=False)

    def noise(self):
        """An image whose bytes do not compress, so that all of them are on the link."""
        path = self.args.scratch / "noise.shale"
        if not path.exists():
            folder = self.args.scratch / "noise"
            folder.mkdir(exist_ok=True)
            generator = random.Random(3)
            (folder / "noise").write_bytes(b"".join(generator.randbytes(1 << 20) for _ in range(300)))
            subprocess.run([self.args.shale, "create", "-q", "-1", folder, "-o", path], check=True)
            shutil.rmtree(folder)
        return path

    def program(self, tree):
        path = self.image("rootfs.shale", tree)
        point = self.args.scratch / "mnt"
        point.mkdir(exist_ok=True)
        runs = []
        for _ in range(self.args.rounds):
            count, before = self.web.sent()
            start = time.monotonic()
            subprocess.run([self.args.shale, "mount", "--cache-size", "0", self.web.url(path.name), point], check=True)
            try:
                mounted = time.monotonic()
                subprocess.run(["chroot", point, "/usr/bin/python3", "-c", "import json"], check=True)
                end = time.monotonic()
            finally:
                subprocess.run([self.args.shale, "umount", point], check=True)
            after, sent = self.web.sent()
            runs.append((end - start, mounted - start, after - count, sent - before))
        seconds, mounted, requests, sent = map(statistics.median, zip(*runs))
        print(f"mount, import json: {seconds:.2f} s, {mounted:.2f} s of them to mount; {requests:.0f} requests, "
              f"{sent:.0f} bytes")
        self.bar("seconds", seconds, 3)


def needed_bytes(path, name):
    """Stored bytes that the module reads to open a local image and read one file of it."""
    import shalefs

    class Counting:
        def __init__(self):
            self.fd = os.open(path, os.O_RDONLY)
            self.size = os.fstat(self.fd).st_size
            self.count = 0

        def read_at(self, offset, length):
            self.count += length
            return os.pread(self.fd, length, offset)

        def close(self):
            os.close(self.fd)

    source = Counting()
    with shalefs.FileSystem(source) as image:
        image.read_bytes(name)
    return source.count


def main():
    if sys.argv[1:2] == ["--link-of"]:
        return asyncio.run(serve(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shale", required=True)
    parser.add_argument("--scratch", required=True, type=pathlib.Path)
    parser.add_argument("--delay", type=float, default=50)
    parser.add_argument("--link", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--level", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("--rootfs")
    parser.add_argument("--versions")
    parser.add_argument("--day")
    args = parser.parse_args()
    args.shale = shutil.which(args.shale) or args.shale
    bench = Bench(args)
    try:
        for tree, task in ((args.rootfs, bench.listing), (args.versions, bench.random_files), (args.day, bench.day),
                           (args.rootfs, bench.program)):
            if tree and re.search(args.only, task.__name__):
                task(tree)
    finally:
        bench.web.close()
    return bench.missed > 0


if __name__ == "__main__":
    sys.exit(main())
