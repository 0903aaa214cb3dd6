"""Partitions of an image, by both readers."""

import pytest
import shalefs
from shalefs import distributed


@pytest.mark.parametrize("by", ["frames", "directory"])
def test_partitions_hold_every_file_once(images, by):
    for path in sorted(images.glob("0.3-*.shale")):
        with shalefs.open(path) as image:
            wanted = sorted(path for path in image.find() if image.isfile(path) and not image.islink(path))
            for count in (1, 3, 1000):
                parts = distributed.partitions(image, count, by=by)
                assert len(parts) <= count and sorted(path for part in parts for path in part.paths) == wanted
        # The reader in Python lacks the codecs of some of the others.
        if "tiny" in path.name:
            assert [(path, len(data)) for part in parts for path, data in part.read()] == [
                file for part in parts for file in part.files]


def test_what_cannot_be_partitioned_says_why(tiny):
    with shalefs.open(tiny) as image:
        with pytest.raises(ValueError):
            distributed.partitions(image, 0)
        with pytest.raises(ValueError, match="by"):
            distributed.partitions(image, 1, by="size")
        with pytest.raises(NotADirectoryError):
            distributed.partitions(image, 1, top="d/text")
