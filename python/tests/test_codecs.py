"""Codecs and sums in Python alone agree with the libraries that they replace."""

import lzma
import random

import blake3
import pytest
import xxhash

import shalefs
from shalefs._pure import codecs, filters, lines, sums

LENGTHS = [0, 1, 3, 4, 8, 9, 16, 17, 64, 65, 128, 129, 240, 241, 1023, 1024, 1025, 2048, 5000, 65536]


@pytest.mark.parametrize("length", LENGTHS)
def test_sums_in_python_are_those_of_the_libraries(length):
    data = random.Random(length).randbytes(length)
    assert sums._python_xxh3(data) == xxhash.xxh3_64_intdigest(data)
    assert sums._python_blake3(data, list(sums._IV), 0) == blake3.blake3(data).digest()


def python_lzma(prefix, stored, plain_len):
    lc, lp, pb = stored[0] % 9, stored[0] // 9 % 5, stored[0] // 45
    return codecs._python_lzma(prefix, stored[1:], plain_len, lc, lp, pb)


@pytest.mark.parametrize(("lc", "lp", "pb"), [(3, 0, 2), (0, 2, 0), (4, 0, 4)])
def test_lzma_in_python_is_lzma(lc, lp, pb):
    chance = random.Random(3)
    words = [chance.randbytes(chance.randrange(1, 9)) for _ in range(60)]
    plain = b"".join(chance.choice(words) for _ in range(4000)) + bytes(5000)
    options = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 20, "lc": lc, "lp": lp, "pb": pb}]
    compressor = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=options)
    body = compressor.compress(plain) + compressor.flush()
    stored = bytes([(pb * 5 + lp) * 9 + lc]) + body[1:]
    assert codecs.decode(3, b"", stored, len(plain)) == plain == python_lzma(b"", stored, len(plain))


@pytest.mark.skipif(shalefs.engine != "pure", reason="counts what the reader in Python decodes")
def test_lzma_after_a_prefix_decodes_the_same_in_python(images, monkeypatch):
    def contents():
        for name in ("0.3-references", "0.3-lzma", "0.3-filters"):
            with shalefs.open(images / f"{name}.shale") as image:
                yield [image.read_bytes(path) for path in image.find() if image.isfile(path)]

    wanted, prefixes = list(contents()), []

    def counted(prefix, stored, plain_len):
        prefixes.append(len(prefix))
        return python_lzma(prefix, stored, plain_len)

    monkeypatch.setitem(codecs._DECODERS, 3, counted)
    assert list(contents()) == wanted
    assert any(prefixes), "no frame of these images is LZMA with a prefix"


@pytest.mark.parametrize("number", [filters.X86, filters.ARM64, filters.ARM])
def test_a_filter_is_undone(number):
    chance = random.Random(number)
    for _ in range(50):
        plain = bytes(chance.choice((0, 0xE8, 0xE9, 0xEB, 0x94, 0x90, 0xFF, 1)) for _ in range(chance.randrange(200)))
        assert filters.reverse(number, filters.apply(number, plain)) == plain


def test_x86_moves_only_calls_and_jumps():
    assert filters.apply(filters.X86, b"\x90\xe8\x00\x01\x00\x00") == b"\x90\xe8\x01\x01\x00\x00"
    assert filters.apply(filters.X86, b"\x0f\x84\x00\x01\x00\x00") == b"\x0f\x84\x00\x01\x00\x00"


def test_lines_by_hand():
    # Two lines of one template, "a" and a slot; the second value is one more than the first.
    form = bytes([2, 3]) + b"a\0\n" + bytes([0, 1]) + bytes([0]) + bytes([1, 2]) + b"09" + bytes([3])
    assert lines.undo(form, 7) == b"a09\na10"
