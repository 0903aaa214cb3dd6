#!/usr/bin/env python3
"""Prints the manifest (docs/manifest.md) of a forest: N levels of directories with files in them.

Plain, every file is empty and named file-N.txt: `forest.py 1000 1000 1000` are 10^9 of them in
1000 x 1000 directories. With --real, names are made of words and suffixes, sizes are log-normal (all of it
holes), times fall within some years, and owners and modes vary as in a home directory. The parameters go to
standard error, so that they stand beside the result. The same parameters print the same bytes.
"""

import argparse
import random
import sys

WORDS = (
    "alpha archive backup beta build cache chapter client common config control core data default demo "
    "design device draft driver edit engine entry export final font frame graph group guide handler helper "
    "history icon image import index info input install kernel label layer layout library list local log "
    "main manager map master media memory menu merge message meta method model module monitor native network "
    "note object option order output package page panel parser patch path plan player plugin policy print "
    "process profile project query queue random reader record release remote render report request result "
    "route sample scene schema script search section server session setup shader shared signal source stage "
    "state static status storage stream style summary support switch symbol system table target task template "
    "test text theme thread timer token trace track update user utils value vector version video view widget"
).split()
SUFFIXES = [".c", ".h", ".py", ".txt", ".md", ".json", ".html", ".png", ".jpg", ".o", ".so", ".xml", ".csv", ""]
YEARS = 8
START = 1_500_000_000


def names(count, stem, tail, order):
    """count names, numbered from 0."""
    made = [f"{stem}{number}{tail}".encode() for number in range(count)]
    if order == "name":
        made.sort()
    return made


def plain(levels, args, out):
    """Empty files; one block of lines a directory, the same but for the directory's path."""
    *directories, files = levels
    attributes = b" %o 0 0 %d " % (0o644, START)
    first = b"f" + attributes + b"0 \0"
    # A line says only what differs from the one before.
    rest = b"f = = = = 0 \0"
    made = names(files, "file-", ".txt", args.order)
    block = b"".join((rest if at else first) + name + b"\n" for at, name in enumerate(made))
    line = b"d 755 0 0 %d - " % START
    out.write(line + b".\n")

    def descend(path, levels):
        if not levels:
            out.write(block.replace(b"\0", path + b"/" if path else b""))
            return
        for name in names(levels[0], "dir-", "", args.order):
            inner = path + b"/" + name if path else name
            out.write(line + inner + b"\n")
            descend(inner, levels[1:])

    descend(b"", directories)


def real(levels, args, out):
    """Files as people have them."""
    chance = random.Random(args.seed)
    *directories, files = levels
    out.write(b"d 755 0 0 %d - .\n" % START)

    def fresh(taken, suffixes):
        while True:
            name = "-".join(chance.choices(WORDS, k=chance.choice((1, 2, 2, 3))))
            if chance.random() < 0.3:
                name += str(chance.randrange(1000))
            name += chance.choice(suffixes)
            if name not in taken:
                taken.add(name)
                return name

    def descend(path, levels):
        taken = set()
        owner = chance.choice((0, 1000, 1000, 1001))
        moment = START + chance.randrange(YEARS * 365 * 86400)
        if not levels:
            for _ in range(chance.randrange(2 * files + 1)):
                name = fresh(taken, SUFFIXES)
                size = int(chance.lognormvariate(8.5, 2.5)) if args.sizes else 0
                mode = 0o755 if chance.random() < 0.05 else 0o644
                time = moment + chance.randrange(7 * 86400)
                line = f"f {mode:o} {owner} {owner} {time}.{chance.randrange(10**9):09} {size} {path}{name}\n"
                out.write(line.encode())
            return
        for _ in range(levels[0]):
            name = fresh(taken, [""])
            out.write(f"d 755 {owner} {owner} {moment} - {path}{name}\n".encode())
            descend(f"{path}{name}/", levels[1:])

    descend("", directories)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levels", type=int, nargs="+", help="directories in a directory, level by level; last: files")
    parser.add_argument("--real", action="store_true", help="names, sizes, times and owners as people have them")
    parser.add_argument("--no-sizes", dest="sizes", action="store_false", help="with --real: all files are empty")
    parser.add_argument("--seed", type=int, default=1, help="of --real")
    parser.add_argument("--order", choices=("name", "number"), default="name", help="of names in a directory")
    args = parser.parse_args()
    print(f"forest: {' '.join(f'{k}={v}' for k, v in vars(args).items())}", file=sys.stderr)
    out = open(1, "wb", buffering=1 << 20, closefd=False)
    try:
        (real if args.real else plain)(args.levels, args, out)
        out.flush()
    except BrokenPipeError:
        sys.exit("forest: the reader went away")


if __name__ == "__main__":
    main()
