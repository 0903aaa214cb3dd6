"""Ray and Spark, for real, with a worker that is killed. `scripts/test-engines.sh` runs it: the engines take a while to
install, and Spark needs Java."""

import os
import pathlib
import random
import signal
import threading

import pytest

import shalefs
from shalefs import distributed

OPTIONS = {"part_bytes": 1 << 20, "level": 4}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Text of 24 MB, so that there is time to kill someone."""
    top = tmp_path_factory.mktemp("work") / "tree"
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghij", k=dice.randint(2, 9))) for _ in range(3000)]
    for number in range(48):
        path = top / f"d{number % 5}" / f"{number:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(dice.choices(words, k=80_000)))
    os.link(top / "d0" / "00.txt", top / "d4" / "link.txt")
    return top


@pytest.fixture(scope="module")
def whole(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.shale"
    distributed.create(tree, path, engine="threads", workers=1, **OPTIONS)
    return path


def ancestors(pid):
    while pid > 1:
        yield pid
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])


def own_processes(wanted):
    """Processes below this one whose command line or title has these words."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "cmdline").read_text() \
                    and os.getpid() in ancestors(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def sizes_of(whole):
    with shalefs.open(whole) as image:
        return {path: image.stat(path).st_size for path in image.find()}


def test_ray_packs_again_what_a_killed_worker_had(tree, whole, tmp_path):
    import ray
    ray.init(num_cpus=2, include_dashboard=False)
    killed = []

    def kill_one(phase, *_):
        if phase == "pack" and not killed:
            killed.append(own_processes("ray::_pack")[0])
            os.kill(killed[0], signal.SIGKILL)

    try:
        distributed.create(tree, tmp_path / "ray.shale", engine="ray", progress=kill_one, **OPTIONS)
        with shalefs.open(tmp_path / "ray.shale") as image:
            rows = distributed.ray_dataset(image, 4).map(
                lambda row: {"path": row["path"], "size": len(row["bytes"])}).take_all()
    finally:
        ray.shutdown()
    assert killed and (tmp_path / "ray.shale").read_bytes() == whole.read_bytes()
    assert {row["path"]: row["size"] for row in rows} == sizes_of(whole)


def test_spark_packs_again_what_a_killed_worker_had(tree, whole, tmp_path):
    import pyspark
    conf = pyspark.SparkConf().setMaster("local[2,4]").setAppName("test").set("spark.ui.enabled", "false")
    context = pyspark.SparkContext(conf=conf)
    killed, ended = [], threading.Event()

    def kill_one():
        # Spark tells nothing before all is done, so look at its parts.
        while not ended.wait(0.01):
            if list(tmp_path.glob(".spark.shale.parts-*/*.shale")):
                daemons = own_processes("pyspark.daemon")
                killed.append(max(daemons, key=lambda pid: len(list(ancestors(pid)))))
                os.kill(killed[0], signal.SIGKILL)
                return

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        distributed.create(tree, tmp_path / "spark.shale", engine="spark", client=context, **OPTIONS)
        ended.set()
        killer.join()
        with shalefs.open(tmp_path / "spark.shale") as image:
            found = dict(distributed.spark_rdd(context, image, 4).mapValues(len).collect())
    finally:
        ended.set()
        context.stop()
    assert killed and (tmp_path / "spark.shale").read_bytes() == whole.read_bytes()
    assert found == sizes_of(whole)
    assert os.listdir(tmp_path) == ["spark.shale"]
