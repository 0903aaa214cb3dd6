"""Files that several machines share: below a directory, or behind a URL that fsspec knows."""

import contextlib
import os
import secrets
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..filesystem import _URL

# Object stores, where an object appears when all of it is there.
_ATOMIC = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory")


class Place(NamedTuple):
    """A path or URL."""

    name: str
    options: Optional[Mapping[str, Any]] = None

    @classmethod
    def of(cls, name: Any, options: Optional[Mapping[str, Any]]) -> "Place":
        """The place of a path, made absolute, or of a URL."""
        name = os.fsdecode(name)
        if name.startswith("file://"):
            name = name[len("file://"):]
        return cls(name, options) if _URL.match(name) else cls(os.path.abspath(name))

    @property
    def is_url(self) -> bool:
        return _URL.match(self.name) is not None

    def _system(self):
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ImportError(f"{self.name}: URLs need fsspec; pip install shalefs[fsspec]") from None
        return url_to_fs(self.name, **(self.options or {}))

    def below(self, name: str) -> "Place":
        joined = f"{self.name.rstrip('/')}/{name}" if self.is_url else os.path.join(self.name, name)
        return self._replace(name=joined)

    def exists(self) -> bool:
        if not self.is_url:
            return os.path.lexists(self.name)
        system, path = self._system()
        return system.exists(path)

    @contextlib.contextmanager
    def written(self, temp_dir: Optional[str], overwrite: bool) -> Iterator[str]:
        """The path of a file to write, which becomes the file here if all goes well.

        Whoever writes to the path gives it its name when it is complete. Behind a URL it is a temporary file, which
        is then sent; where an upload shows before its end, it gets its name afterwards.
        """
        if not self.is_url:
            yield self.name
            return
        with tempfile.TemporaryDirectory(prefix="shalefs-", dir=temp_dir) as folder:
            path = os.path.join(folder, "image.shale")
            yield path
            system, target = self._system()
            if not overwrite and system.exists(target):
                raise FileExistsError(17, "exists already; overwrite=True replaces it", self.name)
            protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
            if any(protocol in _ATOMIC for protocol in protocols):
                system.put_file(path, target)
                return
            half = f"{target}.{secrets.token_hex(4)}.partial"
            try:
                system.put_file(path, half)
                system.mv(half, target)
            except BaseException:
                with contextlib.suppress(Exception):
                    system.rm_file(half)
                raise


@contextlib.contextmanager
def fetched(places: List[Place], temp_dir: Optional[str]) -> Iterator[List[str]]:
    """The paths of files. Those behind URLs are fetched whole, several at once, into a temporary folder.

    A merge reads frame by frame, and each would be a request.
    """
    if not any(place.is_url for place in places):
        yield [place.name for place in places]
        return
    with tempfile.TemporaryDirectory(prefix="shalefs-", dir=temp_dir) as here:
        def fetch(pair: Tuple[int, Place]) -> str:
            index, place = pair
            path = os.path.join(here, f"{index:06}.shale")
            system, source = place._system()
            system.get_file(source, path)
            return path

        with ThreadPoolExecutor(8) as pool:
            yield list(pool.map(fetch, enumerate(places)))


@contextlib.contextmanager
def folder(parts: Any, target: Place, options: Optional[Mapping[str, Any]]) -> Iterator[Place]:
    """A folder of this run for its parts, removed at the end, whatever the end is."""
    base, _, last = target.name.rpartition("/")
    name = f".{last}.parts-{secrets.token_hex(6)}"
    if parts is not None:
        above = Place.of(parts, options)
    else:
        above = target._replace(name=base) if target.is_url else Place(base or "/")
    place = above.below(name)
    if not place.is_url:
        os.mkdir(place.name)
    try:
        yield place
    finally:
        _remove(place)


def _remove(place: Place) -> None:
    if not place.is_url:
        # Only what is ours: a part has one of these names. A straggler may still add one.
        for _ in range(3):
            with contextlib.suppress(OSError):
                for entry in os.scandir(place.name):
                    os.unlink(entry.path)
                os.rmdir(place.name)
                return
        return
    system, path = place._system()
    # An object store has no folders: there may be nothing.
    with contextlib.suppress(FileNotFoundError):
        system.invalidate_cache()
        system.rm(path, recursive=True)
