"""Damage is an error and never data."""

import random

import pytest

import shalefs
from shalefs._pure import codecs


def everything(data, expect=None):
    image, facts = shalefs.open(bytearray(data), expect=expect), {}
    for path in image.find():
        facts[path] = image.lstat(path)[:6], image.listxattr(path, False)
        if image.isfile(path) and not image.islink(path):
            facts[path] += (image.read_bytes(path),)
    return facts


@pytest.mark.parametrize("under_identity", [False, True])
def test_a_flipped_byte_gives_an_error_or_the_right_data(tiny, under_identity):
    good = tiny.read_bytes()
    wanted, chance, errors = everything(good), random.Random(7), 0
    expect = shalefs.open(bytearray(good)).identity if under_identity else None
    for place in range(0, len(good), 3):
        bad = bytearray(good)
        bad[place] ^= 1 << chance.randrange(8)
        try:
            assert everything(bad, expect) == wanted
        except shalefs.ShaleError:
            errors += 1
    assert errors > len(good) / 3 / 2


def test_a_truncated_image_is_an_error(tiny):
    good = tiny.read_bytes()
    for length in range(0, len(good), 37):
        with pytest.raises(shalefs.ShaleError):
            everything(good[:length])


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_any_bytes_end_in_an_error_of_ours(codec):
    chance = random.Random(codec)
    for _ in range(300):
        stored, prefix = chance.randbytes(chance.randrange(1, 80)), chance.randbytes(chance.choice([0, 3, 50]))
        try:
            assert len(codecs.decode(codec, prefix, stored, 64)) == 64
        except shalefs.ShaleError:
            pass


def test_a_file_that_is_no_image_is_called_that(tmp_path):
    other = tmp_path / "x.shale"
    other.write_bytes(b"hsqs" + bytes(4096))
    with pytest.raises(shalefs.NotAnImageError):
        shalefs.open(other)
    with pytest.raises(FileNotFoundError):
        shalefs.open(tmp_path / "missing.shale")
