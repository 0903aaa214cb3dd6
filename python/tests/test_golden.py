"""Every golden image reads as its manifest says; testdata/images/README.md has the rule of its hashes."""

import os
import stat

import pytest
from conftest import IMAGES

import shalefs
from shalefs._pure.sums import blake3
from shalefs._pure.utc import utc_period

KINDS = {stat.S_IFIFO: "p", stat.S_IFCHR: "c", stat.S_IFDIR: "d", stat.S_IFBLK: "b", stat.S_IFREG: "-",
         stat.S_IFLNK: "l", stat.S_IFSOCK: "s"}
BLOCK = 4096
# No Python package decodes brotli with references or with a large window.
UNDECODABLE = {"0.3-brotli"}


def escaped(raw):
    """Bytes as Rust's escape_ascii writes them."""
    special = {9: r"\t", 10: r"\n", 13: r"\r", 34: r"\"", 39: r"\'", 92: r"\\"}
    return "".join(special.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in raw)


def content_hash(image, path):
    blocks = {}
    for start, end in image.data_ranges(path):
        for at in range(start - start % BLOCK, end, 256 * BLOCK):
            chunk = image.read_bytes(path, at, at + 256 * BLOCK)
            for offset in range(0, len(chunk), BLOCK):
                block = chunk[offset:offset + BLOCK]
                if at + offset < end and block.strip(b"\0"):
                    blocks[at + offset] = block
    return blake3(b"".join(at.to_bytes(8, "little") + blocks[at] for at in sorted(blocks)))[:8].hex()


def lines(image):
    paths, first = [b""], {}
    for top, directories, files in image.walk():
        paths += [os.fsencode(f"{top}/{name}" if top else name) for name in directories + files]
    for path in sorted(paths):
        first.setdefault(image.lstat(path).st_ino, path)
    for path in sorted(paths):
        facts = image.lstat(path)
        kind = KINDS[stat.S_IFMT(facts.st_mode)]
        regular, directory = kind == "-", kind == "d"
        if kind == "l":
            content = f"-> {escaped(os.fsencode(image.readlink(path)))}"
        else:
            content = f"hash {content_hash(image, path) if regular else ''}"
        attributes = ""
        for name in image.listxattr(path, False):
            value = image.getxattr(path, name, False)
            attributes += f" {escaped(os.fsencode(name))}={len(value)}:{blake3(value)[:4].hex()}"
        ranges = ", ".join(f"({a}, {b})" for a, b in (image.data_ranges(path) if regular else []))
        seconds, nanoseconds = divmod(facts.st_mtime_ns, 10**9)
        yield (f"{escaped(path)} {kind}{stat.S_IMODE(facts.st_mode):04o} {facts.st_uid}:{facts.st_gid} "
               f"len {facts.st_size} mtime {seconds}.{nanoseconds:09d} "
               f"dev {os.major(facts.st_rdev)}:{os.minor(facts.st_rdev)} links {1 if directory else facts.st_nlink} "
               f"first {escaped(path if directory else first[facts.st_ino])} {content}{attributes} data [{ranges}]")


@pytest.mark.parametrize("name", sorted(path.stem for path in IMAGES.glob("*.shale")))
def test_a_golden_image_reads_as_its_manifest_says(name):
    with shalefs.open(IMAGES / f"{name}.shale") as image:
        if name in UNDECODABLE and shalefs.engine == "pure":
            with pytest.raises(shalefs.UnsupportedError, match="brotli"):
                list(lines(image))
        else:
            assert list(lines(image)) == (IMAGES / f"{name}.manifest").read_text().splitlines()


@pytest.mark.parametrize("name", ["0.2-tiny", "0.3-tiny", "0.3-lines", "0.3-index"])
def test_under_its_identity_an_image_reads_the_same(name):
    with shalefs.open(IMAGES / f"{name}.shale") as image:
        identity, found = image.identity, list(lines(image))
    with shalefs.open(IMAGES / f"{name}.shale", expect=identity) as image:
        assert list(lines(image)) == found
    with pytest.raises(shalefs.IdentityError):
        shalefs.open(IMAGES / f"{name}.shale", expect="00" * 32)


def test_snapshots_are_chosen_by_name_and_number(images):
    path = images / "0.3-snapshots.shale"
    with shalefs.open(path) as newest, shalefs.open(path, snapshot="#0") as oldest:
        assert len(newest.snapshots) == 2 and list(lines(newest)) != list(lines(oldest))
    with pytest.raises(ValueError, match="no #7"):
        shalefs.open(path, snapshot=7)
    with pytest.raises(ValueError, match="at or before 2026-11-22"):
        shalefs.open(path, snapshot="2026-11-22")


def test_times_cover_what_they_name():
    noon = 1795348800
    assert utc_period(b"2026-11-22") == (noon - 43200, noon + 43199)
    assert utc_period(b"2026-11-22T12:00") == (noon, noon + 59)
    assert utc_period(b"2026-11-22 12:00:00.5Z") == (noon, noon)
    assert utc_period(b"2026-11")[1] == noon + 43199 + 8 * 86400
    for wrong in (b"2026", b"2026-02-29", b"2026-11-00", b"2026-13", b"2026-11-22T24", b"2026-11-22Z", b"\xff"):
        assert utc_period(wrong) is None, wrong
