#!/usr/bin/env python3
"""Measures a mounted image of a plain forest, as bench/forest.py prints it.

    forest_mount.py --shale BINARY IMAGE LEVELS...

LEVELS are those the forest was made with. Measured: the time until `shale mount` returns, the driver's
memory then and at the end, `stat` of paths by chance (each asked once; wall time and the driver's processor
time) from one process and from as many at once as --clients says, listing directories by chance, and with
--find walking the directories `dir-0` ... that hold about a million entries. With --squashfs (needs root and
mksquashfs) the same walk is done on a kernel squashfs of those entries alone, in turn with ours. Everything
is printed with the load of the machine.
"""

import argparse
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time


def driver_of(folder):
    """The process that serves a mount: the one whose arguments name it."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if folder.encode() in file.read().split(b"\0") and int(name) != os.getpid():
                    return int(name)
        except OSError:
            pass
    sys.exit("forest_mount: cannot find the driver")


def memory_kib(process, field):
    with open(f"/proc/{process}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


def processor_seconds(process):
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def say(what, value):
    print(f"{what}: {value}  (load {os.getloadavg()[0]:.1f})", flush=True)


def spread(seconds):
    seconds = sorted(seconds)
    at = lambda part: seconds[min(len(seconds) - 1, int(len(seconds) * part))] * 1e6
    return f"p50 {at(0.5):.0f} us, p99 {at(0.99):.0f} us, max {at(1) / 1000:.1f} ms"


def stat_all(paths):
    """Begin, end and seconds of each `stat`."""
    taken, begin = [], time.perf_counter()
    for path in paths:
        start = time.perf_counter()
        os.stat(path)
        taken.append(time.perf_counter() - start)
    return begin, time.perf_counter(), taken


def stat_together(lists):
    """Lists of paths, each asked for by a process of its own; the seconds from first to last, and of each."""
    with multiprocessing.Pool(len(lists)) as pool:
        pool.map(len, lists, chunksize=1)
        results = pool.map(stat_all, lists, chunksize=1)
    wall = max(end for _, end, _ in results) - min(begin for begin, _, _ in results)
    return wall, [seconds for _, _, taken in results for seconds in taken]


def walk(paths):
    """Seconds that `find -ls` takes, which stats every entry, and lines that it prints."""
    start = time.perf_counter()
    find = subprocess.run(["find", *paths, "-ls"], stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - start, find.stdout.count(b"\n")


def squashfs(levels, count, work):
    """Mounts a squashfs of the first `count` directories of the first level; where."""
    image, mounted = os.path.join(work, "part.sq"), os.path.join(work, "sq")
    os.mkdir(mounted)
    make = subprocess.Popen(
        ["mksquashfs", "-", image, "-tar", "-quiet", "-no-progress"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    out = make.stdin

    def entry(path, kind):
        info = tarfile.TarInfo(path)
        info.mtime, info.type = 1_500_000_000, kind
        info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
        out.write(info.tobuf(tarfile.USTAR_FORMAT))

    def descend(path, levels):
        entry(path, tarfile.DIRTYPE)
        for number in range(levels[0]):
            if len(levels) == 1:
                entry(f"{path}/file-{number}.txt", tarfile.REGTYPE)
            else:
                descend(f"{path}/dir-{number}", levels[1:])

    for number in range(count):
        descend(f"dir-{number}", levels[1:])
    out.write(bytes(1024))
    out.close()
    if make.wait() != 0:
        sys.exit("forest_mount: mksquashfs failed")
    subprocess.run(["mount", "-t", "squashfs", "-o", "loop,ro", image, mounted], check=True)
    return mounted, os.path.getsize(image)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image")
    parser.add_argument("levels", type=int, nargs="+")
    parser.add_argument("--shale", default="shale", help="the command")
    parser.add_argument("--stats", type=int, default=100_000, help="paths that are asked for")
    parser.add_argument("--clients", type=int, nargs="*", default=[], help="processes that ask at once; 1 always does")
    parser.add_argument("--lists", type=int, default=300, help="directories that are listed")
    parser.add_argument("--find", action="store_true", help="walk about a million entries")
    parser.add_argument("--squashfs", action="store_true", help="with --find: beside a squashfs of those alone")
    parser.add_argument("--rounds", type=int, default=3, help="of --find")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    *directories, files = args.levels
    chance = random.Random(args.seed)
    with open(args.image, "rb") as file:
        while file.read(1 << 20):
            pass
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "m")
        os.mkdir(folder)
        mount = lambda: subprocess.run([args.shale, "mount", args.image, folder], check=True)
        umount = lambda: subprocess.run([args.shale, "umount", folder], check=True)
        ready = []
        for turn in range(5):
            start = time.perf_counter()
            mount()
            ready.append(time.perf_counter() - start)
            if turn < 4:
                umount()
        squash = None
        try:
            driver = driver_of(folder)
            say("mount ready", f"{statistics.median(ready) * 1000:.1f} ms, slowest {max(ready) * 1000:.1f} ms")
            say("driver after mount", f"{memory_kib(driver, 'VmRSS:') / 1024:.1f} MiB resident")
            parent = lambda: "/".join([folder, *(f"dir-{chance.randrange(n)}" for n in directories)])
            path = lambda: f"{parent()}/file-{chance.randrange(files)}.txt"
            paths = lambda: [path() for _ in range(args.stats)]
            for clients in [1, *args.clients]:
                some = [paths() for _ in range(clients)]
                used = processor_seconds(driver)
                wall, taken = stat_together(some)
                each = (processor_seconds(driver) - used) / len(taken) * 1e6
                who = "random stat" if clients == 1 else f"random stat, {clients} clients"
                say(who, f"{len(taken) / wall:.0f} a second, {spread(taken)}, driver {each:.1f} us each")
            taken = []
            for _ in range(args.lists):
                path = parent()
                start = time.perf_counter()
                found = len(os.listdir(path))
                taken.append(time.perf_counter() - start)
                if found != files:
                    sys.exit(f"forest_mount: {path} lists {found} entries")
            say(f"listing {files} entries", spread(taken))
            if args.find:
                inside = 1
                below = 1
                for count in args.levels[1:]:
                    below *= count
                    inside += below
                count = max(1, min(args.levels[0], 1_000_000 // inside))
                if args.squashfs:
                    squash, size = squashfs(args.levels, count, work)
                    say("squashfs of those entries", f"{size} bytes")
                names = [f"dir-{number}" for number in range(count)]
                for _ in range(args.rounds):
                    for where in filter(None, (folder, squash)):
                        with open("/proc/sys/vm/drop_caches", "w") as file:
                            file.write("2")
                        used = processor_seconds(driver)
                        wall, entries = walk([os.path.join(where, name) for name in names])
                        used = processor_seconds(driver) - used
                        own = f", driver {used:.1f} s" if where == folder else " (squashfs)"
                        say("find -ls", f"{entries} entries in {wall:.2f} s{own}")
            last, most = (memory_kib(driver, field) / 1024 for field in ("VmRSS:", "VmHWM:"))
            say("driver at the end", f"{last:.1f} MiB resident, at most {most:.1f}")
        finally:
            if squash:
                subprocess.run(["umount", squash], check=True)
            umount()


if __name__ == "__main__":
    main()
