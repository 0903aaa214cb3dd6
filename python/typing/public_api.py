"""Uses the whole public API, for `mypy --strict`: it is checked and never run."""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

import shalefs
from shalefs import distributed


def progress(phase: str, items: int, items_found: int, done: int, found: int) -> None:
    print(phase, items, items_found, done, found)


def read(path: Path) -> Optional[bytes]:
    with shalefs.open(path, snapshot="latest", expect=None, cache_bytes=1 << 20) as image:
        names: List[str] = image.listdir("d") + image.glob("**/*.py") + list(image.find()) + image.snapshots
        facts: shalefs.Stat = image.stat(names[0])
        size: int = facts.st_size + image.lstat(names[0]).st_uid
        when: Optional[int] = facts.st_mtime_ns
        walked: Iterator[Tuple[str, List[str], List[str]]] = image.walk()
        listed: Iterator[Tuple[str, shalefs.Stat]] = image.scandir()
        kinds: bool = image.exists("a") or image.isdir("a") or image.isfile("a") or image.islink("a")
        ranges: List[bytes] = image.read_ranges([("a", 0, 10), ("b", -10, None)], threads=2)
        binary: io.BufferedReader = image.open("a")
        text: io.TextIOWrapper = image.open("a", "r", encoding="utf-8")
        raw: shalefs.RawFile = image.open("a", "rb", buffering=0)
        data: bytes = binary.read() + raw.read_at(0, 10) + image.read_bytes("a", 0, 10) + ranges[0]
        line: str = text.readline() + image.read_text("a") + image.readlink("l")
        values: Dict[str, bytes] = {name: image.getxattr("a", name) for name in image.listxattr("a")}
        holes: List[Tuple[int, int]] = image.data_ranges("a")
        entries: List[shalefs.Entry] = [entry for entry in image.entries("d") if entry.is_file() or entry.is_symlink()]
        many: Iterator[Tuple[shalefs.Entry, bytes]] = image.read_many(threads=2)
        some: Dict[str, bytes] = dict(image.read_many(["a", "b"]))
        sizes: int = sum(file.size + len(image.read_bytes(file)) + len(file.name) for file in image.files())
        print(entries[0].path, next(many), some, sizes, entries[0].is_dir(), entries[0].mode, entries[0].inode)
        image.extract("a", "target")
        lost: List[Tuple[str, str]] = shalefs.extract_all(image, "target", patterns=["*.py"], progress=progress)
        print(size, when, walked, listed, kinds, line, values, holes, lost, image.identity)
    with shalefs.open("s3://bucket/x.shale", storage_options={"anon": True}, base="s3://bucket/base.shale") as far:
        data += far.read_bytes("a")
    with shalefs.open("x.shale.age", identity=["key.txt", Path("other.txt")], passphrase=b"secret") as sealed:
        return data if sealed.identity else None


def write() -> str:
    report: shalefs.BuildReport = shalefs.create({"day": "/var/log"}, "x.shale", level=3, progress=progress)
    shalefs.append("x.shale", ["/var/log"], add=True, remove=["*.tmp"])
    merged: shalefs.BuildReport = shalefs.merge(["x.shale", Path("y.shale")], "z.shale", replace=True)
    shalefs.merge({"x": "x.shale"}, "z.shale", snapshots=True)
    found: shalefs.CheckReport = shalefs.check("x.shale", level="frames")
    try:
        complete: bool = report.complete and merged.verified and found.clean
    except (shalefs.DamagedError, shalefs.EncryptedError, shalefs.IdentityError, shalefs.NotAnImageError,
            shalefs.UnsupportedError) as error:
        raise shalefs.ShaleError(str(error)) from error
    return f"{complete} {report.left_out} {found.problems} {shalefs.engine} {shalefs.__version__}"


def mistakes(image: shalefs.FileSystem) -> None:
    """Each line is an error of types, or mypy reports that the comment is not needed."""
    image.stat(5)  # type: ignore[arg-type]
    image.open("a").readline().encode()  # type: ignore[attr-defined]
    image.read_ranges(["a"])  # type: ignore[list-item]
    shalefs.open(5)  # type: ignore[arg-type]
    shalefs.create("/tree", "x.shale", level="high")  # type: ignore[arg-type]
    distributed.create("/tree", "x.shale", part_bytes="1G")  # type: ignore[arg-type]


def many() -> int:
    report: distributed.DistributedReport = distributed.create("/tree", "x.shale", engine="dask", part_bytes=1 << 30)
    distributed.create(["/tree"], "x.shale", engine=ThreadPoolExecutor(2), parts="s3://bucket/parts")
    parts: List[distributed.PartReport] = report.parts
    print(parts[0].start, parts[0].report.files, report.image.identity, report.links, report.complete)
    total = 0
    with shalefs.open("x.shale") as image:
        for part in distributed.partitions(image, 8, by="directory", top="d"):
            total += part.size + sum(len(data) for _, data in part.read()) + len(part.paths)
    return total
