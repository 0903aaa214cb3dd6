"""The interface that programs use."""

import io
import multiprocessing
import os
import pickle
import threading

import pytest

import shalefs


def test_a_file_object_seeks_and_reads_as_python_expects(tiny):
    with shalefs.open(tiny) as image, image.open("d/text") as file:
        assert isinstance(file, io.BufferedIOBase)
        whole = file.read()
        assert len(whole) == 3000 == image.stat("d/text").st_size
        file.seek(-10, os.SEEK_END)
        assert file.read() == whole[-10:] == image.read_bytes("d/text", -10)
        buffer = bytearray(7)
        file.seek(5)
        assert file.readinto(buffer) == 7 and buffer == whole[5:12] == image.read_bytes("d/text", 5, 12)
        file.seek(10_000)
        assert file.read(1) == b""
        with pytest.raises(ValueError):
            image.open("d/text", "wb")


def test_errors_are_those_of_the_system(tiny):
    with shalefs.open(tiny) as image:
        for error, call in ((FileNotFoundError, lambda: image.stat("nothing")),
                            (NotADirectoryError, lambda: image.stat("empty/x")),
                            (IsADirectoryError, lambda: image.open("d")),
                            (OSError, lambda: image.readlink("empty")),
                            (OSError, lambda: image.getxattr("attributes", "user.none"))):
            with pytest.raises(error):
                call()
        assert image.getxattr("attributes", "user.a") and image.listxattr("attributes") == ["user.a", "user.b"]


def test_links_lead_within_the_image(tiny):
    with shalefs.open(tiny) as image:
        assert image.islink("symlink") and image.readlink("symlink") == "d/text"
        assert image.read_bytes("symlink") == image.read_bytes("d/text")
        assert image.stat("../../d/text") == image.stat("/d/text")


def test_walk_find_and_glob_agree(tiny):
    with shalefs.open(tiny) as image:
        walked = {f"{top}/{name}" if top else name for top, _, files in image.walk() for name in files}
        assert walked == set(image.find()) == {p for p in image.glob("**") if image.islink(p) or not image.isdir(p)}
        assert image.glob("d/t*") == ["d/text"] == image.glob("**/t?xt")
        assert [name for name, _ in image.scandir("d")] == image.listdir("d")


def _length(image, path, out):
    out.put(len(image.read_bytes(path)))


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_an_image_is_read_by_another_process(tiny, way):
    with shalefs.open(tiny) as image:
        context = multiprocessing.get_context(way)
        out = context.Queue()
        worker = context.Process(target=_length, args=(image, "d/text", out))
        worker.start()
        assert out.get(timeout=60) == 3000
        worker.join()


def test_images_and_files_pickle(tiny):
    with shalefs.open(tiny) as image:
        assert pickle.loads(pickle.dumps(image)).read_bytes("d/text") == image.read_bytes("d/text")
        file = image.open("d/text", buffering=0)
        file.seek(100)
        assert pickle.loads(pickle.dumps(file)).read(5) == file.read(5)


def test_threads_read_the_same(images):
    with shalefs.open(images / "0.3-lines.shale", cache_bytes=1) as image:
        paths = [path for path in image.find() if image.isfile(path)]
        wanted, wrong = [image.read_bytes(path) for path in paths], []

        def read():
            wrong.extend(path for path, data in zip(paths, wanted) if image.read_bytes(path) != data)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_extract_brings_back_files_links_and_holes(tiny, tmp_path):
    # Devices and owners need root; a directory of files does not.
    top = "" if os.geteuid() == 0 else "d"
    with shalefs.open(tiny) as image:
        image.extract(top, tmp_path / "out")
        out = tmp_path / "out"
        assert sorted(os.listdir(out)) == image.listdir(top)
        for below, _, files in image.walk(top):
            for name in files:
                path = f"{below}/{name}" if below else name
                facts, made = image.lstat(path), (out / os.path.relpath(path, top or ".")).lstat()
                wanted = facts.st_mode, facts.st_mtime_ns, facts.st_nlink
                assert wanted == (made.st_mode, made.st_mtime_ns, made.st_nlink)
        if top == "":
            assert os.readlink(out / "symlink") == "d/text"
            assert (out / "holes").read_bytes() == image.read_bytes("holes")
            assert (out / "holes").stat().st_blocks * 512 < 200_000


def test_an_image_in_memory_and_behind_a_header(tiny):
    data = tiny.read_bytes()
    wanted = shalefs.open(tiny).read_bytes("d/text")
    assert shalefs.open(bytearray(data)).read_bytes("d/text") == wanted
    assert shalefs.open(io.BytesIO(b"#!/bin/sh\nexit 0\n" + data)).read_bytes("d/text") == wanted
