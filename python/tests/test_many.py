"""Entries, and many files at once, by both readers."""

import gc
import pickle
import threading
from random import Random

import pytest
import shalefs


def _wanted(image):
    return {path: image.read_bytes(path) for path in image.find() if image.isfile(path) and not image.islink(path)}


def test_every_file_comes_once_and_whole(images):
    for path in sorted(images.glob("0.[34]-*.shale")):
        if shalefs.engine == "pure" and "tiny" not in path.name:
            continue  # That reader lacks the codecs of some of the others.
        with shalefs.open(path) as image:
            wanted = _wanted(image)
            for threads in (1, 2, 5):
                found = [(file.path, data) for file, data in image.read_many(threads=threads)]
                assert len(found) == len(wanted) and dict(found) == wanted
            paths = sorted(wanted)
            assert {path: data for path, data in image.read_many(paths)} == wanted
            # A path may come twice.
            assert len(list(image.read_many(paths[:1] * 3))) == 3 * len(paths[:1])


@pytest.mark.skipif(shalefs.engine != "native", reason="the compiled module makes the image")
def test_ranges_are_cut_where_frames_end(tmp_path):
    random = Random(7)
    tree = tmp_path / "tree"
    tree.mkdir()
    block = random.randbytes(300_000)
    for number in range(40):
        (tree / f"small{number}").write_bytes(random.randbytes(random.randrange(30_000)))
    (tree / "long").write_bytes(random.randbytes(3_000_000))
    # Frames that are met again in the middle of others, and none at all.
    (tree / "again").write_bytes(block + random.randbytes(700_000) + block + bytes(900_000) + block)
    with open(tree / "holes", "wb") as file:
        for at in (0, 1_500_000, 2_999_000):
            file.seek(at)
            file.write(block[:1000])
        file.truncate(4_000_000)
    for level in (1, 6):
        path = tmp_path / f"{level}.shale"
        shalefs.create(tree, path, level=level)
        with shalefs.open(path) as image:
            wanted = {str(file.relative_to(tree)): file.read_bytes() for file in tree.iterdir()}
            for threads in (1, 2, 7):
                assert {file.path: data for file, data in image.read_many(threads=threads)} == wanted
            ranges = []
            for name, data in wanted.items():
                start, end = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
                ranges += [(name, start, end), (name, end, None), (name, 0, start)]
            found = image.read_ranges(ranges, threads=3)
            assert found == [wanted[name][start:end] for name, start, end in ranges]


def test_entries_are_what_a_walk_finds(tiny):
    with shalefs.open(tiny) as image:
        entries = list(image.entries())
        walked = {f"{top}/{name}".lstrip("/") for top, below, files in image.walk() for name in below + files}
        assert {entry.path for entry in entries} == walked and len(entries) == len(walked)
        for entry in entries:
            facts = image.lstat(entry.path)
            assert (entry.mode, entry.inode, entry.size) == (facts.st_mode, facts.st_ino, facts.st_size), entry
            assert entry.name == entry.path.split("/")[-1]
            assert entry.is_symlink() == image.islink(entry)
        assert [entry.path for entry in entries] == sorted((e.path for e in entries), key=lambda path: path.split("/"))
        found = [path for path in image.find("d") if not image.islink(path)]
        assert [file.path for file in image.files("/d/")] == found
        with pytest.raises(NotADirectoryError):
            next(image.entries("d/text"))


def test_an_entry_stands_for_its_path(tiny):
    with shalefs.open(tiny) as image, shalefs.open(tiny) as other:
        text = next(entry for entry in image.entries() if entry.path == "d/text")
        link = next(entry for entry in image.entries() if entry.path == "symlink")
        for entry in (text, link, pickle.loads(pickle.dumps(text))):
            for tree in (image, other):
                assert tree.read_bytes(entry) == image.read_bytes("d/text") == tree.open(entry).read()
                assert tree.read_bytes(entry, 5, 9) == image.read_bytes("d/text", 5, 9)
                assert tree.stat(entry) == image.stat("d/text")
        # An entry knows its inode in its own image only.
        stale = shalefs.Entry("empty", text.inode, text.mode, text.size)
        assert image.read_bytes(stale) == b""
        with pytest.raises(IsADirectoryError):
            image.read_bytes(next(entry for entry in image.entries() if entry.is_dir()))


def test_a_path_is_found_however_it_is_written(tiny):
    with shalefs.open(tiny) as image:
        whole = image.read_bytes("d/text")
        for path in ("d/text", "/d/text", "d//text", "./d/./text", "d/../d/text", "symlink", "d/text", "d//text"):
            assert image.read_bytes(path) == whole and image.exists(path), path
        for path in ("d/none", "d/text/x", "none/text"):
            assert not image.exists(path), path
        for path in ("d", "", "d/", "d/."):
            assert image.isdir(path), path
            with pytest.raises(IsADirectoryError):
                image.read_bytes(path)
        with pytest.raises(FileNotFoundError):
            image.read_bytes("d/none")


def test_what_cannot_be_read_is_named_before_anything_is_read(tiny):
    with shalefs.open(tiny) as image:
        with pytest.raises(FileNotFoundError):
            list(image.read_many(["d/text", "none"]))
        with pytest.raises(IsADirectoryError):
            list(image.read_many(["d"]))
        assert list(image.read_many([])) == [] and image.read_ranges([]) == []


def test_readers_that_stop_early_leave_nothing_behind(tiny):
    with shalefs.open(tiny) as image:
        before = threading.active_count()
        for _ in range(50):
            next(iter(image.read_many(threads=4)))
        gc.collect()
        assert threading.active_count() == before
        readers = [threading.Thread(target=lambda: [list(image.read_many(threads=3)) for _ in range(20)])
                   for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
            assert not reader.is_alive()


def test_several_threads_share_one_reader(tiny):
    with shalefs.open(tiny) as image:
        if shalefs.engine == "pure":
            pytest.skip("its reader is a generator")
        files = list(image.files())
        stored = image._tree.read_stored([(file.inode, 0, file.size) for file in files * 200], 3)
        found = []

        def read():
            for batch in stored:
                found.extend(batch)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
            assert not reader.is_alive()
        wanted = [image.read_bytes(file) for file in files] * 200
        assert [data for _, data in sorted(found)] == wanted
