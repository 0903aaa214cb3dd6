"""`shale://` for fsspec: files of an image, which may itself lie behind any other fsspec URL.

`fsspec.open("shale://a/b.csv::s3://bucket/x.shale")`, or `fsspec.filesystem("shale", fo="x.shale")`.
"""

import stat as stat_module

import fsspec
from fsspec.archive import AbstractArchiveFileSystem

from .filesystem import CACHE_BYTES, FileSystem

_KINDS = {stat_module.S_IFDIR: "directory", stat_module.S_IFREG: "file", stat_module.S_IFLNK: "link"}


class ShaleFileSystem(AbstractArchiveFileSystem):
    """Read-only view of one snapshot of an image."""

    root_marker = ""
    protocol = "shale"
    cachable = False

    def __init__(self, fo="", mode="r", target_protocol=None, target_options=None, snapshot=None, expect=None,
                 cache_bytes=CACHE_BYTES, identity=None, passphrase=None, **kwargs):
        super().__init__(self, **kwargs)
        if mode != "r":
            raise ValueError("shale:// is read-only")
        if isinstance(fo, str) and target_protocol in (None, "file") and "://" not in fo:
            source = fo
        elif isinstance(fo, str):
            opened = fsspec.open(fo, mode="rb", protocol=target_protocol, **(target_options or {}))
            source = opened.open()
        else:
            source = fo
        self.fo, self.snapshot = fo, snapshot
        self.image = FileSystem(source, snapshot, expect, cache_bytes, identity=identity, passphrase=passphrase)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path).lstrip("/")

    def _entry(self, path, facts):
        kind = _KINDS.get(stat_module.S_IFMT(facts.st_mode), "other")
        return {"name": path, "type": kind, "size": facts.st_size, "mode": facts.st_mode, "ino": facts.st_ino,
                "uid": facts.st_uid, "gid": facts.st_gid, "nlink": facts.st_nlink, "mtime": facts.st_mtime_ns,
                "islink": kind == "link"}

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        entry = self._entry(path, self.image.stat(path, follow_symlinks=False))
        if entry["islink"] and self.image.exists(path):
            followed = self.image.stat(path)
            entry["type"] = _KINDS.get(stat_module.S_IFMT(followed.st_mode), "other")
            entry["size"] = followed.st_size
        return entry

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        if not self.image.isdir(path):
            entries = [self.info(path)]
        else:
            entries = [self._entry(f"{path}/{name}" if path else name, facts)
                       for name, facts in self.image.scandir(path)]
        return entries if detail else [entry["name"] for entry in entries]

    def exists(self, path, **kwargs):
        return self.image.exists(self._strip_protocol(path))

    def cat_file(self, path, start=None, end=None, **kwargs):
        return self.image.read_bytes(self._strip_protocol(path), start or 0, end)

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        count = len(paths)
        starts = starts if isinstance(starts, (list, tuple)) else [starts] * count
        ends = ends if isinstance(ends, (list, tuple)) else [ends] * count
        wanted = [(self._strip_protocol(path), start or 0, end) for path, start, end in zip(paths, starts, ends)]
        try:
            return self.image.read_ranges(wanted)
        except OSError:
            if on_error != "return":
                raise
        # One of them fails: find out which, and answer the others.
        results = []
        for path, start, end in wanted:
            try:
                results.append(self.image.read_bytes(path, start, end))
            except OSError as error:
                results.append(error)
        return results

    def cat(self, path, recursive=False, on_error="raise", **kwargs):
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and isinstance(path, str) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0])
        paths = [path for path in paths if self.image.isfile(path)]
        found = dict(zip(paths, self.cat_ranges(paths, 0, None, on_error="raise" if on_error == "raise" else "return")))
        if on_error == "omit":
            return {path: data for path, data in found.items() if not isinstance(data, OSError)}
        return found

    def find(self, path, maxdepth=None, withdirs=False, detail=False, **kwargs):
        if maxdepth is not None or withdirs or detail:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        path = self._strip_protocol(path)
        if not self.image.isdir(path):
            return [path] if self.image.exists(path) else []
        return sorted(self.image.find(path))

    def created(self, path):
        return None

    def modified(self, path):
        from datetime import datetime, timezone
        return datetime.fromtimestamp(self.image.stat(self._strip_protocol(path)).st_mtime, timezone.utc)

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        return self.image.open(self._strip_protocol(path), mode)
