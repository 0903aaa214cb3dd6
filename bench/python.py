#!/usr/bin/env python3
"""Reads images through Python beside zipfile, ratarmount (as a library, over tar.zst) and plain files.

Each task runs in a process of its own, all ways in turn, a round after the other, so that what else the machine does
falls on all alike. Caches are warm. Prints the medians of CPU seconds (user and system, all threads) and of wall
seconds, and the ratios that are aimed at.

usage: python.py --shale BINARY --scratch DIR [--level N] [--rounds 5] [--entries 2000000] [--only REGEX] TREE

Needs `shalefs` with its compiled module (a wheel, or PYTHONPATH), and for the peer `ratarmountcore` and `indexed_zstd`.
Archives and images are made once in DIR, and used again by the next run.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
import zipfile

SMALL = 64 << 10
SMALL_COUNT = 10_000


def regular(tree):
    """Paths of the regular files of a tree, relative to it, with their sizes."""
    found = []
    for top, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(top, name)
            if not os.path.islink(path) and os.path.isfile(path):
                found.append((os.path.relpath(path, tree), os.path.getsize(path)))
    return sorted(found)


def small_paths(scratch):
    paths = [path for path, size in json.loads((scratch / "files.json").read_text()) if size <= SMALL]
    return random.Random(1).choices(paths, k=SMALL_COUNT)


def plain_everything(tree, _scratch):
    total = 0
    for top, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(top, name)
            if not os.path.islink(path) and os.path.isfile(path):
                with open(path, "rb") as file:
                    total += len(file.read())
    return total


def zip_everything(_tree, scratch):
    with zipfile.ZipFile(scratch / "x.zip") as archive:
        return sum(len(archive.read(entry)) for entry in archive.infolist())


def shale_everything(_tree, scratch):
    """A file after the other, in the order of the listing."""
    import shalefs
    with shalefs.open(scratch / "x.shale") as image:
        return sum(len(image.read_bytes(path)) for path in image.find()
                   if image.isfile(path) and not image.islink(path))


def shale_partitions(_tree, scratch):
    """All files in the order of storage and on one thread, as a worker of a cluster reads them."""
    import shalefs
    from shalefs import distributed
    with shalefs.open(scratch / "x.shale") as image:
        return sum(len(data) for part in distributed.partitions(image, 1) for _, data in part.read())


def shale_entries(_tree, scratch):
    """A file after the other, by entries that spare the look-up, as those of zipfile do."""
    import shalefs
    with shalefs.open(scratch / "x.shale") as image:
        return sum(len(image.read_bytes(file)) for file in image.files())


def shale_read_many(_tree, scratch):
    """All files in the order of storage, on all processors."""
    import shalefs
    with shalefs.open(scratch / "x.shale") as image:
        return sum(len(data) for _, data in image.read_many())


def plain_small(tree, scratch):
    total = 0
    for path in small_paths(scratch):
        with open(os.path.join(tree, path), "rb") as file:
            total += len(file.read())
    return total


def zip_small(_tree, scratch):
    with zipfile.ZipFile(scratch / "x.zip") as archive:
        return sum(len(archive.read(path)) for path in small_paths(scratch))


def shale_small(_tree, scratch):
    import shalefs
    with shalefs.open(scratch / "x.shale") as image:
        return sum(len(image.read_bytes(path)) for path in small_paths(scratch))


def shale_small_at_once(_tree, scratch):
    import shalefs
    with shalefs.open(scratch / "x.shale") as image:
        wanted = [(path, 0, None) for path in small_paths(scratch)]
        return sum(map(len, image.read_ranges(wanted, threads=1)))


def ratarmount_small(_tree, scratch):
    from ratarmountcore.mountsource.factory import open_mount_source
    source = open_mount_source(str(scratch / "x.tar.zst"), index_file_path=str(scratch / "x.index.sqlite"))
    total = 0
    for path in small_paths(scratch):
        with source.open(source.lookup("/" + path)) as file:
            total += len(file.read())
    return total


TASKS = {"everything": [plain_everything, zip_everything, shale_everything, shale_entries, shale_partitions,
                        shale_read_many],
         "10,000 small files": [plain_small, zip_small, ratarmount_small, shale_small, shale_small_at_once]}
# task, way, beside, and how many times as fast it is to be
BARS = [("everything", "shale_everything", "zip_everything", 3.0),
        ("everything", "shale_everything", "plain_everything", 0.5),
        ("everything", "shale_entries", "zip_everything", 3.0),
        ("everything", "shale_entries", "plain_everything", 0.5),
        ("everything", "shale_partitions", "zip_everything", 3.0),
        ("everything", "shale_partitions", "plain_everything", 0.5),
        ("everything", "shale_read_many", "zip_everything", 3.0),
        ("everything", "shale_read_many", "plain_everything", 0.5),
        ("10,000 small files", "shale_small", "ratarmount_small", 5.0),
        ("10,000 small files", "shale_small_at_once", "ratarmount_small", 5.0)]
OPEN_MS_MAX = 20.0


def prepare(args):
    scratch, tree = args.scratch, args.tree
    scratch.mkdir(parents=True, exist_ok=True)
    files = regular(tree)
    (scratch / "files.json").write_text(json.dumps(files))
    print(f"{tree}: {len(files)} regular files, {sum(size for _, size in files)} bytes", flush=True)
    if not (scratch / "x.zip").exists():
        with zipfile.ZipFile(scratch / "half.zip", "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
            for path, _ in files:
                archive.write(os.path.join(tree, path), path)
        os.rename(scratch / "half.zip", scratch / "x.zip")
    if not (scratch / "x.tar.zst").exists():
        # Several frames: a reader of one frame would have to begin at its start.
        packed = f"tar -C '{tree}' -cf - . | split -b 8M --filter 'zstd -q -10 -c' - > '{scratch}/half.zst'"
        run = subprocess.run(packed, shell=True)
        if run.returncode:
            raise SystemExit("tar or zstd failed")
        os.rename(scratch / "half.zst", scratch / "x.tar.zst")
    if not (scratch / "x.shale").exists():
        subprocess.run([args.shale, "create", f"-{args.level}", tree, "-o", scratch / "x.shale"], check=True)
    if not (scratch / "many.shale").exists():
        with open(scratch / "many.txt", "w") as out:
            out.write("d 755 0 0 1700000000 - .\n")
            for number in range(args.entries):
                if number % 1000 == 0:
                    out.write(f"d 755 = = = - {number // 1000:06}\n")
                out.write(f"f 644 = = = {number % 5000} {number // 1000:06}/{number:09}\n")
        subprocess.run([args.shale, "create", "--manifest", scratch / "many.txt", "-o", scratch / "many.shale"],
                       check=True)
        os.unlink(scratch / "many.txt")
    for name in ("x.zip", "x.tar.zst", "x.shale", "many.shale"):
        print(f"{name}: {os.path.getsize(scratch / name)} bytes")


def child(way, tree, scratch):
    """Runs one way, and prints its result and its cost without the start of Python."""
    before, start = os.times(), time.perf_counter()
    total = globals()[way](tree, pathlib.Path(scratch))
    after = os.times()
    cpu = after.user - before.user + after.system - before.system
    print(json.dumps([total, cpu, time.perf_counter() - start]))


def open_many(scratch):
    """Milliseconds to open an image and look up its last file, in a process where nothing is cached."""
    import shalefs
    start = time.perf_counter()
    with shalefs.open(scratch) as image:
        last = image.stat("001999/001999999") if image.exists("001999") else image.stat("")
    print(json.dumps([(time.perf_counter() - start) * 1000, last.st_ino]))


def run_child(*words):
    return json.loads(subprocess.run([sys.executable, __file__, *map(str, words)], check=True,
                                     stdout=subprocess.PIPE).stdout.splitlines()[-1])


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:5])
    if sys.argv[1:2] == ["--open"]:
        return open_many(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shale", required=True)
    parser.add_argument("--scratch", required=True, type=pathlib.Path)
    parser.add_argument("--level", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--only", default="")
    parser.add_argument("tree", metavar="TREE")
    args = parser.parse_args()
    args.shale = shutil.which(args.shale) or args.shale
    prepare(args)
    medians = {}
    for task, ways in TASKS.items():
        ways = [way.__name__ for way in ways if re.search(args.only, way.__name__)]
        seen = {way: [] for way in ways}
        totals = {}
        for turn in range(args.rounds + 1):
            for way in ways[turn % len(ways):] + ways[:turn % len(ways)] if ways else []:
                total, cpu, wall = run_child("--child", way, args.tree, args.scratch)
                totals[way] = total
                # The first round fills caches and indexes.
                if turn:
                    seen[way].append((cpu, wall))
        print(f"\n{task}: CPU s, wall s")
        for way in ways:
            medians[task, way] = [statistics.median(column) for column in zip(*seen[way])]
            print(f"{way:22} {medians[task, way][0]:8.3f} {medians[task, way][1]:8.3f}   {totals[way]} bytes")
        if len(set(totals.values())) > 1:
            print("bench: the ways read different bytes", file=sys.stderr)
            return 1
    print("\nratios by CPU and by wall time, and the bar")
    for task, way, beside, bar in BARS:
        if (task, way) in medians and (task, beside) in medians:
            (cpu, wall), (other_cpu, other_wall) = medians[task, way], medians[task, beside]
            print(f"{task}: {way} is {other_cpu / cpu:.2f} and {other_wall / wall:.2f} times as fast as {beside}; "
                  f"at least {bar}: {'reached' if other_wall / wall >= bar else 'missed'} by wall time")
    opened = [run_child("--open", args.scratch / "many.shale")[0] for _ in range(args.rounds)]
    print(f"open {args.entries} entries and stat one: {statistics.median(opened):.1f} ms; at most {OPEN_MS_MAX}: "
          f"{'reached' if statistics.median(opened) <= OPEN_MS_MAX else 'missed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
