#!/usr/bin/env python3
"""How packing gains from threads, for each codec: time, throughput, speed-up and efficiency.

Builds the same image with 1, 2, ... threads, in turn, several rounds; prints a table of medians.
The tree should fit into the page cache: it is read once before. Images of one codec must be equal
whatever the threads, which is checked.

usage: threads.py --shale BINARY [--threads N] [--rounds N] [--level N] TREE
"""
import argparse
import hashlib
import os
import statistics
import subprocess
import tempfile
import time

CODECS = ["stored", "lz4", "zstd:3", "zstd:15", "brotli:9", "lzma:6"]


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "blake2b").hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shale", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("tree")
    args = parser.parse_args()
    plain = sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(args.tree) for name in names
        if not os.path.islink(os.path.join(folder, name))
    )
    print("| codec | threads | seconds | MB/s | speed-up | efficiency |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        image = os.path.join(scratch, "x.shale")
        for codec in CODECS:
            counts = range(1, args.threads + 1)
            times = {count: [] for count in counts}
            digests = set()
            for round_number in range(args.rounds + 1):
                for count in counts:
                    command = [
                        args.shale, "create", args.tree, "-o", image, "-q", "-f", "--no-verify",
                        f"-{args.level}", "-C", codec, "--threads", str(count),
                    ]
                    start = time.monotonic()
                    subprocess.run(command, check=True)
                    if round_number > 0:  # the first warms the page cache
                        times[count].append(time.monotonic() - start)
                    digests.add(digest(image))
            if len(digests) != 1:
                raise SystemExit(f"{codec}: threads change the image")
            alone = statistics.median(times[1])
            for count in counts:
                seconds = statistics.median(times[count])
                gain = alone / seconds
                print(f"| {codec} | {count} | {seconds:.2f} | {plain / seconds / 1e6:.0f} "
                      f"| {gain:.2f} | {gain / count:.0%} |", flush=True)


if __name__ == "__main__":
    main()
