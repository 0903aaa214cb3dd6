"""Counts the words of all files of an image with Dask. Each frame is decoded for one partition.

    python count_words.py x.shale
"""

import sys
from typing import Dict

import shalefs
from shalefs import distributed


def count(image: shalefs.FileSystem, partitions: int) -> Dict[bytes, int]:
    words = distributed.dask_bag(image, partitions).map(lambda pair: pair[1].split()).flatten()
    return dict(words.frequencies().compute())


if __name__ == "__main__":
    with shalefs.open(sys.argv[1]) as opened:
        counts = count(opened, 16)
    for word in sorted(counts, key=counts.__getitem__)[-20:]:
        print(counts[word], word.decode(errors="replace"))
