"""Thin images and parts: read through their base and all files, and refused where one is missing or another."""

import pickle
import shutil

import pytest

import shalefs

THIN, BASE = "0.4-over-tiny.thin", "0.3-tiny.shale"


@pytest.fixture
def place(tmp_path, images):
    for name in (THIN, BASE):
        shutil.copy(images / name, tmp_path / name)
    return tmp_path


def lines(image):
    return [(top, sorted(directories), sorted(files)) for top, directories, files in image.walk()]


def test_a_thin_image_is_read_with_its_base_beside_it(place):
    with shalefs.open(place / THIN) as image:
        assert len(image.snapshots) == 2
        found, identity = lines(image), image.identity
    with shalefs.open(place / THIN, expect=identity) as image:
        assert lines(image) == found
        assert lines(pickle.loads(pickle.dumps(image))) == found
    with shalefs.open(place / THIN, snapshot=0) as old, shalefs.open(place / BASE) as base:
        assert lines(old) == lines(base)
    # Elsewhere: a file, a directory, bytes.
    (place / "bases").mkdir()
    shutil.move(place / BASE, place / "bases" / BASE)
    for base in (place / "bases" / BASE, place / "bases", bytearray((place / "bases" / BASE).read_bytes())):
        with shalefs.open(place / THIN, base=base) as image:
            assert lines(image) == found
    with shalefs.open(bytearray((place / THIN).read_bytes()), base=place / "bases") as image:
        assert lines(image) == found


def test_a_missing_or_other_base_is_named(place, images):
    with shalefs.open(place / BASE) as base:
        wanted = base.identity
    (place / BASE).unlink()
    with pytest.raises(shalefs.ShaleError, match=wanted):
        shalefs.open(place / THIN)
    shutil.copy(images / "0.3-names.shale", place / BASE)
    with pytest.raises(shalefs.ShaleError, match="another image"):
        shalefs.open(place / THIN)
    with pytest.raises(shalefs.ShaleError, match=wanted):
        shalefs.open(bytearray((place / THIN).read_bytes()))


def test_damaged_and_truncated_thin_images_are_refused(place):
    whole = (place / THIN).read_bytes()
    head_len = 64 + 64 + 48 + len(BASE)
    for at in range(head_len):
        if 48 <= at < 56:
            continue
        (place / THIN).write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1:])
        with pytest.raises(OSError):
            shalefs.open(place / THIN)
    for length in (head_len, head_len + 1, head_len + 200, len(whole) - 1):
        (place / THIN).write_bytes(whole[:length])
        with pytest.raises(OSError):
            shalefs.open(place / THIN)


def test_parts_are_read_through_the_first(place):
    whole = (place / BASE).read_bytes()
    with shalefs.open(place / BASE) as image:
        found = lines(image)
    size = len(whole) // 3 + 1
    parts = [place / f"x.shale.{number}-of-3" for number in (1, 2, 3)]
    for number, part in enumerate(parts):
        part.write_bytes(whole[number * size:(number + 1) * size])
    with shalefs.open(parts[0]) as image:
        assert lines(image) == found
    with pytest.raises(shalefs.ShaleError, match="first part"):
        shalefs.open(parts[1])
    second = parts[1].read_bytes()
    parts[1].write_bytes(second[:-1])
    with pytest.raises(shalefs.ShaleError, match="truncated"):
        shalefs.open(parts[0])
    parts[1].unlink()
    with pytest.raises(shalefs.ShaleError, match="part 2 of 3"):
        shalefs.open(parts[0])
