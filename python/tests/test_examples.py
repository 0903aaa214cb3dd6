"""The examples do what they say, from a local image and through chained URLs."""

import importlib.util
import pathlib
import sys

import fsspec
import pytest

import shalefs

pytestmark = pytest.mark.skipif(shalefs.engine != "native", reason="the compiled module is tested in a run of its own")
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A function that names a path of an image behind a URL."""
    import numpy
    import pandas
    import zarr
    from PIL import Image
    top = tmp_path_factory.mktemp("examples")
    tree = top / "tree"
    (tree / "days").mkdir(parents=True)
    frame = pandas.DataFrame({"x": range(5000), "y": [f"line {number % 7}" for number in range(5000)]})
    frame.to_csv(tree / "a.csv", index=False)
    for day in range(3):
        frame.assign(day=day).to_parquet(tree / "days" / f"{day}.parquet")
    zarr.save_array(tree / "field.zarr", numpy.arange(90_000, dtype="i4").reshape(300, 300))
    Image.linear_gradient("L").save(tree / "grey.png")
    (tree / "words").write_bytes(b"to be or not to be\n" * 100)
    shalefs.create(tree, top / "x.shale", level=3)
    fsspec.filesystem("memory").pipe("/examples/x.shale", (top / "x.shale").read_bytes())
    return lambda path, base=f"file://{top / 'x.shale'}": f"shale://{path}::{base}"


def test_pandas_reads_a_table(url):
    frame = example("read_pandas").read(url("a.csv"))
    assert len(frame) == 5000 and frame.x.sum() == 5000 * 4999 // 2
    assert example("read_pandas").read(url("a.csv", "memory://examples/x.shale")).equals(frame)


def test_polars_reads_some_columns(url):
    frame = example("read_polars").read(url("days/1.parquet"), ["x", "day"])
    assert frame.columns == ["x", "day"] and frame["day"].sum() == 5000


def test_pyarrow_filters_a_dataset(url):
    assert example("read_pyarrow").read(url("days"), "day", 1).num_rows == 10_000


def test_zarr_reads_a_slice(url):
    array = example("read_zarr").read(url("field.zarr"))
    assert array.shape == (300, 300) and array[7, 3:6].tolist() == [2103, 2104, 2105]


def test_pil_makes_thumbnails(url):
    ((path, picture),) = example("read_pictures").thumbnails(url(""))
    assert path == "grey.png" and picture.size == (128, 128)
    assert picture.getpixel((0, 0)) < picture.getpixel((0, 127))


def test_dask_counts_words(url):
    with shalefs.open(url("").partition("::file://")[2]) as image:
        assert example("count_words").count(image, 4)[b"be"] == 200
