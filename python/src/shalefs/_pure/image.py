"""An open image: fixed structures, tables in place, content to bytes.

Opening reads superblock, trailer and root. Every table page is fetched, checked and decoded when it is first needed,
and kept in a cache bounded by its number of pages; decoded frames are kept in one bounded in bytes.
"""

import stat
import struct
import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple

from ..errors import DamagedError, IdentityError, NotAnImageError, UnsupportedError
from . import array, codecs, filters, lines, models, pages, samples
from .merkle import hash_levels, hash_places, hash_runs
from .sums import blake3, blake3_derive, xxh3_64

_SUPERBLOCK = bytes.fromhex("8b5348414c450d0a")
_SECTION = bytes.fromhex("8b534543544e0d0a")
_VERSION_MINOR_MAX = 4
_ROOT, _TRAILER, _MERKLE, _MERKLE_CONTINUED = 3, 8, 7, 11
_HOLE, _ZERO, _REBUILT = (1 << 64) - 1, (1 << 64) - 2, 1 << 63
_CHUNK_LEN_MAX = 1 << 20
_CHUNK_DEPTH_MAX = 3
_AFTER_LEN = 1024
_FRAME_PLAIN_LEN_MAX = 64 << 20
_PREFIX_LEN_MAX = 128 << 20
_REFERENCES_MAX = 16
_DEPTH_MAX = 8
_PAGE_LEN_MAX = 4 << 20
_PREFIX_DEPTH_MAX = 6
_PATCH_DEPTH_MAX = 12
_ROOT_DEPTH_MAX = 12
_ROOT_LEN_MAX = 16 << 20
_LEVELS_MAX = 8
_LEAF = 65536
_FAN_OUT = 256

_SCHEMAS = {
    "contents": "u", "extents": "uu", "frames": "u" * 10, "references": "u",
    "chunks": "u" * 8,
    "inodes": "u" * 14, "directories": "uuu", "entries": "ub", "symlinks": "b", "xattr_sets": "uu", "xattr_items": "bb",
}
# Columns that a page may count from bases, in the order of the bases, and the kind of inode that this is for.
_SHIFTS = {
    "inodes": ((13, stat.S_IFDIR), (13, stat.S_IFLNK)),
    "directories": ((0, None), (1, None), (2, None)),
    "entries": ((0, None),),
}
_NO_BASES = (0, 0, 0)
_M64 = (1 << 64) - 1
_SHARED = ("contents", "extents", "frames", "references")
_OWN = ("inodes", "directories", "entries", "symlinks", "xattr_sets", "xattr_items")


class PageRef(NamedTuple):
    offset: int
    checksum: int
    stored_len: int
    plain_len: int
    codec: int
    bases: tuple = _NO_BASES


def _page_ref(data, at):
    ref = PageRef(*struct.unpack_from("<QQIIB", data, at))
    if any(data[at + 25:at + 32]):
        raise DamagedError("a page reference has reserved bytes that are not zero")
    return ref


def _shifted(columns, shifts, bases):
    """Adds the bases of a page to its columns."""
    for (column, kind), base in zip(shifts, bases):
        if base:
            columns[column] = [value + base & _M64 if kind is None or stat.S_IFMT(mode) == kind else value
                               for value, mode in zip(columns[column], columns[0])]
    return columns


class _Cache:
    """The values that were used last, up to a total cost. Safe for threads."""

    def __init__(self, cost_max):
        self._cost_max, self._cost = cost_max, 0
        self._values, self._lock = OrderedDict(), threading.Lock()

    def get(self, key):
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key, value, cost):
        with self._lock:
            if key in self._values:
                return
            self._values[key] = (value, cost)
            self._cost += cost
            while self._cost > self._cost_max and len(self._values) > 1:
                self._cost -= self._values.popitem(last=False)[1][1]


class Table:
    """Rows of one table, read page by page."""

    def __init__(self, image, name, data, at):
        self.image, self.name, self.kinds = image, name, _SCHEMAS[name]
        self.row_count, _, self.levels = struct.unpack_from("<QQB", data, at)
        self.top, self.dictionary = _page_ref(data, at + 24), _page_ref(data, at + 56)
        if (self.levels == 0) != (self.row_count == 0) or self.levels > _LEVELS_MAX:
            raise DamagedError(f"the root of table {name} is damaged")

    def row(self, row):
        """All columns of one row."""
        first, columns = self._page(row)
        return [column[row - first] for column in columns]

    def value(self, row, column):
        first, columns = self._page(row)
        return columns[column][row - first]

    def rows(self, start, end):
        """Rows `start` to `end`, each as a tuple."""
        while start < end:
            first, columns = self._page(start)
            stop = min(end, first + len(columns[0]))
            yield from zip(*(column[start - first:stop - first] for column in columns))
            start = stop

    def last_at_most(self, key):
        """The last row whose column 0 is at most `key`, and all its columns."""
        if self.row_count == 0:
            raise DamagedError(f"table {self.name} is empty")
        first, end, ref, by_key = 0, self.row_count, self.top, 2
        first, columns = self._descend(first, end, ref, by_key, key)
        place = bisect_right(columns[0], key) - 1
        if place < 0:
            raise DamagedError(f"table {self.name} does not begin at 0")
        return first + place, [column[place] for column in columns]

    def _page(self, row):
        if not 0 <= row < self.row_count:
            raise DamagedError(f"row {row} is beyond the {self.row_count} rows of table {self.name}")
        return self._descend(0, self.row_count, self.top, 0, row)

    def _descend(self, first, end, ref, by, key):
        for level in range(self.levels - 1, 0, -1):
            index = self.image._columns(self, ref, None)
            if index[0][0] != first or any(a >= b for a, b in zip(index[0], index[0][1:])) or index[0][-1] >= end:
                raise DamagedError(f"an index page of table {self.name} is damaged")
            place = max(bisect_right(index[by], key) - 1, 0)
            first = index[0][place]
            end = index[0][place + 1] if place + 1 < len(index[0]) else end
            ref = PageRef(*(index[column][place] for column in range(3, 8)),
                          tuple(column[place] for column in index[8:]) or _NO_BASES)
        columns = self.image._columns(self, ref, self.kinds)
        if len(columns[0]) != end - first:
            raise DamagedError(f"a page of table {self.name} does not have the rows that its index claims")
        return first, columns


class Snapshot(NamedTuple):
    name: bytes
    times_kept: int
    file_bytes: int
    tables: dict


class Image:
    """One image. Reads are safe for threads."""

    def __init__(self, source, expect=None, cache_bytes=64 << 20):
        self.source, self.start = source, 0
        self._pages, self._frames = _Cache(512), _Cache(cache_bytes)
        self._leaves = None
        self._open(expect)

    def _open(self, expect):
        size = self.source.size
        trailer, length = self._trailer(size)
        block = self.source.read_at(self.start, min(64, size))
        if len(block) < 64 or block[:8] != _SUPERBLOCK:
            raise NotAnImageError("this is not a ShaleFS image: it does not begin with a superblock")
        if xxh3_64(block[:56]) != struct.unpack_from("<Q", block, 56)[0]:
            raise DamagedError("the superblock is damaged")
        major, minor = struct.unpack_from("<HH", block, 8)
        if major != 0 or minor > _VERSION_MINOR_MAX:
            known = f"0.{_VERSION_MINOR_MAX}"
            raise UnsupportedError(f"the image has format {major}.{minor}; this reader knows up to {known}")
        if struct.unpack_from("<Q", block, 24)[0] == 1:
            raise UnsupportedError("the image is thin: its base, which holds its beginning, was not looked for")
        if struct.unpack_from("<Q", block, 24)[0]:
            raise UnsupportedError("the image uses features that this reader does not know")
        if any(block[12:16]):
            raise DamagedError("the superblock has reserved bytes that are not zero")
        self.image_id = bytes(block[32:48])
        self._tag = struct.unpack_from("<Q", block, 32)[0]
        if trailer is None:
            trailer, length = self._walk()
        self.version, self.image_len = (major, minor), length
        root_offset, root_len = struct.unpack_from("<QQ", trailer)
        merkle_offset = struct.unpack_from("<Q", trailer, 56)[0] if minor >= 2 else 0
        self.identity = None
        if merkle_offset:
            head = self._merkle_head(merkle_offset)
            self.identity = blake3_derive("ShaleFS image identity 1", head)
        if expect is not None:
            expected = bytes.fromhex(expect) if isinstance(expect, str) else bytes(expect)
            self._expect(expected, merkle_offset, root_offset)
        if root_len > _ROOT_LEN_MAX + 64:
            raise DamagedError("the root is too long")
        kind, root = self._section(root_offset, root_len - 64)
        if kind != _ROOT:
            raise DamagedError("the trailer does not point to a root")
        self._join_roots(root_offset, root)

    def _trailer(self, size):
        """The trailer at the end of the file, and the image length; None where it is not there."""
        if size < 192:
            raise NotAnImageError("this is not a ShaleFS image: it is too short")
        end = self.source.read_at(size - 128, 128)
        fields = struct.unpack_from("<8sHB5xQQQQQQ", end)
        payload = end[64:]
        good = (fields[0] == _SECTION and fields[1] == _TRAILER and xxh3_64(end[:56]) == fields[8]
                and fields[4] == 64 and xxh3_64(payload) == fields[7])
        if not good:
            return None, 0
        self.start = size - 128 - fields[3]
        length = struct.unpack_from("<Q", payload, 16)[0]
        if self.start < 0 or length != fields[3] + 128 or length <= getattr(self.source, "base_len", 0):
            return None, 0
        return payload, length

    def _walk(self):
        """The last valid trailer, by walking all sections: the file was truncated, or bytes follow the image.

        The walk of a thin image begins after its base, so that the base is not taken for the image.
        """
        at, found = max(64, getattr(self.source, "base_len", 0)), None
        limit = self.source.size - self.start
        while at + 64 <= limit:
            header = self._read(at, 64)
            magic, kind, _, offset, stored, _, tag, _, check = struct.unpack("<8sHB5xQQQQQQ", header)
            if magic != _SECTION or xxh3_64(header[:56]) != check or offset != at or tag != self._tag:
                break
            if kind == _TRAILER and at + 64 + stored <= limit and stored == 64:
                payload = self._section(at, 64)[1]
                if struct.unpack_from("<Q", payload, 16)[0] == at + 128:
                    found = payload, at + 128
            at += 64 + stored
        if found is None:
            raise DamagedError("the image has no trailer: it is truncated or damaged")
        return found

    def _read(self, offset, length):
        """Bytes of the image, proven against the expected identity where one was given."""
        if self._leaves is None:
            return self.source.read_at(self.start + offset, length)
        covered, levels = self._leaves
        if offset + length > covered:
            raise IdentityError("the image refers to bytes that its identity does not cover")
        first, last = offset // _LEAF, (offset + length - 1) // _LEAF
        begin = first * _LEAF
        data = self.source.read_at(self.start + begin, min(covered, (last + 1) * _LEAF) - begin)
        for leaf in range(first, last + 1):
            digest = blake3(data[(leaf - first) * _LEAF:(leaf - first + 1) * _LEAF])
            self._prove(leaf, digest, levels)
        return data[offset - begin:offset - begin + length]

    def _prove(self, leaf, digest, levels):
        index = leaf
        for at, count in levels[:-1]:
            node = index // _FAN_OUT
            width = min(_FAN_OUT, count - node * _FAN_OUT)
            key = ("node", at, node)
            hashes = self._pages.get(key)
            if hashes is None:
                first = at + node * _FAN_OUT
                hashes = b"".join(self.source.read_at(self.start + place, length)
                                  for place, length in hash_places(self._runs, first, width))
            place = index - node * _FAN_OUT
            if hashes[32 * place:32 * place + 32] != digest:
                raise IdentityError(f"leaf {leaf} is not of the expected image: the file was changed")
            self._pages.put(key, hashes, 1)
            digest, index = blake3(hashes), node
        if digest != self._tree_root:
            raise IdentityError(f"leaf {leaf} is not of the expected image: the file was changed")

    def _merkle_head(self, offset):
        header = self.source.read_at(self.start + offset, 64)
        magic, kind, _, own, _, _, tag, _, check = struct.unpack("<8sHB5xQQQQQQ", header)
        if (magic != _SECTION or kind not in (_MERKLE, _MERKLE_CONTINUED) or own != offset or tag != self._tag
                or xxh3_64(header[:56]) != check):
            raise DamagedError("the header of the Merkle tree is damaged")
        return self.source.read_at(self.start + offset + 64, 64)

    def _expect(self, expected, merkle_offset, root_offset):
        if self.identity is None:
            raise IdentityError("the image has no identity")
        if self.identity != expected:
            raise IdentityError(f"the image has the identity {self.identity.hex()}, expected {expected.hex()}")
        head = self._merkle_head(merkle_offset)
        covered, own_root, _, leaf_len, fan_out = struct.unpack_from("<QQQII", head)
        if own_root != root_offset or leaf_len != _LEAF or fan_out != _FAN_OUT or not 0 < covered <= merkle_offset:
            raise IdentityError("the trailer does not lead to the root of the expected image")
        levels = hash_levels(covered)
        self._tree_root = head[32:64]
        self._runs = hash_runs(self.source, self.start, merkle_offset, sum(count for _, count in levels))
        self._leaves = covered, levels

    def _section(self, offset, stored_max, expected_sum=None):
        header = self._read(offset, 64)
        magic, kind, codec, own, stored, plain, tag, payload_sum, check = struct.unpack("<8sHB5xQQQQQQ", header)
        if magic != _SECTION or xxh3_64(header[:56]) != check or own != offset or tag != self._tag:
            raise DamagedError(f"the section at {offset} is damaged")
        if stored > stored_max or plain > _ROOT_LEN_MAX or codec > 1:
            raise DamagedError(f"the section at {offset} is longer than it may be")
        payload = self._read(offset + 64, stored)
        if xxh3_64(payload) != payload_sum or expected_sum not in (None, payload_sum):
            raise DamagedError(f"the payload of the section at {offset} is damaged")
        return kind, codecs.decode(codec, b"", payload, plain)

    def _decode_root(self, root):
        try:
            count = struct.unpack_from("<I", root)[0]
            if root[7] > 3:
                raise UnsupportedError(f"the image needs what this reader does not know ({root[7]:#x})")
            self.read_bytes_max = struct.unpack_from("<Q", root, 16)[0]
            self.tables = {name: Table(self, name, root, 24 + 88 * i) for i, name in enumerate(_SHARED)}
            self.snapshots, at = [], 376
            if root[7] & 1:
                self.tables["chunks"], at = Table(self, "chunks", root, at), at + 88
            earlier = None
            if root[7] & 2:
                earlier = struct.unpack_from("<QQQQII", root, at)
                # Further records are hints of what will be read.
                at += 40 * (1 + min(earlier[5], _ROOT_DEPTH_MAX))
            for _ in range(count):
                name_len, times, file_bytes = struct.unpack_from("<HB5xQ", root, at)
                tables = {name: Table(self, name, root, at + 16 + 88 * i) for i, name in enumerate(_OWN)}
                name = root[at + 544:at + 544 + name_len]
                if len(name) != name_len:
                    raise DamagedError("the root is truncated")
                self.snapshots.append(Snapshot(bytes(name), times, file_bytes, tables))
                at += 544 + name_len
        except struct.error:
            raise DamagedError("the root is truncated") from None
        if not self.snapshots or at != len(root):
            raise DamagedError("the root does not end with its last snapshot")
        return earlier

    def _join_roots(self, before, root):
        """Decodes a root whose section is at `before`, and puts the snapshots of the roots that it needs in front."""
        chain = []
        earlier = self._decode_root(root)
        tables, read_bytes_max, own = self.tables, self.read_bytes_max, self.snapshots
        while earlier is not None:
            offset, copy, section_len, payload_sum, count, _ = earlier
            if not count or len(chain) == _ROOT_DEPTH_MAX or max(offset, copy) + section_len > before:
                raise DamagedError("the root needs one that does not lie before it")
            chain.append((count, own))
            try:
                root = self._earlier_root(offset, section_len, payload_sum)
            except DamagedError:
                if not copy:
                    raise
                root = self._earlier_root(copy, section_len, payload_sum)
            before, earlier = offset, self._decode_root(root)
            own = self.snapshots
        for count, newer in reversed(chain):
            if len(own) < count:
                raise DamagedError("an earlier root has too few snapshots")
            own = own[:count] + newer
        self.tables, self.read_bytes_max, self.snapshots = tables, read_bytes_max, own

    def _earlier_root(self, offset, section_len, payload_sum):
        if not 64 <= section_len <= _ROOT_LEN_MAX:
            raise DamagedError("the root is longer than it may be")
        kind, root = self._section(offset, section_len - 64, payload_sum)
        if kind != _ROOT:
            raise DamagedError("an earlier root is no root")
        return root

    def _columns(self, table, ref, kinds):
        """Columns of a page. `kinds` is None for an index page, which has one of two forms."""
        key = ref.offset, kinds, ref.bases, table.name
        found = self._pages.get(key)
        if found is not None:
            return found
        patches = []
        at = ref
        while at.codec == 4:
            if len(patches) == _PATCH_DEPTH_MAX:
                raise DamagedError(f"the page at {ref.offset} needs too many others")
            at, patch = self._patch(at)
            patches.append(patch)
        plain = self._page_bytes(at, lambda: self._page_bytes(table.dictionary, None))
        page_kinds = kinds or "u" * (11 if plain[1:2] == b"\x0b" else 8)
        columns = pages.parse(plain, page_kinds)
        for patch in reversed(patches):
            columns = pages.patched(columns, patch, page_kinds)
        if kinds is not None:
            columns = _shifted(columns, _SHIFTS.get(table.name, ()), ref.bases)
        self._pages.put(key, columns, 1)
        return columns

    def _stored_page(self, ref):
        if ref.stored_len > _PAGE_LEN_MAX or ref.plain_len > _PAGE_LEN_MAX:
            raise DamagedError("a page is longer than it may be")
        stored = self._read(ref.offset, ref.stored_len)
        if xxh3_64(stored) != ref.checksum:
            raise DamagedError(f"the page at {ref.offset} is damaged")
        return stored

    def _patch(self, ref):
        """The page that a page of codec 4 patches, and the patch."""
        stored = self._stored_page(ref)
        base, compression, body = pages.patch_head(stored)
        base = PageRef(*base)
        if base.offset + base.stored_len > ref.offset:
            raise DamagedError(f"the page at {ref.offset} needs one that does not lie before it")
        return base, codecs.decode(compression, b"", body, ref.plain_len)

    def _page_bytes(self, ref, dictionary, depth=0):
        stored = self._stored_page(ref)
        if ref.codec == 2 and dictionary is not None:
            return codecs.decode(1, dictionary(), stored, ref.plain_len)
        if ref.codec == 3 and depth < _PREFIX_DEPTH_MAX and len(stored) >= 32:
            prefix = _page_ref(stored, 0)
            if prefix.offset + prefix.stored_len > ref.offset:
                raise DamagedError(f"the page at {ref.offset} needs one that does not lie before it")
            plain = self._page_bytes(prefix, dictionary, depth + 1)
            return codecs.decode(1, plain, stored[32:], ref.plain_len)
        if ref.codec > 1:
            raise DamagedError(f"the page at {ref.offset} has an unknown codec")
        return codecs.decode(ref.codec, b"", stored, ref.plain_len)

    def content_range(self, content):
        """Start and length of a content in content space."""
        table = self.tables["contents"]
        base, end = table.value(content, 0), table.value(content + 1, 0)
        if end < base:
            raise DamagedError("contents do not ascend")
        return base, end - base

    def pieces(self, base, at, length):
        """The parts of a range of content space: (length, position in stream space or a mark)."""
        table, position, end = self.tables["extents"], base + at, base + at + length
        while position < end:
            row, (start, stream) = table.last_at_most(position)
            until = min(table.value(row + 1, 0), end)
            if until <= position:
                raise DamagedError("extents do not ascend")
            mark = stream if stream in (_HOLE, _ZERO) else stream + position - start
            yield until - position, mark
            position = until

    def read(self, content, at, length, depth=_CHUNK_DEPTH_MAX + 1):
        """Bytes `at` to `at + length` of a content, fewer at its end. Needs only chunks of less than this depth."""
        base, size = self.content_range(content)
        length = max(0, min(length, size - at))
        parts = []
        for part, stream in self.pieces(base, at, length):
            if stream in (_HOLE, _ZERO):
                parts.append(bytes(part))
                continue
            while part:
                if stream >= _REBUILT:
                    piece = self.rebuilt(stream - _REBUILT, part, depth)
                else:
                    index, record = self.tables["frames"].last_at_most(stream)
                    plain = self.frame(index, record)
                    within = stream - record[0]
                    piece = plain[within:within + part]
                if not piece:
                    raise DamagedError("an extent points beyond the last frame or chunk")
                parts.append(piece)
                stream += len(piece)
                part -= len(piece)
        return b"".join(parts)

    def rebuilt(self, at, length, depth):
        """Bytes of the chunk at this place in rebuilt space, up to its end. It must have a smaller depth."""
        if "chunks" not in self.tables:
            raise DamagedError("an extent lies in rebuilt space, and the image has no chunks")
        table = self.tables["chunks"]
        index, (base, content, offset, plain_len, number, carried, own_depth, checksum) = table.last_at_most(at)
        if index + 1 >= table.row_count:
            return b""
        chunk_len = table.value(index + 1, 0) - base
        if not (0 < chunk_len <= _CHUNK_LEN_MAX and at - base < chunk_len and 0 < plain_len <= _CHUNK_LEN_MAX):
            raise DamagedError(f"chunk {index} is out of range")
        if not 1 <= own_depth < depth or checksum >> 32:
            raise DamagedError(f"chunk {index} is not below what needs it")
        found = self._frames.get(("chunk", index))
        if found is None:
            model = models.Model(number)
            before = min(offset, model.window_needed)
            data = self.read(content, offset - before, before + plain_len + _AFTER_LEN, own_depth)
            window, plain, after = data[:before], data[before:before + plain_len], data[before + plain_len:]
            if len(plain) != plain_len:
                raise DamagedError(f"chunk {index} ends beyond its content")
            found = models.rebuild(model, carried, offset, window, plain, after)
            if len(found) != chunk_len or xxh3_64(found) & 0xFFFFFFFF != checksum:
                raise DamagedError(f"chunk {index} is not rebuilt as what was packed")
            self._frames.put(("chunk", index), found, chunk_len)
        return found[at - base:at - base + length]

    def frame(self, index, record=None):
        """Plain bytes of a frame. References are decoded first, deepest first, at most eight deep."""
        found = self._frames.get(index)
        if found is not None:
            return found
        frames = self.tables["frames"]
        record = record or frames.row(index)
        start, offset, stored_len, codec, _, depth, first, count, stored_sum, plain_sum = record
        plain_len = frames.value(index + 1, 0) - start
        if not 0 < plain_len <= _FRAME_PLAIN_LEN_MAX or stored_len > plain_len or count > _REFERENCES_MAX \
                or depth > _DEPTH_MAX or codec >> 16:
            raise DamagedError(f"frame {index} is out of range")
        filter_number, codec = codec >> 8 & 255, codec & 255
        prefix = []
        for row in range(first, first + count):
            reference = self.tables["references"].value(row, 0)
            below = frames.row(reference)
            if below[5] >= depth:
                raise DamagedError(f"frame {index} refers to one that is not below it")
            prefix.append(filters.apply(filter_number, self.frame(reference, below)))
        if sum(map(len, prefix)) > _PREFIX_LEN_MAX:
            raise DamagedError(f"frame {index} refers to more than a reader has to hold")
        stored = self._read(offset, stored_len)
        if xxh3_64(stored) != stored_sum:
            raise DamagedError(f"frame {index} at {offset} is damaged")
        if filter_number in (filters.LINES, filters.ARRAY, filters.SAMPLES) and count:
            raise DamagedError(f"frame {index} has references that its filter excludes")
        if filter_number == filters.ARRAY:
            plain = array.undo(stored[:3], codecs.decode(codec, b"", stored[3:], plain_len))
        elif filter_number == filters.SAMPLES:
            header, payload, rest, head, length = samples.split(stored, plain_len)
            rest_len = plain_len - length
            if not rest_len and rest:
                raise DamagedError(f"frame {index} has bytes after its samples")
            rest = codecs.decode(codec, b"", rest, rest_len) if rest_len else b""
            plain = rest[:head] + samples.undo(header, payload) + rest[head:]
        elif filter_number == filters.LINES:
            form_len, at = lines.varint(stored, 0)
            if form_len > plain_len:
                raise DamagedError(f"frame {index} is out of range")
            plain = lines.undo(codecs.decode(codec, b"", stored[at:], form_len), plain_len)
        else:
            plain = filters.reverse(filter_number, codecs.decode(codec, b"".join(prefix), stored, plain_len))
        if len(plain) != plain_len or xxh3_64(plain) != plain_sum:
            raise DamagedError(f"frame {index} does not decode to what was packed")
        self._frames.put(index, plain, plain_len)
        return plain
