"""Partitions of an image: groups of files that workers read side by side.

Partitions by frames follow the order in which contents are stored, and end only where no file continues in a frame of
the files before. So each frame is decoded for one partition, but for frames that others refer to. Partitions by
directory end between directories, in the order of paths.
"""

import os
import pickle
import threading
from collections import OrderedDict
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..errors import IdentityError
from ..filesystem import FileSystem

# Bytes that are read at once: what shares frames within them is decoded once.
_BATCH_BYTES = 32 << 20
# Frames that are kept at least: with fewer, those that others refer to are decoded again and again.
_CACHE_BYTES = 256 << 20
# Open images that a process keeps for its next partition.
_OPEN_MAX = 4

_open: "OrderedDict[bytes, FileSystem]" = OrderedDict()
_lock = threading.Lock()


def _forked():
    # Another thread of the parent may have held it.
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Partition(NamedTuple):
    """Files of an image, in the order in which they should be read. Pickles, and is read on any machine.

    A process that reads one keeps up to 256 MiB of frames for each image, four images at most.
    """

    arguments: Tuple[Any, ...]
    identity: Optional[str]
    files: List[Tuple[str, int]]
    """Path and size of each file."""

    @property
    def paths(self) -> List[str]:
        return [path for path, _ in self.files]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(size for _, size in self.files)

    def open(self) -> FileSystem:
        """The image, opened once in a process. Do not close it. Raises IdentityError if it was replaced."""
        key = pickle.dumps((os.getpid(), self.arguments, self.identity))
        with _lock:
            image = _open.get(key)
            if image is None:
                source, snapshot, expect, cache_bytes, *rest = self.arguments
                image = FileSystem(source, snapshot, expect, max(cache_bytes, _CACHE_BYTES), *rest)
                if image.identity != self.identity:
                    raise IdentityError(f"the image was replaced: its identity is {image.identity}, and was "
                                        f"{self.identity} when it was partitioned")
                _open[key] = image
                while len(_open) > _OPEN_MAX:
                    _open.popitem(last=False)
            _open.move_to_end(key)
        return image

    def read(self) -> Iterator[Tuple[str, bytes]]:
        """Each path with the bytes of its file. Holds files of 32 MiB together, or one that is larger."""
        image = self.open()
        batch: List[str] = []
        batch_bytes = 0
        for path, size in self.files:
            if batch and batch_bytes + size > _BATCH_BYTES:
                yield from _read(image, batch)
                batch, batch_bytes = [], 0
            batch.append(path)
            batch_bytes += size
        yield from _read(image, batch)

    def records(self) -> Iterator[Dict[str, Any]]:
        """The same as dictionaries with `path` and `bytes`."""
        for path, data in self.read():
            yield {"path": path, "bytes": data}


def _read(image, batch):
    # One thread: workers run side by side, one a processor.
    return zip(batch, image.read_ranges([(path, 0, None) for path in batch], threads=1))


def partitions(image: FileSystem, count: int, *, by: str = "frames", top: str = "") -> List[Partition]:
    """Cuts the regular files below `top` into at most `count` partitions of about equal bytes.

    `by` is "frames", which decodes least, or "directory", which keeps the files of a directory together. There are
    fewer partitions if the image has fewer places to cut. Takes memory for every path.
    """
    if count < 1:
        raise ValueError(f"{count} partitions are too few")
    if by not in ("frames", "directory"):
        raise ValueError(f"partitions are by \"frames\" or \"directory\", and not by {by!r}")
    found = _files(image, top)
    if by == "frames":
        groups = _by_frames(image, found)
    else:
        groups = _by_directory(found)
    return [Partition(image._arguments, image.identity, files) for files in _balanced(groups, count)]


def _files(image, top):
    """(path, inode, size) of the regular files below a directory, sorted by path, name by name."""
    return [(file.path, file.inode, file.size) for file in image.files(top)]


def _by_frames(image, found):
    """Groups of files that share frames, in the order of the frames."""
    places = image._tree.places([inode for _, inode, _ in found])
    # What has no frames of its own lies where its content is numbered.
    order = sorted(range(len(found)), key=lambda at: (places[at][0], found[at][0]))
    group: List[Tuple[str, int]] = []
    last_frame, last_content = -1, None
    framed = [at for at in order if places[at][1] is not None]
    rest = [at for at in order if places[at][1] is None]
    framed.sort(key=lambda at: (places[at][1][0], places[at][0]))
    for at in framed:
        first, last = places[at][1]
        if group and first > last_frame:
            yield group
            group = []
        group.append((found[at][0], found[at][2]))
        last_frame = max(last_frame, last)
    if group:
        yield group
    group = []
    for at in rest:
        if group and places[at][0] != last_content:
            yield group
            group = []
        group.append((found[at][0], found[at][2]))
        last_content = places[at][0]
    if group:
        yield group


def _by_directory(found):
    """Files of a directory, directory by directory."""
    groups: "OrderedDict[str, List[Tuple[str, int]]]" = OrderedDict()
    for path, _, size in found:
        groups.setdefault(path.rpartition("/")[0], []).append((path, size))
    return groups.values()


def _balanced(groups, count):
    """Joins neighbouring groups into at most `count` lists of about equal bytes; a file counts at least 4 KiB."""
    groups = list(groups)
    weights = [sum(max(size, 4096) for _, size in group) for group in groups]
    total, done, joined = sum(weights), 0, []
    current: List[Tuple[str, int]] = []
    for group, weight in zip(groups, weights):
        # Half of a group may be beyond the border.
        if current and done + weight / 2 > total * (len(joined) + 1) / count:
            joined.append(current)
            current = []
        current.extend(group)
        done += weight
    if current:
        joined.append(current)
    return joined


def dask_bag(image: FileSystem, count: int, *, by: str = "frames", top: str = "") -> Any:
    """A `dask.bag.Bag` of (path, bytes), with a partition for each partition of the image."""
    import dask.bag
    parts = partitions(image, count, by=by, top=top)
    if not parts:
        return dask.bag.from_sequence([])
    return dask.bag.from_sequence(parts, npartitions=len(parts)).map(Partition.read).flatten()


def ray_dataset(image: FileSystem, count: int, *, by: str = "frames", top: str = "") -> Any:
    """A `ray.data.Dataset` with the columns `path` and `bytes`, with a block for each partition of the image."""
    import ray.data
    parts = partitions(image, count, by=by, top=top)
    rows = [{"part": pickle.dumps(part)} for part in parts]
    return ray.data.from_items(rows, override_num_blocks=max(1, len(rows))).flat_map(_records)


def _records(row):
    return pickle.loads(row["part"]).records()


def spark_rdd(context: Any, image: FileSystem, count: int, *, by: str = "frames", top: str = "") -> Any:
    """An RDD of (path, bytes), as `binaryFiles` gives them, with a partition for each partition of the image.

    `context` is a SparkContext or a SparkSession.
    """
    parts = partitions(image, count, by=by, top=top)
    context = getattr(context, "sparkContext", context)
    return context.parallelize(parts, max(1, len(parts))).flatMap(Partition.read)
