#!/usr/bin/env python3
"""Runs ShaleFS beside its peers on the same trees in one go.

For each tree and each peer: size of the image, wall and CPU seconds and peak memory of the build,
then on the mounted image with cold caches: one subdirectory, random files, everything; then a
full extraction. Writes results.json, results.md and one SVG a tree.

usage: bench.py --shale BINARY --out DIR [--peers REGEX] [--only pack,read,extract] TREE...

Cold means: page cache dropped and the image mounted anew. Times of one run on a shared machine are
only comparable with each other; the sizes are exact. Needs root for mounts and for dropping caches.
"""
import argparse
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import peers as peer_module
from plot import size_speed_svg


def measured(command, timeout):
    """Runs a command; returns (ok, wall s, CPU s of it and its children, peak RSS bytes, stderr)."""
    with tempfile.NamedTemporaryFile("r", suffix=".time") as report, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        try:
            done = subprocess.run(
                ["/usr/bin/time", "-q", "-f", "%U %S %M", "-o", report.name, *command],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            return False, timeout, None, None, f"stopped after {timeout} s"
        wall = time.monotonic() - start
        err.seek(0)
        text = err.read().decode("utf-8", "replace")[-2000:]
        fields = report.read().split()
        if len(fields) < 3:
            return False, wall, None, None, text
        user, system, peak = float(fields[-3]), float(fields[-2]), int(fields[-1]) * 1024
        return done.returncode == 0, wall, user + system, peak, text


def drop_caches():
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3")
    except OSError:
        pass


def cpu_seconds_of_machine():
    """Busy seconds of all CPUs: catches a FUSE driver and kernel workers alike."""
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = fields
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def read_files(paths):
    """Reads the files in the order given; returns the bytes read."""
    total = 0
    for path in paths:
        with open(path, "rb", buffering=0) as f:
            while block := f.read(1 << 20):
                total += len(block)
    return total


def regular_files(root):
    """All regular files below `root` in path order, relative to it."""
    found = []
    for directory, subdirectories, names in os.walk(root):
        subdirectories.sort()
        for name in sorted(names):
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.relpath(path, root))
    return found


class Mounted:
    """The image mounted on a fresh directory with cold caches; unmounted on exit."""

    def __init__(self, peer, image, scratch):
        self.peer, self.image = peer, image
        self.directory = tempfile.mkdtemp(prefix="mnt-", dir=scratch)

    def __enter__(self):
        drop_caches()
        subprocess.run(self.peer.mount(self.image, self.directory), check=True, timeout=120,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self.directory

    def __exit__(self, *_):
        for _ in range(20):
            done = subprocess.run(self.peer.umount(self.directory), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if done.returncode == 0:
                break
            time.sleep(0.25)
        else:
            subprocess.run(["umount", "-l", self.directory], check=False)
        time.sleep(0.1)
        os.rmdir(self.directory)


def timed_read(peer, image, scratch, paths, timeout):
    with Mounted(peer, image, scratch) as directory:
        cpu, start = cpu_seconds_of_machine(), time.monotonic()

        def in_time():
            for number, path in enumerate(paths):
                if time.monotonic() > start + timeout:
                    raise TimeoutError(f"reading stopped after {timeout} s at file {number} of {len(paths)}")
                yield os.path.join(directory, path)

        count = read_files(in_time())
        return {"wall": time.monotonic() - start, "cpu": cpu_seconds_of_machine() - cpu, "bytes": count}


def run_peer(peer, tree, files, subdirectory, args, scratch):
    row = {"peer": peer.name, "tree": os.path.basename(tree)}
    image = os.path.join(scratch, "image")
    if peer.name.startswith("zpaq"):
        image += ".zpaq"
    if os.path.exists(image):
        os.remove(image)
    ok, wall, cpu, peak, err = measured(peer.pack(tree, image), args.timeout)
    if not ok:
        row["error"] = err.strip() or "failed"
        return row
    row |= {"size": os.path.getsize(image), "pack_wall": wall, "pack_cpu": cpu, "pack_peak": peak}
    if peer.mount and "read" in args.only:
        sample = random.Random(1).sample(files, min(1000, len(files)))
        inside = [f for f in files if f.startswith(subdirectory + "/")]
        try:
            for what, paths in (("subdirectory", inside), ("random", sample), ("full", files)):
                row[what] = timed_read(peer, image, scratch, paths, args.timeout)
        except (subprocess.SubprocessError, OSError) as e:
            row["read_error"] = str(e)
    if peer.extract and "extract" in args.only:
        target = os.path.join(scratch, "extracted")
        drop_caches()
        ok, wall, cpu, _, err = measured(peer.extract(image, target), args.timeout)
        row |= {"extract_wall": wall, "extract_cpu": cpu} if ok else {"extract_error": err.strip()}
        shutil.rmtree(target, ignore_errors=True)
    os.remove(image)
    return row


def table(rows):
    """The rows of one tree as a Markdown table."""
    def number(row, *keys, unit=1.0, digits=1):
        value = row
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return "–" if value is None else f"{value / unit:.{digits}f}"

    lines = ["| program | size MB | pack s | pack CPU s | peak MB | one subdirectory s | 1,000 random files s "
             "| everything s | extract s |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['peer']} | failed: {row['error'][:80]!r} | | | | | | | |")
            continue
        lines.append("| " + " | ".join([
            row["peer"], number(row, "size", unit=1e6, digits=2), number(row, "pack_wall"),
            number(row, "pack_cpu"), number(row, "pack_peak", unit=1e6, digits=0),
            number(row, "subdirectory", "wall", digits=2), number(row, "random", "wall", digits=2),
            number(row, "full", "wall", digits=2), number(row, "extract_wall", digits=2)]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", metavar="TREE")
    parser.add_argument("--shale", required=True, help="the shale binary")
    parser.add_argument("--out", required=True, help="directory for the results")
    parser.add_argument("--peers", default=".", help="only peers whose name matches this regular expression")
    parser.add_argument("--only", default="pack,read,extract", help="what to measure, comma separated")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for one command, and for one way of reading")
    parser.add_argument("--scratch", help="directory for images and mounts (default: --out)")
    args = parser.parse_args()
    args.only = set(args.only.split(","))
    os.makedirs(args.out, exist_ok=True)
    if shutil.which("time") is None:
        sys.exit("bench.py: GNU time is missing (Debian package: time)")

    results = {"machine": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
               "date": time.strftime("%Y-%m-%d", time.gmtime()), "command": " ".join(sys.argv), "rows": []}
    text = [f"Command: `{results['command']}`  ", f"Machine: {results['machine']}, date: {results['date']}", ""]
    for tree in args.trees:
        tree = os.path.abspath(tree)
        files = regular_files(tree)
        tops = sorted(d for d in os.listdir(tree) if os.path.isdir(os.path.join(tree, d)))
        subdirectory = tops[-1] if tops else "."
        rows = []
        for peer in peer_module.all_peers(args.shale):
            if not re.search(args.peers, peer.name):
                continue
            if missing := peer.missing():
                print(f"{peer.name}: left out, not installed: {', '.join(missing)}", file=sys.stderr)
                continue
            print(f"{os.path.basename(tree)}: {peer.name} ...", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="bench-", dir=args.scratch or args.out) as scratch:
                rows.append(run_peer(peer, tree, files, subdirectory, args, scratch))
            found = {k: v for k, v in rows[-1].items() if k not in ("peer", "tree")}
            print("   ", found, file=sys.stderr, flush=True)
        results["rows"] += rows
        title = f"### `{os.path.basename(tree)}`: {len(files)} files; subdirectory `{subdirectory}`"
        text += [title, "", table(rows), ""]
        with open(os.path.join(args.out, f"{os.path.basename(tree)}.svg"), "w") as f:
            f.write(size_speed_svg(os.path.basename(tree), rows))
        with open(os.path.join(args.out, "results.json"), "w") as f:
            json.dump(results, f, indent=1)
        with open(os.path.join(args.out, "results.md"), "w") as f:
            f.write("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
