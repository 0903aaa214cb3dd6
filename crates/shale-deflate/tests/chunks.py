# Writes testdata/vectors/chunks.txt: streams of the real encoders (zlib, gzip and node), cut at ends of blocks.
# usage: chunks.py OUTPUT
# What the encoder carried over at a cut is found with the Python reader, which is compared with the streams.
import os
import random
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../python/src"))
from shalefs._pure import models  # noqa: E402

NODE = """
const zlib = require('zlib'), fs = require('fs');
fs.writeFileSync('output', zlib.deflateRawSync(fs.readFileSync('input'), {level: LEVEL, memLevel: MEMORY}));
"""


def number(encoder, level, memory=8, window=15, strategy=0):
    return encoder | level << 8 | memory << 12 | window << 16 | strategy << 20


def stream_of(model, plain):
    """What the real encoder makes of the bytes."""
    level, memory, window, strategy = model >> 8 & 15, model >> 12 & 15, model >> 16 & 15, model >> 20
    if model & 255 == 1:
        encoder = zlib.compressobj(level, 8, -window, memory, strategy)
        return encoder.compress(plain) + encoder.flush()
    with open("input", "wb") as file:
        file.write(plain)
    if model & 255 == 2:
        return subprocess.run(["gzip", f"-{level}nc", "input"], capture_output=True, check=True).stdout[10:-8]
    code = NODE.replace("LEVEL", str(level)).replace("MEMORY", str(memory))
    subprocess.run(["node", "-e", code], check=True)
    with open("output", "rb") as file:
        return file.read()


class Watched(models._Encoder):
    """An encoder that notes where blocks end: in the plain bytes, in bits, and what was found beyond."""

    def run(self):
        self.ends = []
        return super().run()

    def longest(self, p, first, n):
        self.last = p, super().longest(p, first, n)
        return self.last[1]

    def _end_block(self, p, q):
        ended = super()._end_block(p, q)
        self.ends.append((p, len(self.bits.out) * 8 + self.bits.count, p == q and not self.model.is_fast))
        return ended


def cuts(model, plain, stream):
    """The chunks between neighbouring ends of blocks: offset, end, first bit, carried match."""
    watched = Watched(models.Model(model), plain, 0, 0, None, 0)
    assert watched.run() == stream, hex(model)
    starts = [(0, 0, [0])]
    for p, bit, searched in watched.ends:
        # All matches that may have been found there; one of them gives the stream.
        hands = [0]
        if searched and model >> 20 not in (2, 3):
            hands = [2 << 16]
            for distance in range(1, min(p, 32506) + 1):
                length = 0
                while length < 258 and p + length < len(plain) and plain[p + length] == plain[p - distance + length]:
                    length += 1
                hands += [n << 16 | distance << 32 for n in range(length, 2, -1)][:1]
        starts.append((p, bit, hands))
    return starts, [(p, bit) for p, bit, _ in starts[1:]] + [(len(plain), None)]


def with_match_in_hand(name, model, plain):
    """The first chunk that can only be rebuilt with a match that the encoder had found before it."""
    for first in range(100):
        shifted = plain[first:]
        for index in range(len(cuts(model, shifted, stream_of(model, shifted))[0])):
            found = case(name, model, shifted, index)
            if found[2] >> 16 > 2:
                return found
    raise SystemExit(f"{name}: no block begins with a match in hand")


def case(name, model, plain, index=None):
    stream = stream_of(model, plain)
    if index is None:
        return [name, model, 0, 0, b"", plain, b"", stream]
    starts, ends = cuts(model, plain, stream)
    (start, bit, hands), (end, end_bit) = starts[index], ends[index]
    first = bit // 8
    held = stream[first] & (1 << bit % 8) - 1 | (bit % 8) << 8
    rebuilt = stream[first:end_bit // 8 if end_bit is not None else None]
    window, after = plain[:start], plain[end:end + 1024]
    for hand in hands:
        carried = held | hand
        try:
            if models.rebuild(models.Model(model), carried, start, window, plain[start:end], after) == rebuilt:
                return [name, model, carried, start, window, plain[start:end], after, rebuilt]
        except models.DamagedError:
            pass
    raise SystemExit(f"{name}: no match explains the stream")


def main():
    output = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp())
    chance = random.Random(24)
    words = "the of a stream is cut where block ends and match found 0x10 (see) \n".split(" ")
    text = " ".join(chance.choice(words) for _ in range(480)).encode()
    noise = chance.randbytes(700)
    runs = b"".join(bytes([chance.randrange(97, 101)]) * chance.randrange(1, 40) for _ in range(60))
    rare = b"".join(bytes([n]) * (1 << max(0, 11 - n)) for n in range(20))
    cases = [
        case("zlib 6: a whole stream of one block", number(1, 6), text),
        case("zlib 6 with short blocks, the first", number(1, 6, 1), text, 0),
        case("the second, which begins within a byte", number(1, 6, 1), text, 1),
        with_match_in_hand("one that begins with a match in hand", number(1, 6, 1), text + noise[:40] + text),
        with_match_in_hand("another, of Chromium", number(3, 9, 1), text + noise[:60] + text),
        case("the last", number(1, 6, 1), text, -1),
        case("zlib 9 with short blocks", number(1, 9, 1), text + noise[:50] + text, 2),
        case("zlib 4, whose lazy search gives up early", number(1, 4, 1), text, 1),
        case("zlib 1, the fast search", number(1, 1, 1), text, 1),
        case("zlib 3, the fast search with longer chains", number(1, 3, 1), text, 2),
        case("filtered: short matches are not used", number(1, 6, 1, 15, 1), text, 1),
        case("no matches", number(1, 6, 1, 15, 2), text[:400], 1),
        case("runs only", number(1, 6, 1, 15, 3), runs, 0),
        case("fixed codes only", number(1, 6, 1, 15, 4), text, 1),
        case("a window of 512 bytes, which was moved, and a block that is stored", number(1, 6, 1, 9),
             text + noise + text, 7),
        case("the end of that stream", number(1, 6, 1, 9), text + noise + text, -1),
        case("bytes that do not compress", number(1, 6), noise),
        case("codes that would be longer than 15 and 7 bits", number(1, 6), rare + bytes(range(256))),
        case("one byte", number(1, 9), b"a"),
        case("one distance", number(1, 9), b"abcabcabc"),
        case("GNU gzip 6", number(2, 6), text),
        case("GNU gzip 9, a match at the end", number(2, 9), text + text[:100]),
        case("GNU gzip 9, zeroes beyond the end", number(2, 9), text + bytes(300) + text + bytes(9)),
        case("GNU gzip 1", number(2, 1), runs),
        case("Chromium 6", number(3, 6), text),
        case("Chromium 6 with short blocks", number(3, 6, 1), text, 1),
        case("Chromium 9 with short blocks, the last", number(3, 9, 1), text, -1),
        case("Chromium 1", number(3, 1), runs + text),
    ]
    with open(output, "w") as file:
        file.write("# Chunks (chapters 7.6 and 9.3): bytes of streams of zlib 1.2.13, GNU gzip 1.12 and node 20,\n"
                   "# and what they are rebuilt from. Made by crates/shale-deflate/tests/chunks.py.\n")
        for name, model, carried, offset, *parts in cases:
            file.write(f'\nname = "{name}"\nmodel = {model}\ncarried = {carried}\noffset = {offset}\n')
            for key, value in zip(("window", "plain", "after", "bytes"), parts):
                if value:
                    file.write(f"{key} = {value.hex()}\n")
    print(len(cases), "cases,", os.path.getsize(output), "bytes")


main()
