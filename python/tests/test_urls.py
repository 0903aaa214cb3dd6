"""Images behind URLs: only what is used is fetched."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest
import shalefs


@pytest.fixture
def url(tiny):
    fsspec.filesystem("memory").pipe("/urls/tiny.shale", tiny.read_bytes())
    return "memory://urls/tiny.shale"


def test_a_url_gives_what_the_file_gives(tiny, url):
    with shalefs.open(str(tiny)) as near:
        for far in (url, f"file://{tiny}"):
            with shalefs.open(far) as image:
                assert image.listdir("d") == near.listdir("d")
                assert image.read_bytes("d/text") == near.read_bytes("d/text")


def test_reads_fetch_ranges_and_never_the_whole(tiny, url, monkeypatch):
    from shalefs._pure.source import UrlSource
    monkeypatch.setattr(UrlSource, "TAIL", 1000)
    fetched = []
    system = type(fsspec.filesystem("memory"))
    cat_file = system.cat_file

    def counted(self, path, start=None, end=None, **kwargs):
        fetched.append((start, end))
        return cat_file(self, path, start=start, end=end, **kwargs)

    monkeypatch.setattr(system, "cat_file", counted)
    size = tiny.stat().st_size
    with shalefs.open(url) as image:
        assert fetched[0] == (size - 1000, size)
        image.read_bytes("d/text")
    assert all(start is not None and end is not None for start, end in fetched)
    assert sum(end - start for start, end in fetched) < 2 * size


def test_threads_and_pickles_open_it_again(url):
    with shalefs.open(url) as image:
        whole = image.read_bytes("d/text")
        with ThreadPoolExecutor(8) as pool:
            assert all(data == whole for data in pool.map(lambda _: image.read_bytes("d/text"), range(50)))
        assert pickle.loads(pickle.dumps(image)).read_bytes("d/text") == whole


def test_what_cannot_be_opened_says_why(tmp_path, url):
    with pytest.raises(FileNotFoundError):
        shalefs.open("memory://urls/none.shale")
    with pytest.raises(ValueError, match="storage_options"):
        shalefs.open(str(tmp_path / "x"), storage_options={})
    fsspec.filesystem("memory").pipe("/urls/cut.shale", fsspec.filesystem("memory").cat("/urls/tiny.shale")[:500])
    with pytest.raises(shalefs.ShaleError):
        shalefs.open("memory://urls/cut.shale")
