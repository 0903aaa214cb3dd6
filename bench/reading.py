#!/usr/bin/env python3
"""Reads mounted images: both views of ShaleFS beside the kernel's file systems and FUSE drivers.

For each tree, images are made once (shale and dwarfs at their default levels, squashfs zstd 128K, erofs
lz4hc); the tree itself is read where it lies. Of a tree with Python in it there is a second image of ours,
made with the list of files that Python's start reads, as a mount writes it. Then rounds: in each, every way
of mounting runs every task, taking turns in being first, so that what else the machine does falls on all
alike. Cold means: caches dropped and mounted anew before the task. Medians of the rounds are printed: wall
seconds, and CPU seconds of client and driver together. The kernel's own worker threads are in no process's
account and not counted.

usage: reading.py --shale BINARY --out DIR [--rounds 7] [--ways REGEX] [--tasks REGEX] [--cpu N] TREE...

Needs root, and the Debian packages squashfs-tools, squashfuse, erofs-utils for the peers (erofsfuse and
dwarfs are in none of Debian 12's); one that is missing is left out, and said so. --cpu pins client and
driver to one processor, as FUSE costs depend on where the two run; without it they are placed freely.
"""
import argparse
import json
import os
import platform
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HZ = os.sysconf("SC_CLK_TCK")


def quiet(command, **options):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE, timeout=1800, **options)


class Way:
    """A way to mount: which image, how, and whose process serves it (None: the kernel)."""

    def __init__(self, name, image, mount, umount=None, driver=None, needs=()):
        self.name, self.image, self.mount = name, image, mount
        self.umount = umount or (lambda d: ["umount", d])
        self.driver, self.needs = driver, needs


def ways(shale):
    un = lambda d: [shale, "umount", d]
    fuse = lambda i, d: [shale, "mount", i, d]
    kernel = lambda i, d: [shale, "mount", "--view", "kernel", i, d]
    return [
        Way("shale fuse", "shale", fuse, un, "shale"),
        Way("shale kernel", "shale", kernel, un, "shale"),
        Way("shale fuse, hot list", "hot", fuse, un, "shale"),
        Way("shale kernel, hot list", "hot", kernel, un, "shale"),
        Way("squashfs", "sq", lambda i, d: ["mount", "-t", "squashfs", "-o", "loop,ro", i, d], needs=["mksquashfs"]),
        Way("squashfuse_ll", "sq", lambda i, d: ["squashfuse_ll", i, d], None, "squashfuse_ll",
            ["mksquashfs", "squashfuse_ll"]),
        Way("erofs", "erofs", lambda i, d: ["mount", "-t", "erofs", "-o", "loop,ro", i, d], needs=["mkfs.erofs"]),
        Way("erofsfuse", "erofs", lambda i, d: ["erofsfuse", i, d], None, "erofsfuse", ["mkfs.erofs", "erofsfuse"]),
        Way("dwarfs", "dwarfs", lambda i, d: ["dwarfs", i, d], None, "dwarfs", ["mkdwarfs", "dwarfs"]),
        Way("the tree itself", "tree", lambda i, d: ["mount", "--bind", i, d]),
    ]


def make_images(shale, tree, scratch):
    """The images of a tree by kind; those whose program is missing are not there."""
    makers = {
        "shale": [shale, "create", "-q", tree, "-o"],
        "sq": ["mksquashfs", tree, None, "-comp", "zstd", "-b", "128K", "-noappend", "-no-progress", "-quiet"],
        "erofs": ["mkfs.erofs", "--quiet", "-zlz4hc", None, tree],
        "dwarfs": ["mkdwarfs", "-i", tree, "--no-progress", "-o", None],
    }
    images = {"tree": tree}
    for kind, command in makers.items():
        path = os.path.join(scratch, f"{os.path.basename(tree)}.{kind}")
        # Under its name only when it is whole: a run that is stopped leaves no half of one to the next.
        part = path + ".part"
        command = [part if word is None else word for word in command]
        if kind == "shale":
            command.append(part)
        if shutil.which(command[0]) and not os.path.exists(path):
            if os.path.exists(part):
                os.remove(part)
            quiet(command)
            os.rename(part, path)
        if os.path.exists(path):
            images[kind] = path
    return images


def make_hot_image(shale, tree, image, program, scratch):
    """An image that has first what `program` reads of the other one."""
    path = os.path.join(scratch, f"{os.path.basename(tree)}.hot.shale")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(prefix="hot-", dir=scratch) as directory:
            files = os.path.join(directory, "list")
            logged = lambda i, d: [shale, "mount", "-o", f"hotlog={files}", i, d]
            mounted(Way("hot list", "shale", logged, lambda d: [shale, "umount", d]), image, scratch, program)
            quiet([shale, "create", "-q", "--hot", files, tree, "-o", path])
    return path


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


def processes(name):
    """CPU seconds of all processes of this program by pid."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            line = open(f"/proc/{pid}/cmdline").read().split("\0")
        except OSError:
            continue
        if os.path.basename(line[0]) == name:
            found[pid] = (int(fields[11]) + int(fields[12])) / HZ
    return found


def run_shell(text):
    return lambda root: quiet(["sh", "-c", text], cwd=root)


def in_children(work, count=1):
    """Runs work(number) in `count` processes, so that all they use is accounted as children's."""
    children = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(number)
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    if any(os.waitpid(pid, 0)[1] for pid in children):
        raise OSError("a reader failed")


def stat_some(files):
    sample = random.Random(3).sample(files, min(10000, len(files)))
    return lambda root: in_children(lambda _: [os.lstat(os.path.join(root, f)) for f in sample])


def read_random(files, sizes, length, count):
    """4 processes read `count` ranges each, in files of at least 64 KiB chosen by size."""
    large = [f for f in files if sizes[f] >= 65536] or files

    def work(root, number):
        chance = random.Random(number)
        for path in chance.choices(large, [sizes[f] for f in large], k=count):
            with open(os.path.join(root, path), "rb", buffering=0) as f:
                at = chance.randrange(max(1, sizes[path] - length + 1)) // 4096 * 4096
                os.pread(f.fileno(), length, at)

    return lambda root: in_children(lambda number: work(root, number), 4)


def tasks(tree):
    files, sizes = [], {}
    for directory, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path):
                files.append(os.path.relpath(path, tree))
                sizes[files[-1]] = os.path.getsize(path)
    files.sort()
    found = {
        "find": run_shell("find . -printf '%s %m %T@\\n'"),
        "stat 10,000": stat_some(files),
        "tar": run_shell("tar cf - . | cat"),
        "random 64K": read_random(files, sizes, 65536, 500),
        "random 4K": read_random(files, sizes, 4096, 1000),
    }
    if os.path.exists(os.path.join(tree, "usr/bin/python3")):
        code = "import json, ssl, email, asyncio"
        found["python"] = lambda root: quiet(["chroot", root, "/usr/bin/python3", "-c", code])
    return found


def measure(task, root, driver):
    before = processes(driver) if driver else {}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    task(root)
    wall = time.monotonic() - start
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    after = processes(driver) if driver else {}
    return wall, cpu + sum(seconds - before.get(pid, 0) for pid, seconds in after.items() if pid in before)


def mounted(way, image, scratch, work):
    """What work() says of the mounted image, and how long mounting took."""
    directory = tempfile.mkdtemp(prefix="mnt-", dir=scratch)
    start = time.monotonic()
    quiet(way.mount(image, directory))
    took = time.monotonic() - start
    try:
        return work(directory), took
    finally:
        for _ in range(50):
            if subprocess.run(way.umount(directory), capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        time.sleep(0.05)
        os.rmdir(directory)


def seconds(value):
    """Two places after the point, three below a second."""
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", metavar="TREE")
    parser.add_argument("--shale", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ways", default=".")
    parser.add_argument("--tasks", default=".")
    parser.add_argument("--cpu", type=int)
    args = parser.parse_args()
    args.shale = os.path.abspath(args.shale)
    os.makedirs(args.out, exist_ok=True)
    if args.cpu is not None:
        os.sched_setaffinity(0, {args.cpu})
    placed = "free" if args.cpu is None else f"processor {args.cpu}"
    print(f"`{' '.join(sys.argv)}`\n\nLinux {platform.release()}, {os.cpu_count()} processors, placement {placed}, "
          f"{time.strftime('%Y-%m-%d', time.gmtime())}; medians of {args.rounds}, wall s / CPU s\n")
    results = {}
    for tree in map(os.path.abspath, args.trees):
        images = make_images(args.shale, tree, args.out)
        work = {name: task for name, task in tasks(tree).items() if re.search(args.tasks, name)}
        asked = [way for way in ways(args.shale) if re.search(args.ways, way.name)]
        if "python" in work and "shale" in images and any(way.image == "hot" for way in asked):
            images["hot"] = make_hot_image(args.shale, tree, images["shale"], work["python"], args.out)
        able = []
        for way in asked:
            missing = [n for n in way.needs if shutil.which(n) is None]
            if missing:
                print(f"{way.name}: left out, not installed: {', '.join(missing)}", file=sys.stderr)
            elif way.image in images:
                able.append(way)
        samples = {}
        for number in range(args.rounds):
            for name, task in work.items():
                # Whoever comes first takes memory that the machine has not given to any yet: take turns.
                for way in able[number % len(able):] + able[:number % len(able)]:
                    def both(root):
                        return measure(task, root, way.driver), measure(task, root, way.driver)
                    drop_caches()
                    try:
                        (cold, warm), took = mounted(way, images[way.image], args.out, both)
                    except (OSError, subprocess.SubprocessError) as error:
                        print(f"{way.name}, {name}: {error}", file=sys.stderr)
                        continue
                    samples.setdefault((way.name, "mount", "cold"), []).append((took,))
                    samples.setdefault((way.name, name, "cold"), []).append(cold)
                    samples.setdefault((way.name, name, "warm"), []).append(warm)
            print(f"{os.path.basename(tree)}: round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        results[tree] = {" ".join(key): values for key, values in samples.items()}
        columns = [(name, state) for name in work for state in ("cold", "warm")]
        columns.insert(0, ("mount", "cold"))
        print(f"`{os.path.basename(tree)}`\n\n| | {' | '.join(f'{n} {s}' for n, s in columns)} |")
        print("|---" * (len(columns) + 1) + "|")
        for way in able:
            cells = []
            for name, state in columns:
                found = samples.get((way.name, name, state))
                cells.append("–" if not found else
                             " / ".join(seconds(statistics.median(part)) for part in zip(*found)))
            print(f"| {way.name} | {' | '.join(cells)} |")
        print(flush=True)
    with open(os.path.join(args.out, "reading.json"), "w") as f:
        json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
