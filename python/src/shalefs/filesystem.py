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
import weakref
from typing import (IO, Any, BinaryIO, Iterable, Iterator, List, Literal, Mapping, NamedTuple, Optional, Sequence,
                    Tuple, TypeVar, Union, overload)
from urllib.parse import quote, unquote_to_bytes

from . import errors
from ._engine import open_image
from ._pure.source import BytesSource, FileSource, ObjectSource, UrlSource
from ._pure.thin import Finder, gather
from ._pure.utc import utc_period
from ._sealed import Keys

PathType = Union[str, bytes, "os.PathLike[str]"]
# A path or URL; the bytes of an image; a seekable binary file.
Source = Union[str, "os.PathLike[str]", bytearray, memoryview, BinaryIO, IO[bytes]]
Base = Union[str, "os.PathLike[str]", bytearray, memoryview]
# A file of secret keys, or a key itself ("AGE-SECRET-KEY-1..."); several of them.
Identity = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]
File = TypeVar("File", str, bytes, "os.PathLike[str]", "Entry")
# Decoded frames that an image keeps by default, as a mount does. With less, frames that others refer to are decoded
# again and again.
CACHE_BYTES = 256 << 20


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


class Entry:
    """Something below a directory, as `entries` and `files` find it.

    It is given where a path is expected (it is an `os.PathLike`), and the image that made it then looks nothing up.
    """

    __slots__ = ("path", "inode", "mode", "size", "_tree")

    def __init__(self, path: str, inode: int, mode: int, size: int, _tree: Any = None) -> None:
        self.path, self.inode, self.mode, self.size, self._tree = path, inode, mode, size, _tree

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def is_file(self) -> bool:
        """Whether it is a regular file. Links are not followed."""
        return stat_module.S_ISREG(self.mode)

    def is_dir(self) -> bool:
        return stat_module.S_ISDIR(self.mode)

    def is_symlink(self) -> bool:
        return stat_module.S_ISLNK(self.mode)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<shalefs.Entry {self.path!r}>"

    def __reduce__(self):
        # In another process it is found by its path.
        return Entry, (self.path, self.inode, self.mode, self.size)


# A path with a colon is no URL.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[^:]+)?://")

# Locks of another thread stay locked in the child of a fork, so the child opens its images again.
_open = weakref.WeakSet()


def _forked():
    for filesystem in _open:
        filesystem._stale = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _beside(name, opened, unseal):
    """Opens the file of a name, or the one of this name and `.age` where it is missing, and decrypts it."""
    try:
        return unseal(opened(name))
    except FileNotFoundError:
        try:
            source = opened(name + b".age")
        except OSError:
            source = None
        if source is None:
            raise
    return unseal(source)


def _without_age(name):
    # The parts of a split image are counted by their names.
    return name[:-4] if name.endswith(b".age") else name


def _path_finder(path, unseal):
    path = os.fsencode(path)

    def beside(name):
        found = os.path.join(os.path.dirname(path), name)
        return _beside(found, FileSource, unseal), _path_finder(found, unseal)

    return Finder(_without_age(os.path.basename(path)), beside)


def _url_finder(url, options, unseal):
    folder, _, last = re.split(r"[?#]", url)[0].rpartition("/")
    is_web = url.lower().startswith(("http:", "https:"))

    def place(name):
        return f"{folder}/{quote(name) if is_web else os.fsdecode(name)}"

    def beside(name):
        found = _beside(name, lambda name: UrlSource(place(name), options), unseal)
        return found, _url_finder(place(name), options, unseal)

    return Finder(_without_age(unquote_to_bytes(last) if is_web else os.fsencode(last)), beside)


def _opener(base, options, unseal):
    """A function that opens the base, or the file of a name in it if it is a directory."""
    def open_base(name):
        if isinstance(base, str) and _URL.match(base):
            return unseal(UrlSource(base, options)), _url_finder(base, options, unseal)
        if isinstance(base, (bytearray, memoryview)):
            return unseal(BytesSource(base)), None
        path = os.fsencode(base)
        if os.path.isdir(path):
            path = os.path.join(path, name)
        return _beside(path, FileSource, unseal), _path_finder(path, unseal)

    return open_base


class FileSystem:
    """A snapshot of an image. Reads are safe for threads; pickling and forks reopen the image on the other side."""

    def __init__(self, source: Source, snapshot: Union[str, int, None] = None, expect: Optional[str] = None,
                 cache_bytes: int = CACHE_BYTES, storage_options: Optional[Mapping[str, Any]] = None,
                 base: Optional[Base] = None, identity: Optional[Identity] = None,
                 passphrase: Union[str, bytes, None] = None) -> None:
        self._arguments = (source, snapshot, expect, cache_bytes, storage_options, base, identity, passphrase)
        self._before_fork = None
        self._reopen()
        _open.add(self)

    def _reopen(self):
        source, snapshot, expect, cache_bytes, storage_options, base, identity, passphrase = self._arguments
        unseal, finder = Keys(identity, passphrase).unseal, None
        if isinstance(source, str) and _URL.match(source):
            opened = UrlSource(source, storage_options)
            finder = _url_finder(source, storage_options, unseal)
        elif storage_options is not None:
            raise ValueError("storage_options are for URLs")
        elif isinstance(source, (str, bytes, os.PathLike)):
            opened = FileSource(source)
            finder = _path_finder(source, unseal)
        elif isinstance(source, (bytearray, memoryview)):
            opened = BytesSource(source)
        elif hasattr(source, "read_at"):
            opened = source
        else:
            opened = ObjectSource(source)
        try:
            opened = unseal(opened)
            opened = gather(opened, finder, [_opener(base, storage_options, unseal)] if base is not None else [])
            image = open_image(opened, expect, cache_bytes)
            index = self._choose([bytes(name) for name in image.snapshots], snapshot)
            self._now = opened, image, index, image.tree(index)
        except BaseException:
            opened.close()
            raise
        self._stale, self._closed = False, False

    @property
    def _tree(self):
        if self._stale:
            # What the parent's threads may have locked is never touched again, not even to free it.
            self._before_fork = self._now
            self._reopen()
        if self._closed:
            raise ValueError("I/O operation on a closed image")
        return self._now[3]

    def _native(self):
        """The open image of the compiled module, for what only that can do."""
        _ = self._tree
        return self._now[1]

    def __getstate__(self):
        return self._arguments

    def __setstate__(self, state):
        self.__init__(*state)

    def __enter__(self) -> "FileSystem":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<shalefs.FileSystem {self._arguments[0]!r} snapshot {self.snapshots[self._now[2]]!r}>"

    def close(self) -> None:
        """Closes the image. Open files can then not be read any more."""
        self._closed = True
        self._now[0].close()

    @property
    def identity(self) -> Optional[str]:
        """The identity of the image, in hexadecimal; None in images of format 0.1."""
        return self._now[1].identity

    @property
    def snapshots(self) -> List[str]:
        """Names of all snapshots, oldest first."""
        return [os.fsdecode(bytes(name)) for name in self._now[1].snapshots]

    @staticmethod
    def _choose(names, snapshot):
        if snapshot is None or snapshot == "latest":
            return len(names) - 1
        if isinstance(snapshot, str) and re.fullmatch(r"#\d+", snapshot):
            snapshot = int(snapshot[1:])
        if isinstance(snapshot, int):
            if 0 <= snapshot < len(names):
                return snapshot
            raise ValueError(f"the image has {len(names)} snapshots, numbered from 0; there is no #{snapshot}")
        for index in range(len(names) - 1, -1, -1):
            if names[index] == os.fsencode(snapshot):
                return index
        shown = ", ".join(os.fsdecode(name) for name in names)
        wanted = utc_period(os.fsencode(snapshot))
        if wanted:
            periods = [(utc_period(name), index) for index, name in enumerate(names)]
            earlier = [(period[0], index) for period, index in periods if period and period[0] <= wanted[1]]
            if earlier:
                return max(earlier)[1]
            raise ValueError(f"the image has no snapshot at or before {snapshot} (UTC); it has: {shown}")
        raise ValueError(f"the image has no snapshot {snapshot!r}; it has: {shown}")

    # Inodes and names.

    def _resolve(self, path: PathType, follow=True):
        """(inode, mode, size) of a path. Symbolic links are followed inside the image."""
        tree = self._tree
        if path.__class__ is Entry and path._tree is tree and not (follow and stat_module.S_ISLNK(path.mode)):
            return path.inode, path.mode, path.size
        number, inode, mode, size = tree.resolve(os.fsencode(path), follow)
        if number:
            raise OSError(number, os.strerror(number), path)
        return inode, mode, size

    def stat(self, path: PathType, follow_symlinks: bool = True) -> Stat:
        """Attributes of a path, as os.stat."""
        return self._stat(self._resolve(path, follow_symlinks)[0])

    def lstat(self, path: PathType) -> Stat:
        """Attributes of a path, as os.lstat."""
        return self.stat(path, follow_symlinks=False)

    def _stat(self, inode):
        mode, links, owner, group, size, device, times = self._tree.stat(inode)
        kind = stat_module.S_IFMT(mode)
        size = size if kind in (stat_module.S_IFREG, stat_module.S_IFLNK) else 0
        rdev = os.makedev(*device) if any(device) and hasattr(os, "makedev") else 0
        return Stat(mode, inode, links, owner, group, size, rdev, *times)

    def _kind(self, path, follow=True):
        """Type bits of a path, or None where it leads to nothing. Damage is an error and not an answer."""
        number, _, mode, _ = self._tree.resolve(os.fsencode(path), follow)
        return None if number else stat_module.S_IFMT(mode)

    def exists(self, path: PathType) -> bool:
        """Whether a path leads to something, symbolic links followed."""
        return self._kind(path) is not None

    def isdir(self, path: PathType) -> bool:
        return self._kind(path) == stat_module.S_IFDIR

    def isfile(self, path: PathType) -> bool:
        return self._kind(path) == stat_module.S_IFREG

    def islink(self, path: PathType) -> bool:
        return self._kind(path, follow=False) == stat_module.S_IFLNK

    def _entries(self, path):
        inode, mode, _ = self._resolve(path)
        if not stat_module.S_ISDIR(mode):
            raise errors.not_a_directory(path)
        return self._tree.entries(inode)

    def listdir(self, path: PathType = "") -> List[str]:
        """Names in a directory, sorted by their bytes."""
        return [os.fsdecode(name) for name, _, _ in self._entries(path)]

    def scandir(self, path: PathType = "") -> Iterator[Tuple[str, Stat]]:
        """Names in a directory with their attributes; links are not followed."""
        for name, inode, _ in self._entries(path):
            yield os.fsdecode(name), self._stat(inode)

    def walk(self, top: PathType = "") -> Iterator[Tuple[str, List[str], List[str]]]:
        """Directories below `top` as os.walk gives them, top down, links not followed."""
        inode, mode, _ = self._resolve(top)
        if not stat_module.S_ISDIR(mode):
            raise errors.not_a_directory(top)
        waiting = [(os.fsdecode(os.fsencode(top)).strip("/"), inode)]
        while waiting:
            path, inode = waiting.pop()
            directories, files, below = [], [], []
            for name, number, mode in self._tree.entries(inode):
                name = os.fsdecode(name)
                if stat_module.S_ISDIR(mode):
                    directories.append(name)
                    below.append((f"{path}/{name}" if path else name, number))
                else:
                    files.append(name)
            yield path, directories, files
            waiting += reversed(below)

    def entries(self, top: PathType = "") -> Iterator[Entry]:
        """Everything below `top`, parents first, sorted name by name. Links are not followed."""
        tree = self._tree
        for batch in self._steps(tree, top):
            for path, inode, mode, size in batch:
                yield Entry(path, inode, mode, size, tree)

    def files(self, top: PathType = "") -> Iterator[Entry]:
        """The regular files below `top`, in the order of `entries`."""
        tree, is_file = self._tree, stat_module.S_ISREG
        for batch in self._steps(tree, top):
            for path, inode, mode, size in batch:
                if is_file(mode):
                    yield Entry(path, inode, mode, size, tree)

    def find(self, top: PathType = "") -> Iterator[str]:
        """Paths of everything below `top` that is no directory, in the order of `entries`."""
        is_dir = stat_module.S_ISDIR
        for batch in self._steps(self._tree, top):
            for path, _, mode, _ in batch:
                if not is_dir(mode):
                    yield path

    def _steps(self, tree, top):
        inode, mode, _ = self._resolve(top)
        if not stat_module.S_ISDIR(mode):
            raise errors.not_a_directory(top)
        above = os.fsencode(top).strip(b"/")
        return tree.steps(inode, above + b"/" if above else b"")

    def glob(self, pattern: str) -> List[str]:
        """Paths that match a pattern: `*`, `?` and sets within a name, `**` for any number of directories."""
        parts = [part for part in pattern.split("/") if part]
        found = {}

        def match(path, inode, mode, at):
            if at == len(parts):
                found[path] = None
                return
            if not stat_module.S_ISDIR(mode):
                return
            wanted, entries = parts[at], self._tree.entries(inode)
            if wanted == "**":
                match(path, inode, mode, at + 1)
            for raw, number, below_mode in entries:
                name = os.fsdecode(raw)
                below = f"{path}/{name}" if path else name
                if wanted == "**":
                    if stat_module.S_ISDIR(below_mode):
                        match(below, number, below_mode, at)
                    elif at + 1 == len(parts):
                        found[below] = None
                elif name == wanted or fnmatch.fnmatchcase(name, wanted):
                    match(below, number, below_mode, at + 1)

        match("", 1, stat_module.S_IFDIR, 0)
        found.pop("", None)
        return list(found)

    def readlink(self, path: PathType) -> str:
        """Target of a symbolic link."""
        inode, mode, _ = self._resolve(path, follow=False)
        if not stat_module.S_ISLNK(mode):
            raise OSError(errno.EINVAL, "not a symbolic link", path)
        return os.fsdecode(self._tree.link_target(inode))

    def listxattr(self, path: PathType, follow_symlinks: bool = True) -> List[str]:
        """Names of the extended attributes of a path, with their namespaces."""
        return [os.fsdecode(name) for name, _ in self._xattrs(path, follow_symlinks)]

    def getxattr(self, path: PathType, name: Union[str, bytes], follow_symlinks: bool = True) -> bytes:
        """Value of an extended attribute."""
        wanted = os.fsencode(name)
        for found, value in self._xattrs(path, follow_symlinks):
            if found == wanted:
                return value
        raise OSError(errno.ENODATA, os.strerror(errno.ENODATA), path)

    def _xattrs(self, path, follow):
        return self._tree.xattrs(self._resolve(path, follow)[0])

    # Content.

    @overload
    def open(self, path: PathType, mode: Literal["rb", "br"] = "rb", *, buffering: Literal[0]) -> "RawFile": ...

    @overload
    def open(self, path: PathType, mode: Literal["rb", "br"] = "rb", buffering: int = -1) -> io.BufferedReader: ...

    @overload
    def open(self, path: PathType, mode: Literal["r", "rt", "tr"], buffering: int = -1,
             encoding: Optional[str] = None, errors: Optional[str] = None,
             newline: Optional[str] = None) -> io.TextIOWrapper: ...

    @overload
    def open(self, path: PathType, mode: str, buffering: int = -1, encoding: Optional[str] = None,
             errors: Optional[str] = None, newline: Optional[str] = None) -> IO[Any]: ...

    def open(self, path: PathType, mode: str = "rb", buffering: int = -1, encoding: Optional[str] = None,
             errors: Optional[str] = None, newline: Optional[str] = None) -> Any:  # noqa: A002 (as builtins.open)
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
        if start == 0 and end is None and path.__class__ is not Entry:
            data = self._tree.read_path(os.fsencode(path))
            if data is not None:
                return data
        return self._tree.read(*self._range(path, start, end))

    @overload
    def read_many(self, files: None = None, *, threads: int = 0) -> Iterator[Tuple[Entry, bytes]]: ...

    @overload
    def read_many(self, files: Iterable[File], *, threads: int = 0) -> Iterator[Tuple[File, bytes]]: ...

    def read_many(self, files: Any = None, *, threads: int = 0) -> Iterator[Tuple[Any, bytes]]:
        """Each of `files`, paths or entries, with all of its bytes; without `files`, all regular files of the image.

        They come in the order in which the image stores them, so that what lies together is decoded once. The compiled
        module reads on `threads` threads (0 means one a processor), 32 MiB ahead of the caller or one larger file.
        """
        chosen = list(self.files() if files is None else files)
        wanted = [(inode, 0, size) for inode, size in map(self._file, chosen)]
        for batch in self._tree.read_stored(wanted, _threads(threads)):
            for at, data in batch:
                if isinstance(data, BaseException):
                    raise data
                yield chosen[at], data

    def read_ranges(self, ranges: Sequence[Tuple[PathType, int, Optional[int]]], threads: int = 0) -> List[bytes]:
        """Several ranges (path, start, end), as read_bytes gives them.

        They are read as by `read_many`, and returned together, in the order of `ranges`.
        """
        found = [b""] * len(ranges)
        wanted = [self._range(path, start, end) for path, start, end in ranges]
        for batch in self._tree.read_stored(wanted, _threads(threads)):
            for at, data in batch:
                if isinstance(data, BaseException):
                    raise data
                found[at] = data
        return found

    def _range(self, path, start, end):
        inode, size = self._file(path)
        begin, stop, _ = slice(start, end).indices(size)
        return inode, begin, max(0, stop - begin)

    def read_text(self, path: PathType, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes(path).decode(encoding, errors)

    def _file(self, path):
        """(inode, size) of a regular file."""
        inode, mode, size = self._resolve(path)
        if stat_module.S_ISDIR(mode):
            raise errors.is_a_directory(path)
        if not stat_module.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return inode, size

    def data_ranges(self, path: PathType) -> List[Tuple[int, int]]:
        """Parts of a file that are data, as (start, end); what lies between them is holes."""
        return self._tree.data_ranges(self._file(path)[0])

    def extract(self, path: PathType, target: PathType) -> None:
        """Writes a file, or a directory with all below it, to `target`, which must not exist.

        Keeps modes, modification times, links and holes; owners where the caller may set them. Devices, pipes and
        sockets are made where the system allows it, and are an error otherwise.
        """
        inode, mode, size = self._resolve(path, follow=False)
        made = {}
        times = []
        waiting = [(inode, mode, os.fsencode(target))]
        while waiting:
            inode, mode, place = waiting.pop()
            if not stat_module.S_ISDIR(mode) and inode in made:
                os.link(made[inode], place, follow_symlinks=False)
                continue
            made[inode] = place
            facts = self._stat(inode)
            self._make(facts, place)
            if stat_module.S_ISDIR(mode):
                waiting += [(number, below, place + b"/" + name) for name, number, below in self._tree.entries(inode)]
            times.append((facts, place))
        # Contents change the times of their directory, so attributes come last, the deepest first.
        for facts, place in reversed(times):
            link = stat_module.S_ISLNK(facts.st_mode)
            if hasattr(os, "chown") and os.geteuid() == 0:
                os.chown(place, facts.st_uid, facts.st_gid, follow_symlinks=False)
            if not link:
                os.chmod(place, stat_module.S_IMODE(facts.st_mode))
            if facts.st_mtime_ns is not None and (not link or os.utime in os.supports_follow_symlinks):
                atime = facts.st_atime_ns if facts.st_atime_ns is not None else time.time_ns()
                os.utime(place, ns=(atime, facts.st_mtime_ns), **({"follow_symlinks": False} if link else {}))

    def _make(self, facts, place):
        inode, kind = facts.st_ino, stat_module.S_IFMT(facts.st_mode)
        if kind == stat_module.S_IFDIR:
            os.mkdir(place, 0o700)
        elif kind == stat_module.S_IFLNK:
            os.symlink(self._tree.link_target(inode), place)
        elif kind == stat_module.S_IFREG:
            with open(place, "xb") as out:
                for start, end in self._tree.data_ranges(inode):
                    out.seek(start)
                    for at in range(start, end, 1 << 20):
                        out.write(self._tree.read(inode, at, min(1 << 20, end - at)))
                out.truncate(facts.st_size)
        else:
            os.mknod(place, facts.st_mode, facts.st_rdev)


class RawFile(io.RawIOBase):
    """A regular file of an image, unbuffered: seek, read, readinto, and `read_at` that leaves the position alone."""

    def __init__(self, filesystem: FileSystem, path: PathType) -> None:
        super().__init__()
        self._inode, self._size = filesystem._file(path)
        self._filesystem, self._at = filesystem, 0
        self.name, self.mode = os.fsdecode(os.fsencode(path)), "rb"

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
        return self._filesystem._tree.read(self._inode, offset, length) if offset < self._size else b""

    def readinto(self, buffer: Any) -> int:
        with memoryview(buffer).cast("B") as view:
            data = self.read_at(self._at, len(view))
            view[:len(data)] = data
        self._at += len(data)
        return len(data)


def _threads(count):
    return count or os.cpu_count() or 1


def _reopen(filesystem, name, at):
    file = RawFile(filesystem, name)
    file.seek(at)
    return file
