"""Where the hashes of the Merkle tree of an image lie: in one section, or in those of several appends.

Nothing here is proven: a node is compared with the hash above it, wherever its hashes were found.
"""

import struct

from ..errors import DamagedError

_MERKLE = 7
_RUNS_MAX = 1024
_LEAF = 65536
_FAN_OUT = 256


def hash_runs(source, start, merkle, total):
    """Where the hashes of the Merkle tree of the section at `merkle` lie: (first, count, offset) of each run."""
    kind, = struct.unpack_from("<H", source.read_at(start + merkle + 8, 2))
    if kind == _MERKLE:
        return [(0, total, merkle + 128)]
    stored, = struct.unpack("<Q", source.read_at(start + merkle + 24, 8))
    count, reserved = struct.unpack("<II", source.read_at(start + merkle + 128, 8))
    if not 1 <= count <= _RUNS_MAX or reserved or 72 + 16 * count > stored:
        raise DamagedError("the list of hashes of the Merkle tree is damaged")
    runs, first = [], 0
    for place, length in struct.iter_unpack("<QQ", source.read_at(start + merkle + 136, 16 * count)):
        if not 1 <= length <= total - first or place + 32 * length > merkle + 64 + stored:
            raise DamagedError("the list of hashes of the Merkle tree is damaged")
        runs.append((first, length, place))
        first += length
    if first != total:
        raise DamagedError("the list of hashes of the Merkle tree is damaged")
    return runs


def hash_places(runs, first, count):
    """The ranges of the image that hold `count` hashes from the hash `first` on, as (offset, length)."""
    for run_first, run_count, offset in runs:
        begin, end = max(first, run_first), min(first + count, run_first + run_count)
        if begin < end:
            yield offset + 32 * (begin - run_first), 32 * (end - begin)


def hash_levels(covered):
    """The levels of the tree over `covered` bytes, leaves first: the number of the first hash, and how many."""
    levels, at, count = [], 0, -(-covered // _LEAF)
    while True:
        levels.append((at, count))
        if count == 1:
            return levels
        at, count = at + count, -(-count // _FAN_OUT)
