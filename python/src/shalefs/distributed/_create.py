"""Creates one image with many workers: cut the sources, pack each share into a part, merge the parts.

The cuts depend on the sources and `part_bytes` alone, and parts are merged in the order of their shares. So the image
has the same bytes whatever the engine, the number of workers and their failures.
"""

import os
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .._engine import needs_native
from ..building import BuildReport, Progress, Sources, _options, _silent_report, _sources, _warn_of, merge
from ..filesystem import PathType
from . import _engines, _places

_PART_BYTES = 1 << 30


class PartReport(NamedTuple):
    """What one worker packed."""

    start: str
    """Path at which the share begins; the first of its paths, in a share of hard links."""
    report: BuildReport


class DistributedReport(NamedTuple):
    """What a build by many workers did. Paths are relative to their source."""

    image: BuildReport
    """Report of the merged image; what its parts left out is in it."""
    parts: List[PartReport]
    links: int
    """Inodes whose names lie in several shares; they were packed in parts of their own."""

    @property
    def complete(self) -> bool:
        """True if the image holds everything as it was when it was read."""
        return self.image.complete


class _Task(NamedTuple):
    """One part: everything that a worker has to know."""

    sources: List[Tuple[str, Optional[bytes]]]
    share: Tuple[Optional[bytes], Optional[bytes], List[bytes]]
    options: dict
    part: _places.Place


def create(sources: Sources, output: PathType, *, engine: Any = "processes", workers: int = 0, client: Any = None,
           parts: Optional[PathType] = None, part_bytes: int = _PART_BYTES, retries: int = 3,
           storage_options: Optional[Mapping[str, Any]] = None, threads: int = 1, level: Optional[int] = None,
           memory: int = 0, rules: Iterable[str] = (), exclude: Iterable[str] = (), times: Sequence[str] = ("mtime",),
           recompress: bool = False, parity: float = 0.0, snapshot: str = "", label: Optional[str] = None,
           replace: bool = False, skip_unreadable: bool = False, strict: bool = False, verify: bool = True,
           overwrite: bool = False, temp_dir: Optional[PathType] = None,
           progress: Optional[Progress] = None) -> DistributedReport:
    """Packs directories into an image, with many workers. The output is complete or absent.

    `engine` is "threads", "processes", "dask", "ray", "spark", or any `concurrent.futures.Executor`. `client` is the
    Dask client (or the address of a scheduler) or the Spark context to use; without one, the engine's current one is
    used, or a local one with `workers` workers is started and ended. Each worker reads the sources by the same paths.

    `parts` is a directory or fsspec URL that all workers and this process share, by default the place of the output.
    Parts lie there below a name of this run and are removed at the end. `part_bytes` bounds the bytes of sources in a
    part, except for a single larger file: it decides the cuts, and so the bytes of the image. `retries` is how often
    a failed part is packed again. The other options are those of `shalefs.create`; `threads` and `memory` are for one
    part. The output may be a URL, too; `storage_options` are for it and for `parts`. What is behind URLs needs room in
    `temp_dir`: a part on each worker, all parts and the image here.

    Workers compare parts with their sources, and the image is compared with the parts before it gets its name.
    """
    module = needs_native("shalefs.distributed.create")
    target = _places.Place.of(output, storage_options)
    if not overwrite and target.exists():
        raise FileExistsError(17, "exists already; overwrite=True replaces it", output)
    options = _options(level, threads, memory, rules, exclude, times, recompress, 0.0, snapshot, label, replace,
                       skip_unreadable, strict, verify, temp_dir)
    options["overwrite"] = True
    named = [(os.path.abspath(path), prefix) for path, prefix in _sources(sources)]
    _refuse_inside(target, "output", named)
    if parts is not None:
        _refuse_inside(_places.Place.of(parts, storage_options), "folder of parts", named)
    shares, _, source_bytes, links = module.cut(named, part_bytes, options, progress)
    with _places.folder(parts, target, storage_options) as place:
        tasks = [_Task(named, share, options, place.below(f"{index:06}.shale"))
                 for index, share in enumerate(shares)]
        made = _packed(tasks, engine, workers, client, retries, progress, source_bytes)
        if progress is not None:
            progress("merge", 0, len(tasks), 0, sum(report.image_bytes for report in made))
        temp_dir = options["temp_dir"]
        with _places.fetched([task.part for task in tasks], temp_dir) as paths, \
                target.written(temp_dir, overwrite) as path:
            merged = merge(paths, path, replace=False, snapshot=snapshot, label=label, parity=parity, verify=verify,
                           overwrite=overwrite, temp_dir=temp_dir, progress=progress)
    image = merged._replace(
        verified=merged.verified and all(report.verified for report in made),
        left_out=[item for report in made for item in report.left_out],
        changed=[item for report in made for item in report.changed],
        warnings=merged.warnings + [text for report in made for text in report.warnings])
    _warn_of(image, 4)
    starts = [os.fsdecode(share[0] if share[0] is not None else share[2][0]) for share in shares]
    return DistributedReport(image, [PartReport(*pair) for pair in zip(starts, made)], links)


def _refuse_inside(place, what, sources):
    """Workers list the sources while parts are written, and would pack parts that lie there."""
    if place.is_url:
        return
    real = os.path.join(os.path.realpath(place.name), "")
    for path, _ in sources:
        if real.startswith(os.path.join(os.path.realpath(path), "")):
            raise ValueError(f"the {what} {place.name} lies in the source {path}; name a place outside of it")


def _packed(tasks, engine, workers, client, retries, progress, source_bytes):
    """Packs all parts. Returns their reports, in order."""
    made: List[Optional[BuildReport]] = [None] * len(tasks)
    done, done_bytes = 0, 0
    with _engines.running(engine, _pack, tasks, workers, client, retries) as results:
        for index, report in results:
            made[index] = report
            done, done_bytes = done + 1, done_bytes + report.file_bytes
            if progress is not None:
                progress("pack", done, len(tasks), done_bytes, source_bytes)
    missing = [index for index, report in enumerate(made) if report is None]
    if missing:
        raise RuntimeError(f"the engine ended without the parts {missing[:10]}; please report it")
    return made


def _pack(task: _Task) -> BuildReport:
    """Packs one part, on a worker. A part is complete or absent; one that is there is replaced."""
    options = dict(task.options, share=task.share)
    with task.part.written(options["temp_dir"], overwrite=True) as path:
        made = needs_native("shalefs.distributed.create").create(task.sources, path, options, None)
    return _silent_report(made)
