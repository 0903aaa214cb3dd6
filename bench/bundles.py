#!/usr/bin/env python3
"""Measures how long programs take to start: from a bundle, from SquashFS, and from a directory.

usage: bundles.py --shale SHALE --runtime RUNTIME [--rounds N] [--work FOLDER] [--json FILE]
                  [--program NAME ...] [--user NAME]

Programs of this machine are copied with all that they need: Python with its standard library, which
imports some modules and ends, and clang and qemu-system-x86_64 with their shared libraries, which print
their version (left out if they are not installed). Each is started from

  plain       a directory
  bundle      a file made by `shale bundle`, which mounts itself with every start (SHALE_LINGER=0)
  trained     the same with `--train`
  again       the trained one, whose mount is still there from an earlier start that has ended
  squashfs    the kernel's SquashFS, through a loop device; mounted beforehand
  squashfuse  squashfuse, which is mounted with every start and unmounted at its end, as AppImages are

in turn, cold (after the caches of the kernel are dropped; there is no `again` then) and warm. The times are
medians in milliseconds. With --user NAME the bundles and squashfuse are started by that user.
Needs root, mksquashfs, squashfuse and fusermount3. Leaves no mount.
"""

import argparse
import json
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def run(words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)


def libraries(program):
    """The shared libraries of a program, and its loader."""
    text = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    words = (word for line in text.splitlines() for word in line.split())
    return sorted({word for word in words if word.startswith("/")})


def copy_program(program, tree):
    """Copies a program and its libraries, and writes a script that starts it with these."""
    os.makedirs(tree + "/lib")
    shutil.copy2(os.path.realpath(program), tree + "/program")
    loader = None
    for library in libraries(program):
        shutil.copy2(os.path.realpath(library), tree + "/lib/" + os.path.basename(library))
        if os.path.basename(library).startswith("ld-linux"):
            loader = os.path.basename(library)
    return loader


def script(tree, loader, before, arguments):
    with open(tree + "/run", "w") as out:
        out.write('#!/bin/sh\nhere=${APPDIR:-$(dirname "$0")}\n')
        out.write(f'{before}exec "$here/lib/{loader}" --library-path "$here/lib" "$here/program" {arguments}\n')
    os.chmod(tree + "/run", 0o755)


def python_tree(tree):
    loader = copy_program("/usr/bin/python3", tree)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = os.path.dirname(subprocess.run(
        ["/usr/bin/python3", "-c", "import os; print(os.__file__)"],
        check=True, capture_output=True, text=True).stdout.strip())
    version = os.path.basename(library)
    shutil.copytree(library, f"{tree}/usr/lib/{version}",
                    ignore=shutil.ignore_patterns("test", "config-*"))
    names = "json, decimal, email.parser, http.client, xml.dom.minidom, argparse, asyncio, sqlite3"
    script(tree, loader, 'export PYTHONHOME="$here/usr" PYTHONDONTWRITEBYTECODE=1\n', f"-c 'import {names}'")


def version_tree(program):
    def make(tree):
        script(tree, copy_program(program, tree), "", "--version")
    return make


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as out:
        out.write("3\n")


class Ways:
    """The ways to start a program, and what they need."""

    def __init__(self, arguments, work, tree):
        self.work = work
        self.bundles = {name: f"{work}/{name}" for name in ("bundle", "trained")}
        self.squash = work + "/image.sqfs"
        self.kernel = work + "/kernel"
        self.fuse = work + "/fuse"
        self.run_dir = work + "/run"
        self.tree = tree
        self.user = arguments.user
        runtime = ["--runtime", arguments.runtime] if arguments.runtime else []
        for name, path in self.bundles.items():
            train = ["--train"] if name == "trained" else []
            run([arguments.shale, "bundle", tree, "-o", path, "--run", "run", "-qf"] + runtime + train)
        run(["mksquashfs", tree, self.squash, "-comp", "zstd", "-noappend"])
        for folder in (self.kernel, self.fuse, self.run_dir):
            os.makedirs(folder, mode=0o700)
        if self.user:
            os.chmod(work, 0o755)
            for folder in (self.fuse, self.run_dir):
                shutil.chown(folder, self.user)
        self.has_kernel = subprocess.run(["mount", "-o", "loop,ro", self.squash, self.kernel],
                                         stderr=subprocess.DEVNULL).returncode == 0

    def close(self):
        self.end_drivers()
        if self.has_kernel:
            run(["umount", self.kernel])

    def names(self, is_cold):
        again = [] if is_cold else ["again"]
        squashfs = ["squashfs"] if self.has_kernel else []
        return ["plain", "bundle", "trained"] + again + squashfs + ["squashfuse"]

    def mounts(self):
        """The mount points of bundles."""
        with open("/proc/self/mountinfo") as table:
            points = [line.split()[4] for line in table]
        return [point for point in points if point.startswith(self.run_dir + "/")]

    def end_drivers(self):
        """Unmounts what lingers, and waits until the drivers have removed the mount points."""
        folder = self.run_dir + "/shale-bundles"
        while os.path.isdir(folder) and os.listdir(folder):
            for point in self.mounts():
                # The driver may be faster.
                subprocess.run(["umount", point], stderr=subprocess.DEVNULL)
            time.sleep(0.002)

    def prepare(self, name, is_cold):
        """Brings the way into its state: no driver is left or one is there, caches are warm or empty."""
        self.end_drivers()
        if name == "squashfs" and is_cold:
            run(["umount", self.kernel])
        if is_cold:
            drop_caches()
        if name == "squashfs" and is_cold:
            run(["mount", "-o", "loop,ro", self.squash, self.kernel])
        if name == "again":
            self.begin(name)

    def begin(self, name):
        more = {}
        if self.user:
            record = pwd.getpwnam(self.user)
            more = {"user": record.pw_uid, "group": record.pw_gid, "extra_groups": []}
        if name in ("bundle", "trained", "again"):
            linger = "30" if name == "again" else "0"
            env = {**os.environ, "XDG_RUNTIME_DIR": self.run_dir, "SHALE_LINGER": linger}
            run([self.bundles["trained" if name == "again" else name]], env=env, **more)
        elif name == "squashfuse":
            run(["squashfuse", self.squash, self.fuse], **more)
            run([self.fuse + "/run"], **more)
        else:
            run([(self.tree if name == "plain" else self.kernel) + "/run"])

    def start(self, name):
        """Starts the program once. Returns the milliseconds until it has ended."""
        begin = time.monotonic()
        self.begin(name)
        took = (time.monotonic() - begin) * 1000
        if name == "squashfuse":
            run(["fusermount3", "-u", self.fuse])
        return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shale", required=True)
    parser.add_argument("--runtime")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--work", default=None)
    parser.add_argument("--json")
    parser.add_argument("--program", action="append", choices=["python", "clang", "qemu"])
    parser.add_argument("--user")
    arguments = parser.parse_args()
    makers = {"python": python_tree}
    for name, program in (("clang", "/usr/bin/clang"), ("qemu", "/usr/bin/qemu-system-x86_64")):
        if os.path.exists(program):
            makers[name] = version_tree(program)
    results = {}
    for program, make in makers.items():
        if arguments.program and program not in arguments.program:
            continue
        with tempfile.TemporaryDirectory(dir=arguments.work) as work:
            tree = work + "/tree"
            make(tree)
            ways = Ways(arguments, work, tree)
            try:
                for is_cold in (False, True):
                    times = {name: [] for name in ways.names(is_cold)}
                    for round_number in range(arguments.rounds + 1):
                        for name in times:
                            ways.prepare(name, is_cold)
                            took = ways.start(name)
                            # The first round warms up.
                            if round_number > 0:
                                times[name].append(took)
                    state = "cold" if is_cold else "warm"
                    medians = {name: statistics.median(all_of) for name, all_of in times.items()}
                    results[f"{program} {state}"] = medians
                    shown = "  ".join(f"{name} {took:.1f} ({took / medians['plain']:.2f})"
                                      for name, took in medians.items())
                    size = sum(os.path.getsize(os.path.join(folder, file))
                               for folder, _, files in os.walk(tree) for file in files)
                    packed = [os.path.getsize(file) >> 20 for file in (ways.bundles["bundle"], ways.squash)]
                    sizes = f"{size >> 20} MiB, bundle {packed[0]}, squashfs {packed[1]}"
                    print(f"{program} {state} ({sizes}): {shown}", flush=True)
            finally:
                ways.close()
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
