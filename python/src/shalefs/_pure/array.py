"""The filter of arrays, undone: planes and differences back to records."""

from ..errors import DamagedError

_RECORD_LEN_MAX = 255


def undo(shape: bytes, form: bytes) -> bytes:
    """The plain bytes of an array form; `shape` is the three bytes before the compressed form."""
    if len(shape) != 3:
        raise DamagedError("arrays: the shape is truncated")
    width, count, ways = shape
    difference, shuffle, record_len = ways & 15, ways >> 4, width * count
    if width not in (1, 2, 4, 8) or not 0 < record_len <= _RECORD_LEN_MAX or difference > 3 or shuffle > 2:
        raise DamagedError("arrays: the shape is not defined")
    plain = bytearray(form)
    if shuffle == 1:
        records = len(form) // record_len
        for place in range(record_len):
            plain[place:records * record_len:record_len] = form[place * records:(place + 1) * records]
    elif shuffle == 2:
        groups = len(form) // record_len // 8
        for place in range(record_len):
            planes = [form[(place * 8 + bit) * groups:(place * 8 + bit + 1) * groups] for bit in range(8)]
            for record in range(8 * groups):
                group, low = divmod(record, 8)
                bits = [planes[bit][group] >> low & 1 for bit in range(8)]
                plain[record * record_len + place] = sum(bit << n for n, bit in enumerate(bits))
    if difference == 3:
        for at in range(record_len, len(plain)):
            plain[at] ^= plain[at - record_len]
    elif difference:
        order, mask = ("little", "big")[difference - 1], (1 << 8 * width) - 1
        before = [int.from_bytes(plain[at:at + width], order) for at in range(0, record_len, width)]
        for at in range(record_len, len(plain) - width + 1, width):
            place = at % record_len // width
            before[place] = before[place] + int.from_bytes(plain[at:at + width], order) & mask
            plain[at:at + width] = before[place].to_bytes(width, order)
    return bytes(plain)
