"""Makes a thumbnail of each picture below a directory of an image, with PIL.

    python read_pictures.py shale://photos::file:///data/x.shale TARGET
"""

import pathlib
import sys
from typing import Iterator, Tuple

from fsspec.core import url_to_fs
from PIL import Image


def thumbnails(url: str, size: int = 128) -> Iterator[Tuple[str, Image.Image]]:
    system, top = url_to_fs(url)
    for path in system.find(top):
        if path.lower().endswith((".jpg", ".jpeg", ".png", ".gif", ".tif", ".webp")):
            with system.open(path) as file, Image.open(file) as picture:
                picture.thumbnail((size, size))
                yield path, picture.convert("RGB")


if __name__ == "__main__":
    for path, picture in thumbnails(sys.argv[1]):
        picture.save(pathlib.Path(sys.argv[2]) / (path.replace("/", "_") + ".png"))
