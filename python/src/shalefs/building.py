"""Creates, extends, merges, checks and extracts images, as the command `shale` does. Needs the compiled module.

What was left out, replaced or packed although it changed is in the result, and is a warning of the class
IncompleteWarning. `warnings.simplefilter("error", shalefs.IncompleteWarning)` makes it an error.
"""

import contextlib
import os
import time
import warnings
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._engine import native_source, needs_native
from ._pure.source import BytesSource, FileSource, ObjectSource, UrlSource
from ._sealed import Keys
from .filesystem import _URL, FileSystem, Identity, PathType, Source

Progress = Callable[[str, int, int, int, int], object]
Images = Union[Sequence[Union[PathType, FileSystem]], Mapping[str, Union[PathType, FileSystem]]]
Sources = Union[PathType, Sequence[PathType], Mapping[str, PathType]]


class IncompleteWarning(UserWarning):
    """An image was made, but something of its sources is not in it as it was asked for."""


class BuildReport(NamedTuple):
    """What a build did. Paths are relative to their source."""

    entries: int
    files: int
    file_bytes: int
    image_bytes: int
    identity: str
    verified: bool
    left_out: List[Tuple[str, str]]
    changed: List[Tuple[str, str]]
    warnings: List[str]
    snapshot: int = 0
    added_bytes: int = 0

    @property
    def complete(self) -> bool:
        """True if the image holds everything as it was when it was read."""
        return not (self.left_out or self.changed or self.warnings)


class CheckReport(NamedTuple):
    """What a check found. Lists hold at most a thousand items; the counts count all."""

    problems: List[str]
    problem_count: int
    damaged_paths: List[Tuple[str, str, int]]
    damaged_path_count: int
    frames: int
    plain_bytes: int
    identity: Optional[str]

    @property
    def clean(self) -> bool:
        return self.problem_count == 0


def create(sources: Sources, output: PathType, *, level: Optional[int] = None, threads: int = 0, memory: int = 0,
           rules: Iterable[str] = (), exclude: Iterable[str] = (), times: Sequence[str] = ("mtime",),
           recompress: bool = False, parity: float = 0.0, snapshot: str = "", label: Optional[str] = None,
           replace: bool = False, skip_unreadable: bool = False, strict: bool = False, verify: bool = True,
           overwrite: bool = False, temp_dir: Optional[PathType] = None,
           progress: Optional[Progress] = None) -> BuildReport:
    """Packs directories, archives or images into an image. The output is complete or absent.

    `sources` is a path, a list of paths, or a mapping of prefixes in the image to paths. `rules` are filter rules as
    rsync has them ("- *.tmp", "+ keep"), and `exclude` patterns of what is left out. `parity` is a share of the image,
    such as 0.05. `progress(phase, items, items_found, bytes, bytes_found)` is called about twenty times a second;
    what it raises, and Ctrl-C, ends the build at once. Sizes are in bytes.
    """
    options = _options(level, threads, memory, rules, exclude, times, recompress, parity, snapshot, label, replace,
                       skip_unreadable, strict, verify, temp_dir)
    options["overwrite"] = overwrite
    made = needs_native("shalefs.create").create(_sources(sources), os.fsdecode(output), options, progress)
    return _report(made)


def append(image: PathType, sources: Sources = (), *, add: bool = False, remove: Iterable[str] = (), message: str = "",
           checksum: bool = False, wait: bool = False, level: Optional[int] = None, threads: int = 0, memory: int = 0,
           rules: Iterable[str] = (), exclude: Iterable[str] = (), times: Sequence[str] = ("mtime",),
           recompress: bool = False, snapshot: Optional[str] = None, replace: bool = False,
           skip_unreadable: bool = False, strict: bool = False, verify: bool = True,
           temp_dir: Optional[PathType] = None, progress: Optional[Progress] = None) -> BuildReport:
    """Appends a snapshot to an image. On any error the image is as it was.

    The sources are the whole new tree; with `add` or `remove` they change the newest one instead. The snapshot is named
    for the time in UTC by default. Files of the same length and time are not read, unless `checksum` says so.
    """
    if snapshot is None:
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        snapshot = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(epoch) if epoch else None))
    options = _options(level, threads, memory, rules, exclude, times, recompress, 0.0, snapshot, None, replace,
                       skip_unreadable, strict, verify, temp_dir)
    remove = [os.fsencode(pattern) for pattern in remove]
    options.update(overwrite=False, add=add or bool(remove), remove=remove, message=message, checksum=checksum,
                   wait=wait)
    made = needs_native("shalefs.append").append(os.fsdecode(image), _sources(sources), options, progress)
    return _report(made)


def merge(images: Images, output: PathType, *, snapshots: bool = False, threads: int = 0, memory: int = 0,
          parity: float = 0.0, snapshot: str = "", label: Optional[str] = None, replace: bool = False,
          verify: bool = True, overwrite: bool = False, temp_dir: Optional[PathType] = None,
          storage_options: Optional[Mapping[str, Any]] = None, progress: Optional[Progress] = None) -> BuildReport:
    """Merges images into a new one, without packing anything again. The output is complete or absent.

    `images` is a list of paths, URLs or open images, or a mapping of prefixes in the new image to them. The new image
    has one tree of the chosen snapshots (the newest of a path), or with `snapshots` all snapshots of all images. Equal
    contents are stored once. A path in several images is an error, unless it is a directory in all of them, or
    `replace` lets the later image win. `storage_options` are for those that are URLs.
    """
    module = needs_native("shalefs.merge")
    options = _options(None, threads, memory, (), (), ("mtime",), False, parity, snapshot, label, replace, False, False,
                       verify, temp_dir)
    options["overwrite"] = overwrite
    if isinstance(images, Mapping):
        named = [(image, os.fsencode(prefix).strip(b"/")) for prefix, image in images.items()]
    else:
        named = [(image, b"") for image in images]
    # A source is read once, in order.
    cache_bytes = max(1 << 20, (64 << 20) // max(1, len(named)))
    with contextlib.ExitStack() as opened:
        parts = []
        for image, prefix in named:
            if not isinstance(image, FileSystem):
                is_url = isinstance(image, str) and _URL.match(image)
                image = opened.enter_context(FileSystem(image, cache_bytes=cache_bytes,
                                                        storage_options=storage_options if is_url else None))
            parts.append((image._native(), image._now[2], prefix))
        made = module.merge(parts, snapshots, os.fsdecode(output), options, progress)
    return _report(made)


def check(source: Source, *, level: str = "content", expect: Optional[str] = None, threads: int = 0,
          storage_options: Optional[Mapping[str, Any]] = None, identity: Optional[Identity] = None,
          passphrase: Union[str, bytes, None] = None, progress: Optional[Progress] = None) -> CheckReport:
    """Checks an image: `structure`, `tables`, `frames` or `content`. Damage is in the report, not an exception.

    `identity` and `passphrase` are as for `open`.
    """
    module = needs_native("shalefs.check")
    if isinstance(source, str) and _URL.match(source):
        opened = UrlSource(source, storage_options)
    elif isinstance(source, (str, bytes, os.PathLike)):
        opened = FileSource(source)
    elif isinstance(source, (bytearray, memoryview)):
        opened = BytesSource(source)
    else:
        opened = ObjectSource(source)
    opened = Keys(identity, passphrase).unseal(opened)
    found = module.check(native_source(opened), level, expect, threads, progress)
    found["damaged_paths"] = [(os.fsdecode(snapshot), os.fsdecode(path), count)
                              for snapshot, path, count in found["damaged_paths"]]
    return CheckReport(**found)


def extract_all(image: FileSystem, target: PathType, *, patterns: Iterable[str] = (), overwrite: bool = False,
                progress: Optional[Progress] = None) -> List[Tuple[str, str]]:
    """Extracts all of an open image, or what patterns match, with all attributes and on all processors.

    Paths below `target` are those in the image. Returns what differs from the image, as (path, why), with a warning.
    """
    module = needs_native("shalefs.extract_all")
    patterns = [os.fsencode(pattern) for pattern in patterns]
    found = module.extract(image._tree, os.fsdecode(target), patterns, overwrite, progress)
    problems = [(os.fsdecode(path), why) for path, why in found["problems"]]
    if found["problem_count"]:
        _warn(f"{found['problem_count']} entries differ from the image, first: {': '.join(problems[0])}")
    return problems


def _sources(sources):
    if isinstance(sources, (str, bytes, os.PathLike)):
        sources = [sources]
    if isinstance(sources, Mapping):
        return [(os.fsdecode(path), os.fsencode(prefix).strip(b"/")) for prefix, path in sources.items()]
    return [(os.fsdecode(path), None) for path in sources]


def _options(level, threads, memory, rules, exclude, times, recompress, parity, snapshot, label, replace,
             skip_unreadable, strict, verify, temp_dir):
    if not 0 <= parity <= 10:
        raise ValueError(f"parity is a share of the image, such as 0.05, and not {parity}")
    lines = [os.fsencode(rule) for rule in rules] + [b"- " + os.fsencode(pattern) for pattern in exclude]
    return {"level": level, "threads": threads, "memory": memory, "rules": lines, "times": list(times),
            "recompress": recompress, "parity_ppm": round(parity * 1_000_000), "snapshot": os.fsencode(snapshot),
            "label": label, "replace": replace, "skip_unreadable": skip_unreadable, "strict": strict, "verify": verify,
            "temp_dir": None if temp_dir is None else os.fsdecode(temp_dir), "share": None}


def _silent_report(made):
    for name in ("left_out", "changed"):
        made[name] = [(os.fsdecode(path), why) for path, why in made[name]]
    return BuildReport(**made)


def _report(made):
    report = _silent_report(made)
    _warn_of(report, 5)
    return report


def _warn_of(report, level):
    for what, listed in (("left out", report.left_out), ("changed while it was read", report.changed)):
        if listed:
            _warn(f"{len(listed)} {what}, first: {': '.join(listed[0])}", level)
    for text in report.warnings:
        _warn(text, level)


def _warn(text, level=4):
    warnings.warn(text, IncompleteWarning, stacklevel=level)
