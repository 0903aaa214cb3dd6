"""Filters a dataset of Parquet files below a directory of an image, with pyarrow.

    python read_pyarrow.py shale://days::s3://bucket/x.shale COLUMN LEAST
"""

import sys

import pyarrow.dataset
from fsspec.core import url_to_fs
from pyarrow.fs import FSSpecHandler, PyFileSystem


def read(url: str, column: str, least: int) -> pyarrow.Table:
    system, path = url_to_fs(url)
    dataset = pyarrow.dataset.dataset(path, filesystem=PyFileSystem(FSSpecHandler(system)), format="parquet")
    return dataset.to_table(filter=pyarrow.dataset.field(column) >= least)


if __name__ == "__main__":
    print(read(sys.argv[1], sys.argv[2], int(sys.argv[3])))
