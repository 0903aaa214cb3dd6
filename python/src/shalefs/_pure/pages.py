"""A table page: integer sections and string sections, by chapter "Tables and their pages" of the format.

`parse` returns one list for each column, or raises DamagedError. Lists are as long as the page has rows.
"""

from ..errors import DamagedError

ROWS_MAX = 65536
COLUMNS_MAX = 32
_M64 = (1 << 64) - 1
_TIERS = {0x12: 1, 0x13: 2, 0x14: 2, 0x15: 3, 0x16: 3}


def _damaged(what):
    return DamagedError(f"a table page is damaged: {what}")


class _Input:
    __slots__ = ("data", "at")

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        end = self.at + length
        if end > len(self.data):
            raise _damaged("it is truncated")
        part = self.data[self.at:end]
        self.at = end
        return part

    def byte(self):
        if self.at >= len(self.data):
            raise _damaged("it is truncated")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        for _ in range(10):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                if value > _M64:
                    break
                return value
            shift += 7
        raise _damaged("a number is too long")

    def count(self, most):
        value = self.varint()
        if not 1 <= value <= most:
            raise _damaged("a count is out of range")
        return value


def parse(data: bytes, kinds) -> list:
    """Columns of a page. `kinds` has "u" for a column of integers and "b" for one of byte strings."""
    source = _Input(data)
    if source.byte() != 1 or source.byte() != len(kinds):
        raise _damaged("it is of another version or table")
    rows = source.count(ROWS_MAX)
    columns = [_integers(source, rows, 4) if kind == "u" else _strings(source, rows, True) for kind in kinds]
    if source.at != len(data):
        raise _damaged("bytes follow its last column")
    return columns


def patch_head(data: bytes) -> tuple:
    """The head of a page of codec 4: the fields of the reference to its base, the codec of the patch, the patch."""
    source = _Input(data)
    source.varint()
    offset = source.varint()
    checksum = int.from_bytes(source.take(8), "little")
    stored_len, plain_len = source.varint(), source.varint()
    codec, compression = source.byte(), source.byte()
    if compression > 1:
        raise _damaged("a patch has an unknown codec")
    return (offset, checksum, stored_len, plain_len, codec), compression, data[source.at:]


def patched(columns: list, data: bytes, kinds) -> list:
    """Columns of the page that a patch makes of a page with these columns."""
    source = _Input(data)
    before, rows = len(columns[0]), source.count(ROWS_MAX)
    count = source.varint()
    if count > ROWS_MAX:
        raise _damaged("a patch has too many segments")
    inserted = []
    if count:
        parts = [_integers(source, count, 4) for _ in range(3)]
        segments = list(zip(*parts))
        if sum(parts[0]) + sum(parts[1]) != before or sum(parts[0]) + sum(parts[2]) != rows:
            raise _damaged("the segments of a patch do not cover its pages")
        columns = [_moved(column, segments, 0 if kind == "u" else b"") for column, kind in zip(columns, kinds)]
        at = 0
        for kept, _, new in segments:
            inserted += range(at + kept, at + kept + new)
            at += kept + new
    elif before != rows:
        raise _damaged("a patch is for a page with another number of rows")
    changed, last = [], []
    for column, kind in zip(columns, kinds):
        form, where = (byte := source.byte()) & 7, byte >> 3
        if form > 4 or where > (2 if form in (1, 2) else 0) or (kind == "b" and form in (2, 3)):
            raise _damaged("a patch of a column has an unknown form")
        if form == 0:
            changed.append(column)
            continue
        chosen = range(rows)
        if form in (1, 2):
            if where == 0:
                last, next_row = [], 0
                for gap in _integers(source, source.count(rows), 4):
                    last.append(next_row + gap)
                    next_row = last[-1] + 1
                if next_row > rows:
                    raise _damaged("a patch names a row that does not exist")
            chosen = inserted if where == 2 else last
            if not chosen:
                raise _damaged("a patch of a column has no rows")
        values = _integers(source, len(chosen), 4) if kind == "u" else _strings(source, len(chosen), True)
        column = list(column)
        for row, value in zip(chosen, values):
            column[row] = column[row] + _unzigzag(value) & _M64 if form in (2, 3) else value
        changed.append(column)
    if source.at != len(data):
        raise _damaged("bytes follow the last column")
    return changed


def _moved(column, segments, none):
    moved, at = [], 0
    for kept, dropped, new in segments:
        moved += column[at:at + kept]
        moved += [moved[-1] if moved else none] * new
        at += kept + dropped
    return moved


def _unzigzag(value):
    return value >> 1 if not value & 1 else ~(value >> 1) & _M64


def _packed(source, count, width):
    data = source.take((count * width + 7) // 8)
    return _unpack(data, count, width)


def _unpack(data, count, width):
    if width == 0:
        return [0] * count
    if width == 8:
        return list(data[:count])
    if width % 8 == 0:
        step = width // 8
        return [int.from_bytes(data[i:i + step], "little") for i in range(0, count * step, step)]
    values, mask = [], (1 << width) - 1
    # Eight values at a time begin at a whole byte.
    for at in range(0, len(data), width):
        group = int.from_bytes(data[at:at + width], "little")
        for _ in range(min(8, count - len(values))):
            values.append(group & mask)
            group >>= width
    return values


def _integers(source, n, tier):
    tag = source.byte()
    if tag >= 0x80:
        return [tag - 0x80] * n
    if 1 <= tag <= 8:
        return [int.from_bytes(source.take(tag), "little")] * n
    if _TIERS.get(tag, 0) > tier:
        raise _damaged("sections nest too deep")
    if tag == 0x10:
        base, step = source.varint(), _unzigzag(source.varint())
        return [base + i * step & _M64 for i in range(n)]
    if tag == 0x11:
        low, scale, width = source.varint(), source.varint(), source.byte()
        if width > 64:
            raise _damaged("values are too wide")
        codes = _packed(source, n, width)
        if scale == 1 and low + (1 << width) <= _M64:
            return [low + code for code in codes] if low else codes
        return [low + scale * code & _M64 for code in codes]
    if tag == 0x12:
        return _blocks(source, n)
    if tag == 0x13:
        return _runs(source, n, tier)
    if tag == 0x14:
        count = source.count(n)
        values = _integers(source, count, 0)
        return _look_up(values, _integers(source, n, tier - 1))
    if tag in (0x15, 0x16):
        checkpoints = _integers(source, (n + 63) // 64, 1)
        deltas = _integers(source, n, tier - 1)
        values = []
        for block, value in enumerate(checkpoints):
            values.append(value)
            for delta in deltas[64 * block + 1:64 * block + 64]:
                value = value + (_unzigzag(delta) if tag == 0x16 else delta) & _M64
                values.append(value)
        return values
    raise _damaged(f"an integer section has the unknown tag {tag:#x}")


def _look_up(values, codes):
    if codes and max(codes) >= len(values):
        raise _damaged("a code is out of range")
    return [values[code] for code in codes]


def _blocks(source, n):
    count = (n + 63) // 64
    lows, ends = _integers(source, count, 0), _integers(source, count, 0)
    values, before = [], 0
    for block, (low, end) in enumerate(zip(lows, ends)):
        width = end - before
        if not 0 <= width <= 64:
            raise _damaged("a block is too wide")
        before = end
        codes = _packed(source, min(64, n - 64 * block), width)
        values += [low + code & _M64 for code in codes]
    return values


def _runs(source, n, tier):
    count = source.count(n)
    starts = _integers(source, count, 0)
    bases = _integers(source, count, tier - 1)
    steps = _integers(source, count, 1)
    if starts[0] != 0 or starts[-1] >= n or any(a >= b for a, b in zip(starts, starts[1:])):
        raise _damaged("runs do not ascend")
    values = []
    for start, end, base, step in zip(starts, [*starts[1:], n], bases, steps):
        if step == 0:
            values += [base] * (end - start)
        else:
            values += [base + i * step & _M64 for i in range(end - start)]
    return values


def _pieces(source, n):
    ends = _integers(source, n, 3)
    length = source.varint()
    data = source.take(length)
    if ends[-1] != length or any(a > b for a, b in zip(ends, ends[1:])):
        raise _damaged("strings do not ascend")
    return [data[a:b] for a, b in zip([0, *ends], ends)]


def _strings(source, n, is_column):
    tag = source.byte()
    if tag == 0x20:
        return [source.take(source.varint())] * n
    if tag == 0x21:
        return _pieces(source, n)
    if tag == 0x22:
        interval = source.byte()
        if not 1 <= interval <= 64:
            raise _damaged("an interval is out of range")
        shared = _integers(source, n, 1)
        values, last = [], b""
        for i, rest in enumerate(_pieces(source, n)):
            if i % interval:
                if shared[i] > len(last):
                    raise _damaged("a string shares more than there is")
                rest = last[:shared[i]] + rest
            values.append(rest)
            last = rest
        return values
    if tag == 0x23 and is_column:
        count = source.count(n)
        values = _strings(source, count, False)
        return _look_up(values, _integers(source, n, 4))
    if tag == 0x24 and is_column:
        count = source.count(n)
        prefixes, suffixes = _strings(source, count, False), _strings(source, count, False)
        forms = _integers(source, count, 0)
        codes, numbers = _integers(source, n, 4), _integers(source, n, 4)
        if max(codes) >= count:
            raise _damaged("a code is out of range")
        return [prefixes[code] + _digits(forms[code], number) + suffixes[code]
                for code, number in zip(codes, numbers)]
    raise _damaged(f"a string section has the unknown tag {tag:#x}")


def _digits(form, number):
    if form == 0:
        return b""
    if form <= 18:
        text = b"%0*d" % (form, number)
        if len(text) == form:
            return text
    elif form <= 36:
        return _dense(form - 18, number)
    elif form <= 54:
        return _spaced(form - 36, number)
    raise _damaged("a number does not have its form")


def _dense(length, number):
    if number >= (10 ** (length + 1) - 10) // 9:
        raise _damaged("a number does not have its form")
    text = []
    for left in range(length, 0, -1):
        share = (10 ** left - 1) // 9
        digit, number = divmod(number, share)
        text.append(0x30 + digit)
        if number == 0:
            break
        number -= 1
    return bytes(text)


def _spaced(length, number):
    text, places = [], []
    for _ in range(length):
        number, digit = divmod(number, 11)
        places.append(digit)
    places.reverse()
    for digit in places:
        if digit == 0:
            break
        text.append(0x30 + digit - 1)
    if number or not text or any(places[len(text):]):
        raise _damaged("a number does not have its form")
    return bytes(text)
