"""Filters of frames: the bcj filters both ways (a prefix is filtered forwards), and which number is which.

All arithmetic wraps at 32 bits, as the format says.
"""

import re

from ..errors import UnsupportedError

NONE, X86, ARM64, ARM, LINES, ARRAY, SAMPLES = range(7)
_OPCODE = re.compile(rb"[\xe8\xe9]")
_RANGE = 1 << 24
_PAGE_RANGE = 1 << 17


def apply(number: int, plain: bytes) -> bytes:
    """Plain bytes to filtered bytes, as an encoder sees them."""
    return _run(number, plain, 1)


def reverse(number: int, filtered: bytes) -> bytes:
    """Filtered bytes to plain bytes."""
    return _run(number, filtered, -1)


def _run(number, data, sign):
    if number == NONE:
        return data
    if number == X86:
        return _x86(bytearray(data), sign)
    if number == ARM64:
        return _arm64(bytearray(data), sign)
    if number == ARM:
        return _arm(bytearray(data), sign)
    raise UnsupportedError(f"filter {number} is unknown: the image needs a newer reader")


def _x86(data, sign):
    last = len(data) - 5

    def step(place):
        distance = int.from_bytes(data[place + 1:place + 5], "little")
        shifted = distance + _RANGE & 0xFFFFFFFF
        if shifted < 2 * _RANGE:
            moved = (shifted + sign * place) % (2 * _RANGE) - _RANGE & 0xFFFFFFFF
            data[place + 1:place + 5] = moved.to_bytes(4, "little")

    if sign > 0:
        place = 0
        while (found := _OPCODE.search(data, place)) and found.start() <= last:
            step(found.start())
            place = found.start() + 1
    else:
        place = last + 1
        while place > 0:
            place = max(data.rfind(0xE8, 0, place), data.rfind(0xE9, 0, place))
            if place < 0:
                break
            step(place)
    return bytes(data)


def _arm64(data, sign):
    for index in range(len(data) // 4):
        at = 4 * index
        word = int.from_bytes(data[at:at + 4], "little")
        if word & 0xFC000000 == 0x94000000:
            word = 0x94000000 | (word + sign * index & 0x03FFFFFF)
        elif word & 0x9F000000 == 0x90000000:
            distance = word >> 29 & 3 | word >> 3 & 0x1FFFFC
            shifted = distance + _PAGE_RANGE & 0x1FFFFF
            if shifted >= 2 * _PAGE_RANGE:
                continue
            distance = (shifted + sign * (index >> 10)) % (2 * _PAGE_RANGE) - _PAGE_RANGE & 0x1FFFFF
            word = word & 0x9F00001F | (distance & 3) << 29 | (distance & 0x1FFFFC) << 3
        else:
            continue
        data[at:at + 4] = word.to_bytes(4, "little")
    return bytes(data)


def _arm(data, sign):
    for index in range(len(data) // 4):
        at = 4 * index
        if data[at + 3] == 0xEB:
            distance = int.from_bytes(data[at:at + 3], "little")
            data[at:at + 3] = (distance + sign * index & 0xFFFFFF).to_bytes(3, "little")
    return bytes(data)
