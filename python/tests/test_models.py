"""Streams are rebuilt as zlib, gzip and node wrote them, and what cannot be is an error."""

import random

import pytest
from conftest import IMAGES

import shalefs
from shalefs._pure import models

VECTORS = IMAGES.parent / "vectors" / "chunks.txt"


def cases():
    for text in VECTORS.read_text().split("\n\n"):
        found = dict(line.split(" = ") for line in text.splitlines() if not line.startswith("#"))
        if found:
            yield found


def part(case, key):
    return bytes.fromhex(case.get(key, ""))


def rebuild(case, carried=None):
    number, own, offset = (int(case[key]) for key in ("model", "carried", "offset"))
    parts = (part(case, key) for key in ("window", "plain", "after"))
    return models.rebuild(models.Model(number), own if carried is None else carried, offset, *parts)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"].strip('"'))
def test_a_chunk_is_what_the_encoder_wrote(case):
    assert rebuild(case).hex() == case["bytes"]


def test_there_are_vectors_of_every_encoder():
    assert {int(case["model"]) & 255 for case in cases()} == {1, 2, 3}


def test_a_wrong_cut_is_an_error_or_other_bytes():
    chance, errors = random.Random(3), 0
    middle = [case for case in cases() if case["offset"] != "0"]
    for _ in range(60):
        case = chance.choice(middle)
        carried = int(case["carried"]) ^ 1 << chance.randrange(64)
        try:
            rebuild(case, carried)
        except shalefs.DamagedError:
            errors += 1
    assert errors > 20


@pytest.mark.parametrize("number", [0, 4, 0xF8604, 0xF8001, 0xF8A01, 0xF0601, 0x88601, 0x5F8601, 1 << 32, 0xF9602])
def test_an_unknown_model_needs_a_newer_reader(number):
    with pytest.raises(shalefs.UnsupportedError, match="newer"):
        models.Model(number)
