#!/usr/bin/env python3
"""Reads a tree of small files through FUSE, with and without pushing, beside the kernel's SquashFS.

Makes an image of TREE at level 6 and a SquashFS image with zstd and blocks of 128K, once. Then rounds: in each,
every way of mounting runs every task once with cold caches, mounted anew, taking turns in being first. Prints
medians: CPU milliseconds of client and driver, their sum beside that of SquashFS, READ and all requests, files
pushed, and switches of both. SquashFS decodes in the client, so all of its CPU time is there.

usage: small_files.py --shale BINARY --out DIR [--rounds 3] [--ways REGEX] [--tasks REGEX] [--level N] TREE

A way is `squashfs`, or options of `shale mount`; --also adds such a way. Needs root and squashfs-tools.
"""
import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = ["squashfs", "push=off", "push=4K", "push=16K"]
COUNT = 500


def quiet(command, **options):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE, timeout=1800, **options)


def make_image(path, command):
    """Makes an image under its name only when it is whole."""
    if not os.path.exists(path):
        quiet([path + ".part" if word is None else word for word in command])
        os.rename(path + ".part", path)
    return path


def tasks(tree):
    files = []
    for directory, _, names in os.walk(tree):
        files += [os.path.relpath(os.path.join(directory, name), tree) for name in names]
    sample = random.Random(5).sample(sorted(files), min(COUNT, len(files)))

    def read_some(root):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for path in sample:
                    path = os.path.join(root, path)
                    if os.path.isfile(path) and not os.path.islink(path):
                        with open(path, "rb", buffering=0) as f:
                            f.read()
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            raise OSError("a reader failed")

    shell = lambda text: lambda root: quiet(["sh", "-c", text], cwd=root)
    return {
        "tar": shell("tar cf - . | cat"),
        "grep -r": shell("grep -r 'no such line in any file' . || [ $? = 1 ]"),
        "find, cat": shell("find . -type f -exec cat {} +"),
        "find -ls": shell("find . -ls"),
        "find -size": shell("find . -size +1000"),
        f"{COUNT} random files": read_some,
        f"find, {COUNT} random files": lambda root: (shell("find .")(root), read_some(root)),
    }


def driver_of(root):
    """The process that serves the mount: the one with its mount point in its arguments."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline").read().split("\0")
        except OSError:
            continue
        if root in words and os.path.basename(words[0]) == "shale":
            return pid
    raise OSError("no driver")


def used_by(pid):
    """CPU seconds and switches of a process, of its threads that have not ended."""
    seconds = switches = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            seconds += int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) / 1e9
            status = open(f"/proc/{pid}/task/{task}/status").read()
        except OSError:
            continue
        switches += sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", status)))
    return seconds, switches


def measure(task, root, shale, is_ours):
    driver = driver_of(root) if is_ours else None
    driver_before = used_by(driver) if driver else (0, 0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    task(root)
    found = {"wall": time.monotonic() - start}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    driver_after = used_by(driver) if driver else (0, 0)
    found["client"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found["driver"] = driver_after[0] - driver_before[0]
    switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw
    found["switches"] = switches + driver_after[1] - driver_before[1]
    if is_ours:
        text = subprocess.run([shale, "stats", "--json", root], check=True, capture_output=True).stdout
        counted = json.loads(text)
        operations = counted.get("operations", counted)
        number = lambda name: operations.get(name, {}).get("count", 0)
        found["reads"] = number("read")
        found["requests"] = sum(number(name) for name in operations if isinstance(operations[name], dict))
        flat = re.search(rb'"files_pushed":\s*(\d+)', text)
        found["pushed"] = int(flat[1]) if flat else 0
    return found


def mounted(way, images, shale, scratch, work):
    directory = tempfile.mkdtemp(prefix="mnt-", dir=scratch)
    is_ours = way != "squashfs"
    if is_ours:
        quiet([shale, "mount", "-o", way, images["shale"], directory])
    else:
        quiet(["mount", "-t", "squashfs", "-o", "loop,ro", images["squashfs"], directory])
    try:
        return measure(work, directory, shale, is_ours)
    finally:
        for _ in range(50):
            umount = [shale, "umount", directory] if is_ours else ["umount", directory]
            if subprocess.run(umount, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        time.sleep(0.05)
        os.rmdir(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", metavar="TREE")
    parser.add_argument("--shale", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default=".")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("--tasks", default=".")
    parser.add_argument("--level", default="6")
    args = parser.parse_args()
    shale = os.path.abspath(args.shale)
    os.makedirs(args.out, exist_ok=True)
    name = os.path.join(os.path.abspath(args.out), os.path.basename(os.path.abspath(args.tree)))
    images = {
        "shale": make_image(f"{name}.{args.level}.shale",
                            [shale, "create", "-q", f"-{args.level}", args.tree, "-o", None]),
        "squashfs": make_image(f"{name}.squashfs", ["mksquashfs", args.tree, None, "-comp", "zstd", "-b", "128K",
                                                    "-noappend", "-no-progress", "-quiet"]),
    }
    work = {task: run for task, run in tasks(args.tree).items() if re.search(args.tasks, task)}
    able = [way for way in WAYS if re.search(args.ways, way)] + args.also
    samples = {}
    for number in range(args.rounds):
        for task, run in work.items():
            for way in able[number % len(able):] + able[:number % len(able)]:
                os.sync()
                with open("/proc/sys/vm/drop_caches", "w") as f:
                    f.write("3")
                samples.setdefault((task, way), []).append(mounted(way, images, shale, args.out, run))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    print("| task | way | client ms | driver ms | both | × squashfs | wall ms | switches | requests | reads | pushed |")
    print("|---" * 11 + "|")
    for task in work:
        cpu = {way: statistics.median(s["client"] + s["driver"] for s in samples[task, way]) for way in able}
        for way in able:
            median = lambda key: statistics.median(s.get(key, 0) for s in samples[task, way])
            ms = [f"{1000 * value:,.0f}" for value in (median("client"), median("driver"), cpu[way])]
            ratio = f"{cpu[way] / cpu['squashfs']:.2f}" if cpu.get("squashfs") else "–"
            counts = [f"{median(key):,.0f}" for key in ("switches", "requests", "reads", "pushed")]
            print(f"| {task} | {way} | {' | '.join(ms)} | {ratio} | {1000 * median('wall'):,.0f} "
                  f"| {' | '.join(counts)} |")
    with open(os.path.join(args.out, "small_files.json"), "w") as f:
        json.dump({" / ".join(key): value for key, value in samples.items()}, f, indent=1)


if __name__ == "__main__":
    main()
