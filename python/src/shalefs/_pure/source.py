"""Where the bytes of an image come from: positioned reads, safe for threads."""

import os
import threading

from ..errors import DamagedError


class FileSource:
    """A local file. Reopened by its path after pickling and after a fork."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self._open()

    def _open(self):
        self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
        self.size = os.lseek(self._fd, 0, os.SEEK_END)
        self._lock = None if hasattr(os, "pread") else threading.Lock()

    def read_at(self, offset, length):
        if self._lock is None:
            parts, left = [], length
            while left and (part := os.pread(self._fd, left, offset)):
                parts.append(part)
                left -= len(part)
                offset += len(part)
            data = b"".join(parts)
        else:
            with self._lock:
                os.lseek(self._fd, offset, os.SEEK_SET)
                data = os.read(self._fd, length)
        return _whole(data, length, offset)

    def close(self):
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __getstate__(self):
        return {"path": self.path}

    def __setstate__(self, state):
        self.path = state["path"]
        self._open()


class BytesSource:
    """An image in memory."""

    def __init__(self, data):
        self.data = bytes(data)
        self.size = len(self.data)

    def read_at(self, offset, length):
        return _whole(self.data[offset:offset + length], length, offset)

    def close(self):
        pass


class ObjectSource:
    """A seekable binary file object, such as one of fsspec. Reads take turns."""

    def __init__(self, file):
        self._file = file
        self._lock = threading.Lock()
        self.size = file.seek(0, os.SEEK_END)

    def read_at(self, offset, length):
        with self._lock:
            self._file.seek(offset)
            parts, left = [], length
            while left and (part := self._file.read(left)):
                parts.append(part)
                left -= len(part)
        return _whole(b"".join(parts), length, offset)

    def close(self):
        self._file.close()

    def __getstate__(self):
        return {"file": self._file}

    def __setstate__(self, state):
        self.__init__(state["file"])


class UrlSource:
    """An object behind a URL that fsspec knows. Each read is one request for its range, so reads need not take turns.

    The end of the object, where the tables are, is fetched once when it is opened, and so is its start when it is
    needed. Reopened by its URL after pickling.
    """

    HEAD, TAIL = 4 << 10, 128 << 10
    is_far = True

    def __init__(self, url, options=None):
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ImportError(f"{url}: URLs need fsspec; pip install shalefs[fsspec]") from None
        self.url, self.options = url, options
        self._system, self._path = url_to_fs(url, **(options or {}))
        size = self._system.info(self._path)["size"]
        if size is None:
            raise OSError(f"{url}: the server does not say how long the image is; download it first")
        self.size = size
        self._tail_at = max(0, size - self.TAIL)
        self._tail = self._fetch(self._tail_at, size - self._tail_at)
        self._head = b""

    def _fetch(self, offset, length):
        if length == 0:
            return b""
        data = self._system.cat_file(self._path, start=offset, end=offset + length)
        # Some servers send the whole object, whatever range they are asked for.
        if len(data) > length:
            data = data[offset:offset + length] if len(data) == self.size else data[:length]
        return _whole(data, length, offset)

    def read_at(self, offset, length):
        if offset >= self._tail_at:
            return _whole(self._tail[offset - self._tail_at:][:length], length, offset)
        if offset + length <= self.HEAD <= self._tail_at:
            # Asked for several times while an image is opened.
            self._head = self._head or self._fetch(0, self.HEAD)
            return self._head[offset:offset + length]
        return self._fetch(offset, length)

    def close(self):
        self._tail, self._tail_at = b"", self.size

    def __getstate__(self):
        return {"url": self.url, "options": self.options}

    def __setstate__(self, state):
        self.__init__(state["url"], state["options"])


def _whole(data, length, offset):
    if len(data) != length:
        raise DamagedError(f"the image ends within {length} bytes at offset {offset}: it is truncated, or was replaced")
    return data
