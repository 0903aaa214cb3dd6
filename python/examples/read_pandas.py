"""Reads a CSV file of an image into a pandas data frame.

    python read_pandas.py shale://day/a.csv::s3://bucket/x.shale
"""

import sys

import pandas


def read(url: str) -> pandas.DataFrame:
    return pandas.read_csv(url)


if __name__ == "__main__":
    print(read(sys.argv[1]).describe())
