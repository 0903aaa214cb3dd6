"""Several files that hold one image: a thin image and its base, and the parts of an image that was split.

A thin image holds the end of an image. Its head names the base, which holds the beginning, with its identity.
"""

import os
import re
import struct

from ..errors import DamagedError, NotAnImageError, ShaleError, UnsupportedError
from .merkle import hash_levels, hash_places, hash_runs
from .sums import blake3, blake3_derive, xxh3_64

_SUPERBLOCK = bytes.fromhex("8b5348414c450d0a")
_SECTION = bytes.fromhex("8b534543544e0d0a")
_THIN, _BASE, _MERKLE, _TRAILER = 1, 9, 7, 8
_VERSION_MINOR_MAX = 4
_HEAD_LEN_MAX = 431
_DEPTH_MAX = 8
_TRIED_MAX = 64
_PARTS_MAX = 999
_LEAF = 65536
_PART = re.compile(rb"(.+)\.(\d+)-of-(\d+)", re.DOTALL)


class JoinedSource:
    """Ranges of several sources as one. The first `base_len` bytes are an image of their own."""

    def __init__(self, ranges, base_len=0):
        self._pieces, self.size, self.base_len = [], 0, base_len
        for source, start, end in ranges:
            if not 0 <= start <= end <= source.size:
                raise DamagedError("a file is shorter than the image needs")
            self._pieces.append((self.size, source, start, end - start))
            self.size += end - start

    def read_at(self, offset, length):
        if offset < 0 or offset + length > self.size:
            raise DamagedError(f"the image ends within {length} bytes at offset {offset}: it is truncated")
        parts = []
        for at, source, start, size in self._pieces:
            begin, end = max(offset, at), min(offset + length, at + size)
            if begin < end:
                parts.append(source.read_at(start + begin - at, end - begin))
        return b"".join(parts)

    def close(self):
        for source in {id(piece[1]): piece[1] for piece in self._pieces}.values():
            source.close()


class Finder:
    """Finds the files beside a file, by a function from a name to an open source, or None for no directory."""

    def __init__(self, name, beside):
        self.name, self.beside = name, beside


def gather(source, finder, bases=()):
    """All files of the image that begins with `source`; `bases` are functions that open a file that may be the base."""
    return _gather(source, finder, list(bases), 0, [0])


def _gather(source, finder, bases, depth, tried):
    parts = _part_name(finder.name) if finder else None
    lengths = None
    if parts:
        source, lengths = _join_parts(source, finder, *parts)
    head = _head(source)
    if head is None:
        if lengths:
            _check_parts(source, lengths, 0, 0)
        return source
    image_id, base_len, identity, name, head_len = head
    wanted = f"the image {os.fsdecode(name)!r} of {base_len} bytes with the identity {identity.hex()}"
    if depth >= _DEPTH_MAX:
        raise ShaleError(f"the image is thin, in a chain of more than {_DEPTH_MAX} thin images; it needs {wanted}")
    openers = [lambda b=b: b(name) for b in bases]
    if finder and finder.beside and name:
        openers.append(lambda: finder.beside(name))
    reasons = []
    for opener in openers:
        tried[0] += 1
        if tried[0] > _TRIED_MAX:
            break
        base = None
        try:
            base, base_finder = opener()
            base = _gather(base, base_finder, bases, depth + 1, tried)
            start = _start_of_base(base, image_id, base_len, identity)
            joined = JoinedSource([(base, start, start + base_len), (source, head_len, source.size)], base_len)
            if lengths:
                _check_parts(joined, lengths, head_len, base_len)
            return joined
        except OSError as error:
            reasons.append(str(error))
            if base is not None:
                base.close()
    why = "; ".join(reasons) or "nothing tried"
    raise ShaleError(f"the image is thin, and its base was not found: {wanted}; {why}")


def _head(source):
    """The base that the file names, and the length of its head; None if the file is not thin."""
    data = source.read_at(0, min(_HEAD_LEN_MAX, source.size))
    if len(data) < 64 or data[:8] != _SUPERBLOCK or struct.unpack_from("<Q", data, 24)[0] & _THIN == 0:
        return None
    if xxh3_64(data[:56]) != struct.unpack_from("<Q", data, 56)[0]:
        raise DamagedError("the head of the thin image is damaged")
    major, minor = struct.unpack_from("<HH", data, 8)
    if major != 0 or minor > _VERSION_MINOR_MAX or struct.unpack_from("<Q", data, 24)[0] != _THIN:
        raise UnsupportedError("the thin image is of a newer version")
    if len(data) < 128:
        raise DamagedError("the thin image is truncated")
    magic, kind, codec, at, stored, plain, tag, total, check = struct.unpack_from("<8sHB5xQQQQQQ", data, 64)
    payload = data[128:128 + stored]
    good = (magic == _SECTION and kind == _BASE and codec == 0 and at == 64 and stored == plain
            and 48 <= stored <= 303 and len(payload) == stored and tag == struct.unpack_from("<Q", data, 32)[0]
            and xxh3_64(data[64:120]) == check and xxh3_64(payload) == total
            and not any(data[12:16]) and not any(data[75:80]) and not any(payload[42:48]))
    if not good:
        raise DamagedError("the head of the thin image is damaged")
    base_len, identity, name_len = struct.unpack_from("<Q32sH", payload)
    name = payload[48:]
    if name_len != len(name) or base_len < 192 or base_len >> 63 or name in (b".", b"..") or set(name) & {0, 47}:
        raise DamagedError("the head of the thin image names an impossible base")
    return data[32:48], base_len, identity, name, 128 + stored


def _start_of_base(source, image_id, base_len, identity):
    """Where the base begins in its file. Raises an error if it is another image."""
    start = 0
    block = source.read_at(0, min(64, source.size))
    if block[:8] != _SUPERBLOCK:
        # Something precedes it: its trailer says where it begins.
        if source.size < 192:
            raise NotAnImageError("it is not an image")
        end = source.read_at(source.size - 128, 128)
        if end[:8] != _SECTION or xxh3_64(end[:56]) != struct.unpack_from("<Q", end, 56)[0]:
            raise NotAnImageError("it is not an image")
        start = source.size - 128 - struct.unpack_from("<Q", end, 16)[0]
        if start < 0:
            raise NotAnImageError("it is not an image")
        block = source.read_at(start, 64)
    if block[:8] != _SUPERBLOCK or len(block) < 64 or block[32:48] != image_id:
        raise ShaleError("it is another image")
    if source.size - start < base_len:
        raise ShaleError(f"it has {source.size - start} of {base_len} bytes: an earlier state, or truncated")
    trailer = source.read_at(start + base_len - 128, 128)
    fields = struct.unpack_from("<8sHB5xQQQQQQ", trailer)
    if (fields[0] != _SECTION or fields[1] != _TRAILER or fields[3] != base_len - 128 or fields[4] != 64
            or xxh3_64(trailer[:56]) != fields[8] or xxh3_64(trailer[64:]) != fields[7]
            or trailer[104:120] != image_id):
        raise ShaleError("it is damaged, or has no state of this length")
    merkle = struct.unpack_from("<Q", trailer, 120)[0]
    if not merkle or merkle + 128 > base_len:
        raise ShaleError("it has no identity")
    header = source.read_at(start + merkle, 128)
    if header[:8] != _SECTION or xxh3_64(header[:56]) != struct.unpack_from("<Q", header, 56)[0]:
        raise DamagedError("its Merkle tree is damaged")
    found = blake3_derive("ShaleFS image identity 1", header[64:128])
    if found != identity:
        raise ShaleError(f"it has the identity {found.hex()}")
    return start


def _part_name(name):
    """The stem, number and count of the name of a part; None for any other name."""
    match = _PART.fullmatch(name)
    if not match:
        return None
    stem, number, count = match.group(1), int(match.group(2)), int(match.group(3))
    right = len(match.group(2)) == len(match.group(3)) == len(str(count))
    return (stem, number, count) if right and 2 <= count <= _PARTS_MAX and 1 <= number <= count else None


def _join_parts(first, finder, stem, number, count):
    digits = len(str(count))

    def named(part):
        return stem + f".{part:0{digits}}-of-{count}".encode()

    if number != 1:
        wanted = os.fsdecode(named(1))
        raise ShaleError(f"this is part {number} of {count} of an image; name its first part, {wanted!r}")
    sources = [first]
    for part in range(2, count + 1):
        try:
            sources.append(finder.beside(named(part))[0])
        except OSError as error:
            raise ShaleError(f"part {part} of {count} of the image cannot be opened: {error}") from None
        size = sources[-1].size
        if size != first.size if part < count else not 1 <= size <= first.size:
            raise ShaleError(f"part {part} of {count} has {size} bytes and part 1 has {first.size}: one is truncated "
                             "or swapped with another")
    return JoinedSource([(source, 0, source.size) for source in sources]), [source.size for source in sources]


def _check_parts(image, lengths, head_len, base_len):
    """Compares a leaf of each part with the Merkle tree, if the image has one at its end and begins the file."""
    end = image.read_at(image.size - 128, 128)
    if (end[:8] != _SECTION or xxh3_64(end[:56]) != struct.unpack_from("<Q", end, 56)[0]
            or struct.unpack_from("<H", end, 8)[0] != _TRAILER):
        raise ShaleError("the parts are not a whole image: the last one is truncated, or parts are swapped")
    merkle = struct.unpack_from("<Q", end, 120)[0]
    if struct.unpack_from("<Q", end, 16)[0] != image.size - 128 or not merkle or merkle + 128 > image.size:
        return
    covered = struct.unpack_from("<Q", image.read_at(merkle + 64, 64))[0]
    if not 0 < covered <= merkle:
        return
    runs = hash_runs(image, 0, merkle, sum(count for _, count in hash_levels(covered)))
    start = 0
    for part, length in enumerate(lengths, 1):
        begin, stop = max(start, head_len) - head_len + base_len, start + length - head_len + base_len
        start += length
        leaves = range(-(-begin // _LEAF), min(stop, covered) // _LEAF)
        if not leaves:
            continue
        looked_at = {leaves[0], leaves[len(leaves) // 2], leaves[-1]}
        if all(blake3(image.read_at(leaf * _LEAF, _LEAF)) != image.read_at(*next(hash_places(runs, leaf, 1)))
               for leaf in looked_at):
            raise ShaleError(f"part {part} of {len(lengths)} does not hold this part of the image: it is swapped with "
                             "another, or is of another image")
