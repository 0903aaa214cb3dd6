"""Runs a function over tasks on an engine: results as they come, failed tasks again, the others cancelled at an error.

Each engine is one generator of (index, result). It is closed when the caller stops early, and then leaves no task that
has not begun.
"""

import contextlib
import multiprocessing
import os
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any, Callable, Iterator, Sequence, Tuple

Results = Iterator[Tuple[int, Any]]
ENGINES = ("threads", "processes", "dask", "ray", "spark")


@contextlib.contextmanager
def running(engine: Any, function: Callable[[Any], Any], tasks: Sequence[Any], workers: int, client: Any,
            retries: int) -> Iterator[Results]:
    """Runs `function` over `tasks`. The generator is closed at the end of the block."""
    workers = workers or os.cpu_count() or 1
    if isinstance(engine, Executor):
        if client is not None:
            raise ValueError("client is for dask, ray and spark")
        results = _pool(lambda: contextlib.nullcontext(engine), function, tasks, retries)
    elif engine in ("threads", "processes"):
        if client is not None:
            raise ValueError("client is for dask, ray and spark")
        results = _pool(lambda: _local_pool(engine, workers), function, tasks, retries)
    elif engine in ENGINES:
        results = {"dask": _dask, "ray": _ray, "spark": _spark}[engine](function, tasks, workers, client, retries)
    else:
        raise ValueError(f"no engine is called {engine!r}; there are {', '.join(ENGINES)}, and any Executor")
    with contextlib.closing(results):
        yield results


def _local_pool(engine, workers):
    if engine == "threads":
        return ThreadPoolExecutor(workers)
    # A fork of a process with threads may hang.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def _pool(make, function, tasks, retries) -> Results:
    """An executor. A pool of processes breaks when one of them is killed: then another one does what is left."""
    waiting = {index: 0 for index in range(len(tasks))}
    breaks = 0
    while waiting:
        with make() as pool:
            futures = {pool.submit(function, tasks[index]): index for index in waiting}
            try:
                for future in as_completed(futures):
                    index = futures[future]
                    try:
                        result = future.result()
                    except BrokenExecutor as error:
                        broken = error
                        break
                    except OSError:
                        waiting[index] += 1
                        if waiting[index] > retries:
                            raise
                    else:
                        del waiting[index]
                        yield index, result
                else:
                    continue
            finally:
                for future in futures:
                    future.cancel()
        breaks += 1
        if breaks > retries:
            raise broken


def _dask(function, tasks, workers, client, retries) -> Results:
    from distributed import Client
    from distributed import as_completed as completed
    from distributed import get_client
    own = None
    if client is None:
        try:
            client = get_client()
        except ValueError:
            client = own = Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    elif isinstance(client, str):
        client = own = Client(client)
    futures = client.map(function, tasks, pure=False, retries=retries)
    indices = {future.key: index for index, future in enumerate(futures)}
    try:
        for future in completed(futures):
            index, result = indices[future.key], future.result()
            future.release()
            yield index, result
    finally:
        client.cancel(futures)
        if own is not None:
            own.close()


def _ray(function, tasks, workers, client, retries) -> Results:
    import ray
    own = not ray.is_initialized()
    if own:
        ray.init(address=client, **({"num_cpus": workers, "include_dashboard": False} if client is None else {}))
    remote = ray.remote(function).options(max_retries=retries, retry_exceptions=True)
    indices = {remote.remote(task): index for index, task in enumerate(tasks)}
    waiting = list(indices)
    try:
        while waiting:
            ready, waiting = ray.wait(waiting)
            for reference in ready:
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    # What the worker raised, as every other engine raises it.
                    raise error.cause from error
                yield indices[reference], result
    finally:
        for reference in waiting:
            ray.cancel(reference)
        if own:
            ray.shutdown()


def _spark(function, tasks, workers, client, retries) -> Results:
    """Spark answers when all tasks are done. It retries as often as `spark.task.maxFailures` says."""
    from pyspark import SparkConf, SparkContext
    context = getattr(client, "sparkContext", client) or SparkContext._active_spark_context
    own = None
    if context is None:
        conf = SparkConf().setMaster(f"local[{workers},{retries + 1}]").setAppName("shalefs")
        context = own = SparkContext(conf=conf.set("spark.ui.enabled", "false"))
    try:
        pairs = context.parallelize(list(enumerate(tasks)), max(1, len(tasks)))
        yield from pairs.map(lambda pair: (pair[0], function(pair[1]))).collect()
    finally:
        if own is not None:
            own.stop()
