"""Many workers make the image that one makes, whatever happens to them; and read it side by side."""

import multiprocessing
import os
import pickle
import random
import signal
import threading

import fsspec
import pytest

import shalefs
from shalefs import distributed

pytestmark = pytest.mark.skipif(shalefs.engine != "native", reason="the compiled module is tested in a run of its own")
OPTIONS = {"part_bytes": 1 << 20, "level": 1}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """About 6 MB in directories, with hard links between them, links, an empty directory and equal files."""
    top = tmp_path_factory.mktemp("work") / "tree"
    dice = random.Random(24)
    for name in ("a", "b/deep/er", "b/empty", "c", "c d"):
        (top / name).mkdir(parents=True)
    for number in range(60):
        (top / ("a", "b/deep/er", "c")[number % 3] / f"file{number:02}").write_bytes(
            b"the same line\n" * 2000 + dice.randbytes(70_000))
    (top / "c" / "large").write_bytes(dice.randbytes(1_500_000))
    (top / "c d" / "equal").write_bytes((top / "a" / "file00").read_bytes())
    os.link(top / "a" / "file00", top / "c d" / "linked")
    os.symlink("../a/file03", top / "c" / "link")
    os.chmod(top / "b" / "deep", 0o2750)
    os.utime(top / "b" / "deep", ns=(1, 1_234_567_890_123_456_789))
    return top


@pytest.fixture(scope="module")
def whole(tree, tmp_path_factory):
    """The image that one worker makes."""
    path = tmp_path_factory.mktemp("whole") / "whole.shale"
    report = distributed.create(tree, path, engine="threads", workers=1, **OPTIONS)
    assert len(report.parts) > 5 and report.links == 1 and report.complete and report.image.verified
    return path


def facts(image):
    """Everything that an image says of its entries; inodes by the first of their paths."""
    first, found = {}, {}
    for top, directories, files in image.walk():
        for name in [top] + [f"{top}/{name}" for name in files]:
            facts = image.lstat(name)
            content = image.read_bytes(name) if image.isfile(name) and not image.islink(name) else None
            link = image.readlink(name) if image.islink(name) else None
            found[name] = facts._replace(st_ino=first.setdefault(facts.st_ino, name)), content, link
    return found


def test_parts_hold_what_one_build_holds(tree, whole, tmp_path):
    shalefs.create(tree, tmp_path / "one.shale", level=1)
    with shalefs.open(tmp_path / "one.shale") as one, shalefs.open(whole) as many:
        assert facts(many) == facts(one)
        assert many.stat("a/file00").st_nlink == 2, "hard links between parts are kept"
    assert shalefs.check(whole).clean
    assert sorted(os.listdir(whole.parent)) == ["whole.shale"], "no parts stay"


def test_workers_and_their_deaths_do_not_change_the_image(tree, whole, tmp_path):
    killed = []

    def kill_one(phase, done, *_):
        if phase == "pack" and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    distributed.create(tree, tmp_path / "two.shale", engine="processes", workers=2, progress=kill_one, **OPTIONS)
    assert killed
    assert (tmp_path / "two.shale").read_bytes() == whole.read_bytes()


def test_dask_packs_again_what_a_killed_worker_had(tree, whole, tmp_path):
    from distributed import Client, LocalCluster
    killed = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        workers = client.run(os.getpid)

        def kill_one(phase, done, *_):
            if phase == "pack" and not killed:
                killed.append(next(iter(workers.values())))
                os.kill(killed[0], signal.SIGKILL)

        distributed.create(tree, tmp_path / "dask.shale", engine="dask", client=client, progress=kill_one, **OPTIONS)
        with shalefs.open(tmp_path / "dask.shale") as image:
            sizes = dict(distributed.dask_bag(image, 4).map(lambda pair: (pair[0], len(pair[1]))).compute())
            assert sizes == {path: image.stat(path).st_size for path in image.find() if not image.islink(path)}
    assert killed
    assert (tmp_path / "dask.shale").read_bytes() == whole.read_bytes()


def test_parts_and_image_may_be_behind_urls(tree, whole):
    memory = fsspec.filesystem("memory")
    distributed.create(tree, "memory://made/x.shale", engine="threads", parts="memory://parts", **OPTIONS)
    assert memory.cat("/made/x.shale") == whole.read_bytes()
    assert memory.find("/parts") == [] and memory.find("/made") == ["/made/x.shale"]
    with pytest.raises(FileExistsError):
        distributed.create(tree, "memory://made/x.shale", engine="threads", **OPTIONS)


def test_nothing_stays_of_a_build_that_fails(tree, tmp_path):
    def stop(phase, *_):
        if phase == "pack":
            raise KeyError("enough")

    with pytest.raises(KeyError):
        distributed.create(tree, tmp_path / "x.shale", engine="threads", progress=stop, **OPTIONS)
    with pytest.raises(ValueError, match="no engine is called"):
        distributed.create(tree, tmp_path / "x.shale", engine="abacus", **OPTIONS)
    with pytest.raises(ValueError, match="is not a directory"):
        distributed.create(tree / "a" / "file00", tmp_path / "x.shale", engine="threads", **OPTIONS)
    with pytest.raises(FileNotFoundError):
        distributed.create(tree, tmp_path / "x.shale", engine="threads", parts=tmp_path / "absent", **OPTIONS)
    for place in ({"output": tree / "c" / "x.shale"}, {"output": tmp_path / "x.shale", "parts": tree}):
        with pytest.raises(ValueError, match="lies in the source"):
            distributed.create(tree, engine="threads", **place, **OPTIONS)
    assert os.listdir(tmp_path) == []


def test_any_names_and_empty_trees_are_packed(tmp_path):
    (tmp_path / "tree").mkdir()
    report = distributed.create(tmp_path / "tree", tmp_path / "empty.shale", engine="threads", **OPTIONS)
    assert len(report.parts) == 1 and report.image.files == 0
    names = [b"a\nb", b"\xff\xfe", b"[x]*", b"a" * 255, b" "]
    for name in names:
        with open(os.path.join(os.fsencode(tmp_path / "tree"), name), "wb") as file:
            file.write(name * 5000)
    distributed.create(tmp_path / "tree", tmp_path / "x.shale", engine="processes", workers=1, **OPTIONS)
    with shalefs.open(tmp_path / "x.shale") as image:
        assert [os.fsencode(name) for name in image.listdir()] == sorted(names)
        assert all(image.read_bytes(name) == name * 5000 for name in names)


def test_an_error_on_a_worker_comes_back_with_its_class(tree, tmp_path):
    # A part that cannot be written, on every try.
    def full(phase, done, *_):
        if phase == "pack" and done == 1:
            for folder in tmp_path.iterdir():
                for part in folder.iterdir():
                    part.unlink()
                folder.rmdir()

    with pytest.raises(OSError):
        distributed.create(tree, tmp_path / "x.shale", engine="processes", workers=1, retries=1, progress=full,
                           **OPTIONS)
    assert os.listdir(tmp_path) == []
    for error in (shalefs.DamagedError("why"), shalefs.IdentityError("why")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and again.args == error.args


def test_each_frame_is_decoded_once_in_the_cluster(whole):
    with shalefs.open(whole) as image:
        frames = image._native().frame_count
        wanted = sorted(path for path in image.find() if not image.islink(path))
        parts = distributed.partitions(image, 5)
        assert len(parts) == 5
        decoded, seen, sizes = 0, [], []
        for part in pickle.loads(pickle.dumps(parts)):
            # A process of its own, as far as caches go.
            distributed._partitions._open.clear()
            for path, data in part.read():
                assert len(data) == image.stat(path).st_size
                seen.append(path)
            decoded += part.open()._native().frames_decoded
            sizes.append(part.size)
        assert sorted(seen) == wanted and decoded == frames
        assert max(sizes) < 2 * min(sizes) + 1_500_000
        by_directory = distributed.partitions(image, 3, by="directory", top="b")
        assert [part.paths for part in by_directory] == [sorted(path for path in wanted if path.startswith("b/"))]


def test_a_replaced_image_is_not_read(whole, tmp_path):
    path = tmp_path / "x.shale"
    path.write_bytes(whole.read_bytes())
    with shalefs.open(path) as image:
        part = distributed.partitions(image, 1)[0]
    path.unlink()
    (tmp_path / "other").mkdir()
    shalefs.create(tmp_path / "other", path)
    with pytest.raises(shalefs.IdentityError):
        next(part.read())


def test_threads_read_partitions_side_by_side(whole):
    with shalefs.open(whole) as image:
        parts = distributed.partitions(image, 4)
    found = []

    def read(part):
        found.extend(path for path, _ in part.read())

    threads = [threading.Thread(target=read, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(path for part in parts for path in part.paths)


def test_merge_joins_images_below_prefixes(tree, tmp_path):
    for name in ("a", "c"):
        shalefs.create(tree / name, tmp_path / f"{name}.shale", level=1, snapshot=name)
    images = [tmp_path / "a.shale", tmp_path / "c.shale"]
    report = shalefs.merge(dict(zip(["one", "two/three"], images)), tmp_path / "m.shale", snapshot="both")
    assert report.verified and report.complete
    with shalefs.open(tmp_path / "m.shale") as image:
        assert image.snapshots == ["both"] and image.listdir("two") == ["three"]
        assert image.read_bytes("two/three/large") == (tree / "c" / "large").read_bytes()
    shalefs.merge(images, tmp_path / "s.shale", snapshots=True)
    with shalefs.open(tmp_path / "s.shale", snapshot="a") as image:
        assert image.snapshots == ["a", "c"] and image.listdir() == sorted(os.listdir(tree / "a"))
