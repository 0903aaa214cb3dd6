"""Creating, extending, checking and extracting images, by the compiled module."""

import os
import signal
import threading

import pytest

import shalefs

pytestmark = pytest.mark.skipif(shalefs.engine != "native", reason="the compiled module is tested in a run of its own")


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "tree"
    (top / "d").mkdir(parents=True)
    (top / "d" / "text").write_bytes(b"a line\n" * 5000)
    (top / "noise").write_bytes(os.urandom(300_000))
    (top / "left.tmp").write_bytes(b"x")
    os.symlink("d/text", top / "link")
    return top


def test_what_is_created_reads_back(tree, tmp_path):
    seen = []
    report = shalefs.create(tree, tmp_path / "a.shale", level=3, exclude=["*.tmp"], snapshot="first",
                            progress=lambda *told: seen.append(told))
    assert report.verified and report.complete and report.files == 2 and seen
    with shalefs.open(tmp_path / "a.shale", expect=report.identity) as image:
        assert image.snapshots == ["first"] and image.listdir() == ["d", "link", "noise"]
        assert image.read_bytes("link") == b"a line\n" * 5000
        assert image.read_ranges([("noise", 10, 20), ("d/text", -7, None), ("noise", 0, 5)], threads=3) == [
            (tree / "noise").read_bytes()[10:20], b"a line\n", (tree / "noise").read_bytes()[:5]]
    with pytest.raises(FileExistsError):
        shalefs.create(tree, tmp_path / "a.shale")
    with pytest.raises(ValueError):
        shalefs.create(tree, tmp_path / "b.shale", level=12)
    with pytest.raises(OSError):
        shalefs.create(tmp_path / "absent", tmp_path / "b.shale")
    assert not (tmp_path / "b.shale").exists()


def test_an_append_is_a_snapshot(tree, tmp_path):
    image = tmp_path / "a.shale"
    shalefs.create({"day1": tree}, image)
    report = shalefs.append(image, {"day2": tree}, add=True, remove=["left.tmp"], snapshot="two", message="more")
    assert report.snapshot == 1 and 0 < report.added_bytes < 20_000
    with shalefs.open(image) as found:
        assert found.snapshots[1] == "two" and found.listdir() == ["day1", "day2"]
        assert not found.exists("day1/left.tmp") and found.exists("day2/left.tmp")
    assert shalefs.open(image, snapshot=0).listdir() == ["day1"]


def test_what_is_left_out_is_a_warning(tree, tmp_path):
    shalefs.create(tree, tmp_path / "a.shale")
    with pytest.warns(shalefs.IncompleteWarning, match="nothing to remove"):
        report = shalefs.append(tmp_path / "a.shale", remove=["no such name"])
    assert not report.complete


def test_a_check_finds_damage(tree, tmp_path):
    image = tmp_path / "a.shale"
    shalefs.create(tree, image)
    assert shalefs.check(image).clean and shalefs.check(bytearray(image.read_bytes()), level="frames").clean
    data = bytearray(image.read_bytes())
    data[1000] ^= 1
    report = shalefs.check(data)
    assert not report.clean and report.problem_count == len(report.problems)
    assert any(path == "noise" for _, path, _ in report.damaged_paths)
    with pytest.raises(shalefs.NotAnImageError):
        shalefs.check(bytearray(b"x" * 1000))
    with pytest.raises(shalefs.DamagedError):
        shalefs.open(data).read_bytes("noise")


def test_all_is_extracted(tree, tmp_path):
    shalefs.create(tree, tmp_path / "a.shale")
    with shalefs.open(tmp_path / "a.shale") as image:
        assert shalefs.extract_all(image, tmp_path / "out") == []
        assert (tmp_path / "out" / "noise").read_bytes() == (tree / "noise").read_bytes()
        assert os.readlink(tmp_path / "out" / "link") == "d/text"
        with pytest.raises(FileExistsError):
            shalefs.extract_all(image, tmp_path / "out")
        shalefs.extract_all(image, tmp_path / "some", patterns=["d"])
        assert sorted(os.listdir(tmp_path / "some")) == ["d"]


class Interrupt(Exception):
    pass


def test_what_the_listener_raises_ends_the_work(tmp_path):
    (tmp_path / "tree").mkdir()
    for number in range(8):
        (tmp_path / "tree" / str(number)).write_bytes(os.urandom(4 << 20))

    def stop(*_told):
        raise Interrupt

    with pytest.raises(Interrupt):
        shalefs.create(tmp_path / "tree", tmp_path / "a.shale", level=9, progress=stop)
    assert sorted(os.listdir(tmp_path)) == ["tree"]


def test_the_interrupt_key_ends_the_work(tmp_path):
    (tmp_path / "tree").mkdir()
    for number in range(8):
        # Digits take a packer many seconds, and noise a moment: the key comes before the end.
        (tmp_path / "tree" / str(number)).write_text(os.urandom(2 << 20).hex())
    begun = threading.Event()

    def press():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    # A shell that starts the tests in the background tells them to ignore the key.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            shalefs.create(tmp_path / "tree", tmp_path / "a.shale", level=9, progress=lambda *_told: begun.set())
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert sorted(os.listdir(tmp_path)) == ["tree"]


def test_a_source_in_python_is_asked_for_ranges(tiny):
    class Source:
        def __init__(self, data):
            self.data, self.size, self.asked = data, len(data), 0

        def read_at(self, offset, length):
            self.asked += 1
            return self.data[offset:offset + length]

        def close(self):
            pass

    source = Source(tiny.read_bytes())
    with shalefs.open(source) as image:
        assert image.read_bytes("d/text") == shalefs.open(tiny).read_bytes("d/text")
    assert source.asked > 3

    class Broken(Source):
        def read_at(self, offset, length):
            if self.asked > 3:
                raise ConnectionResetError("gone")
            return super().read_at(offset, length)

    with pytest.raises(ConnectionResetError, match="gone"):
        broken = shalefs.open(Broken(tiny.read_bytes()))
        [broken.read_bytes(path) for path in broken.find() if broken.isfile(path)]
