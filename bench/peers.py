"""The programs compared by bench.py: how each packs, mounts and extracts a tree.

Each peer is a class with the shell commands as argument lists. A peer whose program is not
installed is left out of the run, and the run says so. Nothing here measures.
"""
import os
import shutil
from dataclasses import dataclass, field


@dataclass
class Peer:
    """One way to pack a tree.

    `pack(src, image)` and `extract(image, dst)` return a command; `mount(image, dir)` a command
    or None where the form cannot be mounted without unpacking.
    """

    name: str
    needs: list = field(default_factory=list)
    pack: object = None
    mount: object = None
    umount: object = None
    extract: object = None

    def missing(self):
        """Programs this peer needs that are not on PATH."""
        return [n for n in self.needs if shutil.which(n) is None]


def fusermount(directory):
    return ["fusermount3", "-u", directory]


def umount(directory):
    return ["umount", directory]


def shell(text):
    return ["bash", "-c", "set -o pipefail; " + text]


def squashfs(name, *options):
    return Peer(
        name,
        ["mksquashfs", "unsquashfs"],
        lambda src, image: ["mksquashfs", src, image, "-noappend", "-no-progress", "-quiet", *options],
        lambda image, d: ["mount", "-t", "squashfs", "-o", "loop,ro", image, d],
        umount,
        lambda image, dst: ["unsquashfs", "-quiet", "-no-progress", "-d", dst, image],
    )


def squashfuse(name, *options):
    peer = squashfs(name, *options)
    peer.needs = peer.needs + ["squashfuse_ll"]
    peer.mount = lambda image, d: ["squashfuse_ll", image, d]
    peer.umount = fusermount
    return peer


def erofs(name, algorithm):
    return Peer(
        name,
        ["mkfs.erofs"],
        lambda src, image: ["mkfs.erofs", "--quiet", f"-z{algorithm}", image, src],
        lambda image, d: ["mount", "-t", "erofs", "-o", "loop,ro", image, d],
        umount,
        None,
    )


def tar(name, program, compress, decompress):
    return Peer(
        name,
        ["tar", program],
        lambda src, image: shell(f"tar -C '{src}' --sort=name -cf - . | {compress} > '{image}'"),
        None,
        None,
        lambda image, dst: shell(f"mkdir -p '{dst}' && {decompress} < '{image}' | tar -C '{dst}' -xf -"),
    )


def shale(level, binary):
    option = [] if level is None else [f"-{level}"]
    return Peer(
        "shale default" if level is None else f"shale -{level}",
        [binary],
        lambda src, image: [binary, "create", "-q", *option, src, "-o", image],
        lambda image, d: [binary, "mount", image, d],
        lambda d: [binary, "umount", d],
        lambda image, dst: shell(f"mkdir -p '{dst}' && '{binary}' extract -q '{image}' -C '{dst}'"),
    )


def dwarfs(name, *options):
    return Peer(
        name,
        ["mkdwarfs", "dwarfs", "dwarfsextract"],
        lambda src, image: ["mkdwarfs", "-i", src, "-o", image, "--log-level=error", "--no-progress", *options],
        lambda image, d: ["dwarfs", image, d],
        fusermount,
        lambda image, dst: shell(f"mkdir -p '{dst}' && dwarfsextract -i '{image}' -o '{dst}'"),
    )


def all_peers(binary):
    """Every peer this harness knows, the cheap ones first."""
    binary = os.path.abspath(binary)
    return [
        *(shale(level, binary) for level in (1, 5, None, 9)),
        squashfs("mksquashfs lz4", "-comp", "lz4"),
        squashfs("mksquashfs zstd 15 256K", "-comp", "zstd", "-Xcompression-level", "15", "-b", "256K"),
        squashfs("mksquashfs zstd 19 1M", "-comp", "zstd", "-Xcompression-level", "19", "-b", "1M"),
        squashfs("mksquashfs xz 1M", "-comp", "xz", "-b", "1M"),
        squashfuse("squashfuse_ll zstd 128K", "-comp", "zstd", "-b", "128K"),
        erofs("erofs lz4hc", "lz4hc"),
        erofs("erofs lzma", "lzma"),
        tar("tar xz -9e", "xz", "xz -9e -T1", "xz -dc"),
        tar("tar zstd --long", "zstd", "zstd -q -19 --long=27 -T2", "zstd -q -dc --long=27"),
        tar("tar lrzip", "lrzip", "lrzip -q -L9 -p2 -", "lrzip -q -d -"),
        Peer(
            "wimcapture solid",
            ["wimlib-imagex"],
            lambda src, image: ["wimlib-imagex", "capture", "--unix-data", "--solid", "--no-acls", src, image],
            lambda image, d: ["wimlib-imagex", "mount", image, "1", d],
            lambda d: ["wimlib-imagex", "unmount", d],
            lambda image, dst: ["wimlib-imagex", "apply", "--unix-data", image, "1", dst],
        ),
        Peer(
            "zpaq -m3",
            ["zpaq"],
            lambda src, image: ["zpaq", "add", image, src, "-m3", "-t2"],
            None,
            None,
            None,
        ),
        dwarfs("mkdwarfs default"),
        dwarfs("mkdwarfs -l9", "-l9"),
    ]
