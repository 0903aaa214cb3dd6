"""Opens a Zarr array in a directory of an image. A slice decodes the frames of its chunks, and no others.

    python read_zarr.py shale://field.zarr::s3://bucket/x.shale
"""

import sys

import zarr
from fsspec.core import url_to_fs
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from zarr.storage import FsspecStore


def read(url: str) -> zarr.Array:
    system, path = url_to_fs(url)
    store = FsspecStore(AsyncFileSystemWrapper(system, asynchronous=True), read_only=True, path=path)
    return zarr.open_array(store, mode="r")


if __name__ == "__main__":
    array = read(sys.argv[1])
    print(array.info)
