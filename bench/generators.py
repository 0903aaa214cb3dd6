#!/usr/bin/env python3
"""Compares ways to make an image of a forest of empty files: files on a disk, a tar, a manifest.

    generators.py --shale BINARY --work FOLDER [LEVELS...]

By files: a shell makes the tree file by file, then `shale create` packs it. By tar: GNU tar reads the same
tree into a pipe. By manifest: bench/forest.py into a pipe. Printed: seconds of each step, entries a second of
the whole way, size of the image. FOLDER needs room for the tree; it is removed at the end.
"""

import argparse
import os
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Fork nothing for a file: that would measure fork.
SHELL = """
make() {
    local n
    if [ $# -eq 1 ]; then
        for ((n = 0; n < $1; n++)); do : > file-$n.txt; done
        return
    fi
    local count=$1
    shift
    for ((n = 0; n < count; n++)); do
        mkdir dir-$n && cd dir-$n && make "$@" && cd ..
    done
}
make "$@"
"""


def run(command, **more):
    start = time.perf_counter()
    subprocess.run(command, check=True, **more)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levels", type=int, nargs="*", default=[100, 100, 100])
    parser.add_argument("--shale", default="shale")
    parser.add_argument("--work", required=True, help="an empty or missing folder")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    if os.listdir(args.work):
        parser.error(f"{args.work} is not empty")
    tree, image = os.path.join(args.work, "tree"), os.path.join(args.work, "x.shale")
    os.mkdir(tree)
    levels = [str(level) for level in args.levels]
    entries, above = 1, 1
    for level in args.levels:
        above *= level
        entries += above

    def result(how, steps):
        whole = sum(seconds for _, seconds in steps)
        parts = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in steps)
        size, load = os.path.getsize(image), os.getloadavg()[0]
        print(f"{how}: {parts}: {entries / whole:.0f} entries a second, {size} bytes (load {load:.1f})")
        os.remove(image)

    create = [args.shale, "create", "-q", "--no-verify", "-o", image]
    try:
        made = run(["bash", "-c", SHELL, "make", *levels], cwd=tree)
        result("shell", [("files", made), ("create", run([*create, tree]))])
        tar = f'tar -C "$1" -cf - . | "$2" create -q --no-verify -o "$3" -'
        piped = run(["bash", "-o", "pipefail", "-c", tar, "tar", tree, args.shale, image])
        result("tar", [("files", made), ("tar | create", piped)])
        forest = f'"$1" {" ".join(levels)} | "$2" create -q --no-verify -o "$3" --manifest -'
        script = os.path.join(HERE, "forest.py")
        piped = run(["bash", "-o", "pipefail", "-c", forest, "forest", script, args.shale, image])
        result("manifest", [("forest.py | create", piped)])
    finally:
        shutil.rmtree(args.work)


if __name__ == "__main__":
    main()
