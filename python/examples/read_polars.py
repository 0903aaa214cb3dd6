"""Reads some columns of a Parquet file of an image into a polars data frame. Only their bytes are decoded.

    python read_polars.py shale://day/a.parquet::s3://bucket/x.shale COLUMN...
"""

import sys
from typing import List

import fsspec
import polars


def read(url: str, columns: List[str]) -> polars.DataFrame:
    with fsspec.open(url) as file:
        return polars.read_parquet(file, columns=columns)


if __name__ == "__main__":
    print(read(sys.argv[1], sys.argv[2:]))
