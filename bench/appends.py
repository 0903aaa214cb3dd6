#!/usr/bin/env python3
"""What appends cost: bytes by part of the image, CPU seconds and bytes read, for each append.

`releases` packs the folders of DIR one by one with `append --add`, and all at once for comparison.
`unchanged` appends a tree of empty and short files that did not change, beside a mere scan of it.
`nightly` appends copies of TREE, of which one file in a hundred changed each time; it works in a
copy below --work. All appends run with --no-verify, so that they cost what they do without the
second look. CPU seconds are user and system time of the process.

usage: appends.py --shale BINARY --work DIR releases DIR
       appends.py --shale BINARY --work DIR unchanged [ENTRIES]
       appends.py --shale BINARY --work DIR nightly TREE [NIGHTS]
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys

PARTS = ["frames", "pages", "append index"]


def run(args, *command):
    """Runs the program. Returns its output, its CPU seconds and the bytes that it read."""
    command = [args.shale, *command, "--progress", "none"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, text=True, **both)
    output = process.stdout.read()
    # A process that ended and was not waited for still has its counters.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{process.pid}/io") as file:
        counters = dict(line.split(": ") for line in file.read().splitlines())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return output, usage.ru_utime + usage.ru_stime, int(counters["rchar"])


def sections(args, image):
    """Returns the stored bytes of each part of the image, and of all other bytes."""
    found = json.loads(run(args, "info", "-v", "--json", image)[0])
    parts = {section["name"]: section["stored_bytes"] for section in found["sections"]}
    sizes = [parts.get(name, 0) for name in PARTS]
    return [*sizes, os.path.getsize(image) - sum(sizes)]


def row(name, cells):
    print(f"| {name} | " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells):
    row(cells[0], cells[1:])
    print("|---" * len(cells) + "|")


class Growing:
    """An image that grows; prints a row for each step."""

    def __init__(self, args, image):
        self.args, self.image, self.before = args, image, [0, 0, 0, 0]
        header("step", *PARTS, "rest", "CPU s", "read bytes", "new page bytes by table")

    def step(self, name, *command):
        output, cpu, _ = run(self.args, *command, "--no-verify", "--json")
        report = json.loads(output)
        read = report.get("read_bytes", "")
        after = sections(self.args, self.image)
        tables = [(table["name"], table["stored_bytes"]) for table in report["tables"]]
        tables = " ".join(f"{name}:{size}" for name, size in tables if size)
        row(name, [*(a - b for a, b in zip(after, self.before)), f"{cpu:.2f}", read, tables])
        self.before = after
        return cpu

    def end(self):
        row("all", [*self.before, "", "", f"image {sum(self.before)} bytes"])
        return sum(self.before)


def natural(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.lower())]


def releases(args):
    folders = sorted(filter(lambda name: os.path.isdir(os.path.join(args.tree, name)),
                            os.listdir(args.tree)), key=natural)[:args.count]
    image, whole, alone = (os.path.join(args.work, name) for name in ["a.shale", "w.shale", "d.shale"])
    at = [f"{os.path.join(args.tree, name)}=/{name}" for name in folders]
    growing = Growing(args, image)
    growing.step(folders[0], "create", at[0], "-o", image, "-f", args.level)
    costs = []
    for name in folders[1:]:
        source = f"{name}={os.path.join(args.tree, name)}"
        costs.append(growing.step(name, "append", image, "--add", source, args.level))
    size = growing.end()
    if args.no_whole:
        return
    _, cpu, _ = run(args, "create", *at, "-o", whole, "-f", args.level, "--no-verify", "-q")
    parts = sections(args, whole)
    row("at once", [*parts, f"{cpu:.2f}", "", ""])
    _, cpu, _ = run(args, "create", at[-1], "-o", alone, "-f", args.level, "--no-verify", "-q")
    row("last alone", [*sections(args, alone), f"{cpu:.2f}", "", ""])
    index = growing.before[2]
    print(f"\nwithout the index {(size - index) / sum(parts):.3f} x, with it {size / sum(parts):.3f} x;"
          f" dearest append {max(costs):.2f} CPU s, last {costs[-1]:.2f} = {costs[-1] / cpu:.2f} x alone")


def unchanged(args):
    tree, image, again = (os.path.join(args.work, name) for name in ["tree", "u.shale", "s.shale"])
    if not os.path.isdir(tree):
        numbers = random.Random(1)
        for number in range(args.count or 170_000):
            folder = os.path.join(tree, f"part{number // 10_000:03}", f"group{number // 20 % 500:03}")
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f"file{number:07}.txt")
            with open(path, "wb") as file:
                file.write(numbers.randbytes(numbers.randrange(64)))
            os.utime(path, (1_600_000_000 + number,) * 2)
    run(args, "create", tree, "-o", image, "-f", "-1", "--no-verify", "-q")
    growing = Growing(args, image)
    growing.before = sections(args, image)
    growing.step("unchanged", "append", image, tree, "-1")
    # The least that has to be done: walk and number the tree without reading any content.
    _, cpu, _ = run(args, "diff", image, tree, "--stat")
    print(f"\n`diff --stat` of image and tree: {cpu:.2f} CPU s")


def nightly(args):
    tree, image = (os.path.join(args.work, name) for name in ["tree", "n.shale"])
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(args.tree, tree, symlinks=True)
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(tree) for name in names)
    files = [path for path in files if os.path.isfile(path) and not os.path.islink(path)]
    numbers = random.Random(1)
    growing = Growing(args, image)
    growing.step("first", "create", tree, "-o", image, "-f", args.level)
    one = growing.before[1]
    first = os.path.join(args.work, "first.shale")
    shutil.copyfile(image, first)
    for night in range(args.count or 365):
        for path in numbers.sample(files, max(1, len(files) // 100)):
            with open(path, "r+b") as file:
                length = os.path.getsize(path)
                file.seek(numbers.randrange(length + 1))
                file.write(numbers.randbytes(16).hex().encode())
        growing.step(f"night {night + 1}", "append", image, tree, args.level)
    growing.end()
    print(f"\npages {growing.before[1] / one:.2f} x those of one tree")
    for what in ["info", "ls"]:
        costs = []
        for file in [first, image]:
            some = [run(args, what, file)[1:] for _ in range(5)]
            costs.append((sorted(cost for cost, _ in some)[2], some[0][1]))
        (a, a_read), (b, b_read) = costs
        print(f"`{what}`: {a:.3f} CPU s and {a_read} bytes for one snapshot, {b:.3f} and {b_read} for all")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shale", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--level", default="-6")
    parser.add_argument("--no-whole", action="store_true", help="do not pack all at once")
    tasks = parser.add_subparsers(required=True)
    for task, needs_tree in [(releases, True), (unchanged, False), (nightly, True)]:
        sub = tasks.add_parser(task.__name__)
        sub.set_defaults(task=task)
        if needs_tree:
            sub.add_argument("tree")
        sub.add_argument("count", type=int, nargs="?")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    args.task(args)


if __name__ == "__main__":
    sys.exit(main())
