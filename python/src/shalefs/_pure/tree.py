"""The tree of one snapshot, read in Python. `shalefs._native.Tree` has the same methods.

Paths and names are bytes, inodes are numbers, and 1 is the root.
"""

import errno
import os
import stat

from ..errors import DamagedError
from .image import _HOLE, _REBUILT, Image

_LINKS_MAX = 40
_SIGN = 1 << 63


class OpenImage:
    """An image and its trees. `shalefs._native.Image` has the same attributes."""

    def __init__(self, source, expect, cache_bytes):
        self._image = Image(source, expect, cache_bytes)
        self.identity = self._image.identity.hex() if self._image.identity else None
        self.snapshots = [snapshot.name for snapshot in self._image.snapshots]

    def tree(self, index):
        """The tree of a snapshot."""
        return Tree(self._image, self._image.snapshots[index])


class Tree:
    """One snapshot of an image."""

    def __init__(self, image, snapshot):
        self._image, self._snapshot, self._tables = image, snapshot, snapshot.tables

    def _row(self, inode):
        return self._tables["inodes"].row(inode - 1)

    def _range(self, row):
        first, _, _ = self._tables["directories"].row(row[13])
        end = self._tables["directories"].value(row[13] + 1, 0)
        if end < first:
            raise DamagedError("directories do not ascend")
        return first, end

    def _child(self, row, name):
        entries = self._tables["entries"]
        low, high = self._range(row)
        while low < high:
            middle = (low + high) // 2
            found = entries.value(middle, 1)
            if found == name:
                return entries.value(middle, 0)
            if found < name:
                low = middle + 1
            else:
                high = middle
        return None

    def _size(self, row):
        kind = stat.S_IFMT(row[0])
        if kind == stat.S_IFREG:
            return self._image.content_range(row[13])[1]
        if kind == stat.S_IFLNK:
            return len(self._tables["symlinks"].value(row[13], 0))
        return 0

    def resolve(self, path, follow):
        """Follows a path: (0, inode, mode, size), or (errno, 0, 0, 0) where it leads to nothing.

        Symbolic links are followed inside the image; `..` never leaves its root.
        """
        waiting = _names(path)
        stack, links = [(1, self._row(1))], 0
        while waiting:
            name = waiting.pop()
            row = stack[-1][1]
            if stat.S_IFMT(row[0]) != stat.S_IFDIR:
                return errno.ENOTDIR, 0, 0, 0
            if name == b"..":
                if len(stack) > 1:
                    stack.pop()
                continue
            number = self._child(row, name)
            if number is None:
                return errno.ENOENT, 0, 0, 0
            row = self._row(number)
            if stat.S_IFMT(row[0]) == stat.S_IFLNK and (waiting or follow):
                links += 1
                if links > _LINKS_MAX:
                    return errno.ELOOP, 0, 0, 0
                target = self.link_target(number)
                if target.startswith(b"/"):
                    del stack[1:]
                waiting += _names(target)
                continue
            stack.append((number, row))
        number, row = stack[-1]
        return 0, number, row[0], self._size(row)

    def stat(self, inode):
        """(mode, links, owner, group, size, (major, minor), (mtime, atime, ctime, btime)); times in nanoseconds."""
        row, kept = self._row(inode), self._snapshot.times_kept

        def when(bit, column):
            sec = (row[column] ^ _SIGN) - ((row[column] ^ _SIGN) >> 63 << 64)
            return sec * 10**9 + row[column + 1] if kept & bit else None

        device = (0, 0)
        if stat.S_IFMT(row[0]) in (stat.S_IFCHR, stat.S_IFBLK):
            device = row[13] >> 32, row[13] & 0xFFFFFFFF
        times = when(1, 4), when(2, 6), when(4, 8), when(8, 10)
        return row[0], row[3], row[1], row[2], self._size(row), device, times

    def entries(self, inode):
        """[(name, inode, mode)] of a directory, in the order of their bytes."""
        first, end = self._range(self._row(inode))
        return [(bytes(name), number, self._row(number)[0])
                for number, name in self._tables["entries"].rows(first, end)]

    def steps(self, inode, above):
        """Yields [(path, inode, mode, size)] of everything below a directory, parents first; paths begin with `above`.

        The size is that of a file or of the target of a link, and 0 for others.
        """
        waiting = [[(above, entry) for entry in self.entries(inode)][::-1]]
        while waiting:
            if not waiting[-1]:
                waiting.pop()
                continue
            above, (name, inode, mode) = waiting[-1].pop()
            yield [(os.fsdecode(above + name), inode, mode, self._size(self._row(inode)))]
            if stat.S_ISDIR(mode):
                waiting.append([(above + name + b"/", entry) for entry in self.entries(inode)][::-1])

    def link_target(self, inode):
        """Target of a symbolic link."""
        return bytes(self._tables["symlinks"].value(self._row(inode)[13], 0))

    def xattrs(self, inode):
        """[(name, value)] of the extended attributes."""
        row = self._row(inode)
        if row[12] == 0:
            return []
        first, count = self._tables["xattr_sets"].row(row[12] - 1)
        return [(bytes(name), bytes(value)) for name, value in self._tables["xattr_items"].rows(first, first + count)]

    def read(self, inode, offset, length):
        """Bytes of a regular file, fewer at its end."""
        return self._image.read(self._row(inode)[13], offset, length)

    def read_path(self, path):
        """All bytes of the regular file at a path, links followed; None where there is no such file."""
        number, inode, mode, size = self.resolve(path, True)
        return self.read(inode, 0, size) if number == 0 and stat.S_ISREG(mode) else None

    def read_stored(self, ranges, threads):
        """Yields [(number of the range, bytes)] of ranges (inode, offset, length), in the order of contents."""
        for content, offset, length, at in sorted((self._row(inode)[13], offset, length, at)
                                                  for at, (inode, offset, length) in enumerate(ranges)):
            yield [(at, self._image.read(content, offset, length))]

    def places(self, inodes):
        """Where regular files are stored: [(content, (first frame, last frame) or None)]."""
        return [self._place(self._row(inode)[13]) for inode in inodes]

    def _place(self, content):
        base, size = self._image.content_range(content)
        seen = []
        for length, stream in self._image.pieces(base, 0, size):
            if stream < _REBUILT:
                seen += [self._image.tables["frames"].last_at_most(at)[0] for at in (stream, stream + length - 1)]
        return content, (min(seen), max(seen)) if seen else None

    def data_ranges(self, inode):
        """[(start, end)] of the parts of a regular file that are data."""
        base, size = self._image.content_range(self._row(inode)[13])
        ranges, at = [], 0
        for length, stream in self._image.pieces(base, 0, size):
            if stream != _HOLE:
                if ranges and ranges[-1][1] == at:
                    ranges[-1] = (ranges[-1][0], at + length)
                else:
                    ranges.append((at, at + length))
            at += length
        return ranges


def _names(path):
    """Names of a path, the first one last."""
    return [part for part in path.split(b"/") if part not in (b"", b".")][::-1]
