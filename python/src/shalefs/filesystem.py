"""One snapshot of an image as a file system: `open`, `listdir`, `walk`, `glob`, `stat` and so on.

Paths are str or bytes, with `/` between names, relative to the root of the image. Names that are not UTF-8
become str by `os.fsdecode` with surrogate escapes, as everywhere in Python.
"""

import errno
import fnmatch
import io
import os
import re
import stat as stat_module
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, unquote_to_bytes

from . import errors
from ._pure.image import _HOLE, Image
from ._pure.source import BytesSource, FileSource, ObjectSource, UrlSource
from ._pure.thin import Finder, gather
from ._pure.utc import utc_period

PathType = Union[str, bytes, "os.PathLike[str]"]
_LINKS_MAX = 40
_EPOCH_FLIP = 1 << 63


class Stat(NamedTuple):
    """What an inode says of itself. Times that the image does not keep are None."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    st_rdev: int
    st_mtime_ns: Optional[int]
    st_atime_ns: Optional[int]
    st_ctime_ns: Optional[int]
    st_birthtime_ns: Optional[int]

    @property
    def st_mtime(self) -> float:
        return (self.st_mtime_ns or 0) / 1e9


# A path with a colon is no URL.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[^:]+)?://")


class _Inode:
    __slots__ = ("number", "row")

    def __init__(self, number, row):
        self.number, self.row = number, row

    @property
    def format(self):
        return stat_module.S_IFMT(self.row[0])


def _path_finder(path):
    path = os.fsencode(path)

    def beside(name):
        found = os.path.join(os.path.dirname(path), name)
        return FileSource(found), _path_finder(found)

    return Finder(os.path.basename(path), beside)


def _url_finder(url, options):
    folder, _, last = re.split(r"[?#]", url)[0].rpartition("/")
    is_web = url.lower().startswith(("http:", "https:"))

    def beside(name):
        found = f"{folder}/{quote(name) if is_web else os.fsdecode(name)}"
        return UrlSource(found, options), _url_finder(found, options)

    return Finder(unquote_to_bytes(last) if is_web else os.fsencode(last), beside)


def _opener(base, options):
    """A function that opens the base, or the file of a name in it if it is a directory."""
    def open_base(name):
        if isinstance(base, str) and _URL.match(base):
            return UrlSource(base, options), _url_finder(base, options)
        if isinstance(base, (bytearray, memoryview)):
            return BytesSource(base), None
        path = os.fsencode(base)
        if os.path.isdir(path):
            path = os.path.join(path, name)
        return FileSource(path), _path_finder(path)

    return open_base


class FileSystem:
    """A snapshot of an image. Reads are safe for threads; pickling reopens the image on the other side."""

    def __init__(self, source, snapshot=None, expect: Optional[str] = None, cache_bytes: int = 64 << 20,
                 storage_options: Optional[dict] = None, base=None):
        self._arguments = (source, snapshot, expect, cache_bytes, storage_options, base)
        finder = None
        if isinstance(source, str) and _URL.match(source):
            self._source = UrlSource(source, storage_options)
            finder = _url_finder(source, storage_options)
        elif storage_options is not None:
            raise ValueError("storage_options are for URLs")
        elif isinstance(source, (str, bytes, os.PathLike)):
            self._source = FileSource(source)
            finder = _path_finder(source)
        elif isinstance(source, (bytearray, memoryview)):
            self._source = BytesSource(source)
        elif hasattr(source, "read_at"):
            self._source = source
        else:
            self._source = ObjectSource(source)
        self._pid = os.getpid()
        try:
            self._source = gather(self._source, finder, [_opener(base, storage_options)] if base is not None else [])
            self._image = Image(self._source, expect, cache_bytes)
            self._snapshot = self._choose(snapshot)
        except BaseException:
            self._source.close()
            raise
        self._tables = self._snapshot.tables

    def __getstate__(self):
        return self._arguments

    def __setstate__(self, state):
        self.__init__(*state)

    def __enter__(self) -> "FileSystem":
        return self

    def __exit__(self, *_exc) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<shalefs.FileSystem {self._arguments[0]!r} snapshot {self._snapshot.name!r}>"

    def close(self) -> None:
        """Closes the image. Open files can then not be read any more."""
        self._source.close()

    @property
    def identity(self) -> Optional[str]:
        """The identity of the image, in hexadecimal; None in images of format 0.1."""
        return self._image.identity.hex() if self._image.identity else None

    @property
    def snapshots(self) -> List[str]:
        """Names of all snapshots, oldest first."""
        return [os.fsdecode(snapshot.name) for snapshot in self._image.snapshots]

    def _choose(self, snapshot):
        all_snapshots = self._image.snapshots
        if snapshot is None or snapshot == "latest":
            return all_snapshots[-1]
        if isinstance(snapshot, str) and re.fullmatch(r"#\d+", snapshot):
            snapshot = int(snapshot[1:])
        if isinstance(snapshot, int):
            if 0 <= snapshot < len(all_snapshots):
                return all_snapshots[snapshot]
            raise ValueError(f"the image has {len(all_snapshots)} snapshots, numbered from 0; there is no #{snapshot}")
        for candidate in reversed(all_snapshots):
            if candidate.name == os.fsencode(snapshot):
                return candidate
        wanted = utc_period(os.fsencode(snapshot))
        if wanted:
            periods = [(utc_period(candidate.name), number) for number, candidate in enumerate(all_snapshots)]
            earlier = [(period[0], number) for period, number in periods if period and period[0] <= wanted[1]]
            if earlier:
                return all_snapshots[max(earlier)[1]]
            names = ", ".join(self.snapshots)
            raise ValueError(f"the image has no snapshot at or before {snapshot} (UTC); it has: {names}")
        names = ", ".join(self.snapshots)
        raise ValueError(f"the image has no snapshot {snapshot!r}; it has: {names}")

    # Inodes and names.

    def _inode(self, number):
        return _Inode(number, self._tables["inodes"].row(number - 1))

    def _range(self, directory: _Inode):
        first, _, _ = self._tables["directories"].row(directory.row[13])
        end = self._tables["directories"].value(directory.row[13] + 1, 0)
        if end < first:
            raise errors.DamagedError("directories do not ascend")
        return first, end

    def _child(self, directory, name):
        entries = self._tables["entries"]
        low, high = self._range(directory)
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

    def _resolve(self, path: PathType, follow=True):
        """The inode of a path. Symbolic links are followed inside the image; `..` never leaves its root."""
        waiting = [part for part in os.fsencode(path).split(b"/") if part not in (b"", b".")][::-1]
        stack, links = [self._inode(1)], 0
        while waiting:
            name = waiting.pop()
            here = stack[-1]
            if here.format != stat_module.S_IFDIR:
                raise errors.not_a_directory(path)
            if name == b"..":
                if len(stack) > 1:
                    stack.pop()
                continue
            number = self._child(here, name)
            if number is None:
                raise errors.not_found(path)
            inode = self._inode(number)
            if inode.format == stat_module.S_IFLNK and (waiting or follow):
                links += 1
                if links > _LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = self._tables["symlinks"].value(inode.row[13], 0)
                if target.startswith(b"/"):
                    del stack[1:]
                waiting += [part for part in target.split(b"/") if part not in (b"", b".")][::-1]
                continue
            stack.append(inode)
        return stack[-1]

    def _size(self, inode):
        if inode.format == stat_module.S_IFREG:
            return self._image.content_range(inode.row[13])[1]
        if inode.format == stat_module.S_IFLNK:
            return len(self._tables["symlinks"].value(inode.row[13], 0))
        return 0

    def stat(self, path: PathType, follow_symlinks: bool = True) -> Stat:
        """Attributes of a path, as os.stat."""
        return self._stat(self._resolve(path, follow_symlinks))

    def lstat(self, path: PathType) -> Stat:
        """Attributes of a path, as os.lstat."""
        return self.stat(path, follow_symlinks=False)

    def _stat(self, inode):
        row, kept = inode.row, self._snapshot.times_kept

        def when(bit, column):
            return ((row[column] ^ _EPOCH_FLIP) - ((row[column] ^ _EPOCH_FLIP) >> 63 << 64)) * 10**9 + row[column + 1] \
                if kept & bit else None

        device = 0
        if inode.format in (stat_module.S_IFCHR, stat_module.S_IFBLK):
            device = os.makedev(row[13] >> 32, row[13] & 0xFFFFFFFF) if hasattr(os, "makedev") else row[13]
        return Stat(row[0], inode.number, row[3], row[1], row[2], self._size(inode), device,
                    when(1, 4), when(2, 6), when(4, 8), when(8, 10))

    def _kind(self, path, follow=True):
        """Type bits of a path, or None where it leads to nothing. Damage is an error and not an answer."""
        try:
            return self._resolve(path, follow).format
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise

    def exists(self, path: PathType) -> bool:
        """Whether a path leads to something, symbolic links followed."""
        return self._kind(path) is not None

    def isdir(self, path: PathType) -> bool:
        return self._kind(path) == stat_module.S_IFDIR

    def isfile(self, path: PathType) -> bool:
        return self._kind(path) == stat_module.S_IFREG

    def islink(self, path: PathType) -> bool:
        return self._kind(path, follow=False) == stat_module.S_IFLNK

    def _names(self, inode, path):
        if inode.format != stat_module.S_IFDIR:
            raise errors.not_a_directory(path)
        first, end = self._range(inode)
        return self._tables["entries"].rows(first, end)

    def listdir(self, path: PathType = "") -> List[str]:
        """Names in a directory, sorted by their bytes."""
        return [os.fsdecode(name) for _, name in self._names(self._resolve(path), path)]

    def scandir(self, path: PathType = "") -> Iterator[Tuple[str, Stat]]:
        """Names in a directory with their attributes; links are not followed."""
        for number, name in self._names(self._resolve(path), path):
            yield os.fsdecode(name), self._stat(self._inode(number))

    def walk(self, top: PathType = "") -> Iterator[Tuple[str, List[str], List[str]]]:
        """Directories below `top` as os.walk gives them, top down, links not followed."""
        waiting = [os.fsdecode(os.fsencode(top)).strip("/")]
        while waiting:
            path = waiting.pop()
            directories, files = [], []
            for number, name in self._names(self._resolve(path), path):
                is_directory = self._inode(number).format == stat_module.S_IFDIR
                (directories if is_directory else files).append(os.fsdecode(name))
            yield path, directories, files
            waiting += [f"{path}/{name}" if path else name for name in reversed(directories)]

    def find(self, top: PathType = "") -> Iterator[str]:
        """Paths of everything below `top` that is no directory."""
        for path, _, files in self.walk(top):
            for name in files:
                yield f"{path}/{name}" if path else name

    def glob(self, pattern: str) -> List[str]:
        """Paths that match a pattern: `*`, `?` and sets within a name, `**` for any number of directories."""
        parts = [part for part in pattern.split("/") if part]
        found = {}

        def match(path, inode, at):
            if at == len(parts):
                found[path] = None
                return
            if inode.format != stat_module.S_IFDIR:
                return
            if parts[at] == "**":
                match(path, inode, at + 1)
            elif not re.search(r"[*?\[]", parts[at]):
                number = self._child(inode, os.fsencode(parts[at]))
                if number is not None:
                    match(f"{path}/{parts[at]}" if path else parts[at], self._inode(number), at + 1)
                return
            for number, raw in self._names(inode, path):
                name = os.fsdecode(raw)
                below = f"{path}/{name}" if path else name
                if parts[at] == "**":
                    child = self._inode(number)
                    if child.format == stat_module.S_IFDIR:
                        match(below, child, at)
                    elif at + 1 == len(parts):
                        found[below] = None
                elif fnmatch.fnmatchcase(name, parts[at]):
                    match(below, self._inode(number), at + 1)

        match("", self._inode(1), 0)
        found.pop("", None)
        return list(found)

    def readlink(self, path: PathType) -> str:
        """Target of a symbolic link."""
        inode = self._resolve(path, follow=False)
        if inode.format != stat_module.S_IFLNK:
            raise OSError(errno.EINVAL, "not a symbolic link", path)
        return os.fsdecode(self._tables["symlinks"].value(inode.row[13], 0))

    def listxattr(self, path: PathType, follow_symlinks: bool = True) -> List[str]:
        """Names of the extended attributes of a path, with their namespaces."""
        return [os.fsdecode(name) for name, _ in self._xattrs(path, follow_symlinks)]

    def getxattr(self, path: PathType, name: Union[str, bytes], follow_symlinks: bool = True) -> bytes:
        """Value of an extended attribute."""
        wanted = os.fsencode(name)
        for found, value in self._xattrs(path, follow_symlinks):
            if found == wanted:
                return bytes(value)
        raise OSError(errno.ENODATA, os.strerror(errno.ENODATA), path)

    def _xattrs(self, path, follow):
        row = self._resolve(path, follow).row
        if row[12] == 0:
            return iter(())
        first, count = self._tables["xattr_sets"].row(row[12] - 1)
        return self._tables["xattr_items"].rows(first, first + count)

    # Content.

    def open(self, path: PathType, mode: str = "rb", buffering: int = -1, encoding: Optional[str] = None,
             errors: Optional[str] = None, newline: Optional[str] = None):  # noqa: A002 (as builtins.open)
        """Opens a regular file: "rb" gives a buffered binary file, "r" or "rt" text, buffering=0 a raw file."""
        if mode not in ("r", "rb", "rt", "br", "tr"):
            raise ValueError(f"the image is read-only: mode {mode!r} is not possible")
        raw = RawFile(self, path)
        if "b" in mode and buffering == 0:
            return raw
        binary = io.BufferedReader(raw, buffering if buffering > 1 else 128 << 10)
        if "b" in mode:
            return binary
        return io.TextIOWrapper(binary, encoding or "utf-8", errors, newline)

    def read_bytes(self, path: PathType, start: int = 0, end: Optional[int] = None) -> bytes:
        """Bytes `start` to `end` of a file; negative places count from its end, as in slices."""
        inode = self._file(path)
        begin, stop, _ = slice(start, end).indices(self._size(inode))
        return self._image.read(inode.row[13], begin, max(0, stop - begin))

    def read_text(self, path: PathType, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes(path).decode(encoding, errors)

    def _file(self, path):
        inode = self._resolve(path)
        if inode.format == stat_module.S_IFDIR:
            raise errors.is_a_directory(path)
        if inode.format != stat_module.S_IFREG:
            raise OSError(errno.EINVAL, "not a regular file", path)
        return inode

    def data_ranges(self, path: PathType) -> List[Tuple[int, int]]:
        """Parts of a file that are data, as (start, end); what lies between them is holes."""
        inode = self._file(path)
        base, size = self._image.content_range(inode.row[13])
        ranges, at = [], 0
        for length, stream in self._image.pieces(base, 0, size):
            if stream != _HOLE:
                if ranges and ranges[-1][1] == at:
                    ranges[-1] = (ranges[-1][0], at + length)
                else:
                    ranges.append((at, at + length))
            at += length
        return ranges

    def extract(self, path: PathType, target: PathType) -> None:
        """Writes a file, or a directory with all below it, to `target`, which must not exist.

        Keeps modes, modification times, links and holes; owners where the caller may set them. Devices, pipes and
        sockets are made where the system allows it, and are an error otherwise.
        """
        inode = self._resolve(path, follow=False)
        made = {}
        times = []
        waiting = [(inode, os.fsencode(target))]
        while waiting:
            inode, place = waiting.pop()
            if inode.format != stat_module.S_IFDIR and inode.number in made:
                os.link(made[inode.number], place, follow_symlinks=False)
                continue
            made[inode.number] = place
            self._make(inode, place)
            if inode.format == stat_module.S_IFDIR:
                waiting += [(self._inode(number), place + b"/" + bytes(name))
                            for number, name in self._names(inode, place)]
            times.append((inode, place))
        # Contents change the times of their directory, so attributes come last, the deepest first.
        for inode, place in reversed(times):
            facts, link = self._stat(inode), inode.format == stat_module.S_IFLNK
            if hasattr(os, "chown") and os.geteuid() == 0:
                os.chown(place, facts.st_uid, facts.st_gid, follow_symlinks=False)
            if not link:
                os.chmod(place, stat_module.S_IMODE(facts.st_mode))
            if facts.st_mtime_ns is not None and (not link or os.utime in os.supports_follow_symlinks):
                atime = facts.st_atime_ns if facts.st_atime_ns is not None else time.time_ns()
                os.utime(place, ns=(atime, facts.st_mtime_ns), **({"follow_symlinks": False} if link else {}))

    def _make(self, inode, place):
        if inode.format == stat_module.S_IFDIR:
            os.mkdir(place, 0o700)
        elif inode.format == stat_module.S_IFLNK:
            os.symlink(self._tables["symlinks"].value(inode.row[13], 0), place)
        elif inode.format == stat_module.S_IFREG:
            base, size = self._image.content_range(inode.row[13])
            with open(place, "xb") as out:
                at = 0
                for length, stream in self._image.pieces(base, 0, size):
                    if stream != _HOLE:
                        out.seek(at)
                        for start in range(at, at + length, 1 << 20):
                            out.write(self._image.read(inode.row[13], start, min(1 << 20, at + length - start)))
                    at += length
                out.truncate(size)
        else:
            device = os.makedev(inode.row[13] >> 32, inode.row[13] & 0xFFFFFFFF)
            os.mknod(place, inode.row[0], device)


class RawFile(io.RawIOBase):
    """A regular file of an image, unbuffered: seek, read, readinto, and `read_at` that leaves the position alone."""

    def __init__(self, filesystem: FileSystem, path: PathType) -> None:
        super().__init__()
        inode = filesystem._file(path)
        self._filesystem, self._content, self._at = filesystem, inode.row[13], 0
        self._size, self.name, self.mode = filesystem._size(inode), os.fsdecode(os.fsencode(path)), "rb"

    def __getstate__(self):
        return self._filesystem, self.name, self._at

    def __setstate__(self, state):
        self.__init__(state[0], state[1])
        self._at = state[2]

    def __reduce__(self):
        return _reopen, self.__getstate__()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if at < 0:
            raise OSError(errno.EINVAL, "a seek before the start of the file")
        self._at = at
        return at

    def read_at(self, offset: int, length: int) -> bytes:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._filesystem._image.read(self._content, offset, length) if offset < self._size else b""

    def readinto(self, buffer) -> int:
        with memoryview(buffer).cast("B") as view:
            data = self.read_at(self._at, len(view))
            view[:len(data)] = data
        self._at += len(data)
        return len(data)


def _reopen(filesystem, name, at):
    file = RawFile(filesystem, name)
    file.seek(at)
    return file
