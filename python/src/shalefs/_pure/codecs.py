"""Stored bytes to plain bytes, by chapter "Codecs and filters" of the format.

`decode` returns exactly the length that it is asked for, or raises DamagedError.
"""

import lzma

import zstandard

from ..errors import DamagedError, UnsupportedError

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_WINDOW_MAX = 1 << 28


def decode(codec: int, prefix: bytes, stored: bytes, plain_len: int) -> bytes:
    try:
        decoder = _DECODERS[codec]
    except KeyError:
        raise UnsupportedError(f"codec {codec} is unknown: the image needs a newer reader") from None
    plain = decoder(prefix, stored, plain_len)
    if len(plain) != plain_len:
        raise DamagedError(f"{len(stored)} stored bytes give {len(plain)} bytes instead of {plain_len}")
    return plain


def _stored(_prefix, stored, _plain_len):
    return stored


def _zstd(prefix, stored, plain_len):
    # The format leaves the magic number out.
    if len(prefix) >= 8:
        words = zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    else:
        # The library takes no dictionary of less than 8 bytes; only the bytes closest to the frame can be matched.
        words = None
        if prefix:
            padded = bytes(8 - len(prefix)) + prefix
            words = zstandard.ZstdCompressionDict(padded, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    try:
        frame = _ZSTD_MAGIC + stored
        # The library allocates what a frame claims to hold.
        claimed = zstandard.get_frame_parameters(frame).content_size
        if claimed not in (0, plain_len, zstandard.CONTENTSIZE_UNKNOWN):
            raise DamagedError(f"zstd: a frame claims {claimed} bytes instead of {plain_len}")
        decompressor = zstandard.ZstdDecompressor(dict_data=words, max_window_size=_WINDOW_MAX)
        return decompressor.decompress(frame, max_output_size=max(plain_len, 1))
    except zstandard.ZstdError as error:
        raise DamagedError(f"zstd: {error}") from None


def _lz4(prefix, stored, plain_len):
    out = bytearray(prefix[-65535:])
    start, at, end = len(out), 0, len(stored)
    try:
        while at < end:
            token = stored[at]
            at += 1
            length = token >> 4
            if length == 15:
                while True:
                    length += stored[at]
                    at += 1
                    if stored[at - 1] != 255:
                        break
            if at + length > end:
                raise DamagedError("lz4: literals beyond the end")
            out += stored[at:at + length]
            at += length
            if at == end:
                break
            distance = stored[at] | stored[at + 1] << 8
            at += 2
            length = token & 15
            if length == 15:
                while True:
                    length += stored[at]
                    at += 1
                    if stored[at - 1] != 255:
                        break
            length += 4
            if not 0 < distance <= len(out) or len(out) - start + length > plain_len:
                raise DamagedError("lz4: a match is out of range")
            place = len(out) - distance
            if distance >= length:
                out += out[place:place + length]
            else:
                out += (out[place:] * (length // distance + 1))[:length]
    except IndexError:
        raise DamagedError("lz4: the block ends within a sequence") from None
    return bytes(out[start:])


def _lzma(prefix, stored, plain_len):
    if not stored or stored[0] >= 225:
        raise DamagedError("lzma: its first byte is out of range")
    if plain_len == 0:
        return b""
    properties, body = stored[0], b"\0" + stored[1:]
    lc, lp, pb = properties % 9, properties // 9 % 5, properties // 45
    dictionary = max(len(prefix) + plain_len, 4096)
    if not prefix:
        filters = [{"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": dictionary}]
        return _raw(filters, body, plain_len)
    if len(body) <= 1 << 16 and plain_len <= 1 << 21 and lc + lp <= 4:
        # An LZMA2 stream can say the same: the prefix in uncompressed chunks, then this stream as one chunk.
        chunks, control = bytearray(), 1
        for at in range(0, len(prefix), 1 << 16):
            part = prefix[at:at + (1 << 16)]
            chunks += bytes((control, *(len(part) - 1).to_bytes(2, "big"))) + part
            control = 2
        head = 0xC0 | (plain_len - 1) >> 16, *(plain_len - 1 & 0xFFFF).to_bytes(2, "big"), \
            *(len(body) - 1).to_bytes(2, "big"), properties
        chunks += bytes(head) + body + b"\0"
        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": dictionary}]
        return _raw(filters, bytes(chunks), len(prefix) + plain_len)[len(prefix):]
    return _python_lzma(prefix, stored[1:], plain_len, lc, lp, pb)


def _raw(filters, body, plain_len):
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
        parts, left, data = [], plain_len, body
        while left:
            part = decompressor.decompress(data, left)
            if not part and (decompressor.eof or decompressor.needs_input):
                break
            parts.append(part)
            left -= len(part)
            data = b""
        return b"".join(parts)
    except (lzma.LZMAError, ValueError, EOFError) as error:
        raise DamagedError(f"lzma: {error}") from None


def _python_lzma(prefix, body, plain_len, lc, lp, pb):
    """LZMA1 after a preset dictionary, in Python: the library has no way to be given one."""
    if len(body) < 4:
        raise DamagedError("lzma: the stream is truncated")
    out = bytearray(prefix)
    end = len(prefix) + plain_len
    code, span, at = int.from_bytes(body[:4], "big"), 0xFFFFFFFF, 4
    size = len(body)

    def bit(table, index):
        nonlocal code, span, at
        chance = table[index]
        bound = (span >> 11) * chance
        if code < bound:
            span = bound
            table[index] = chance + (2048 - chance >> 5)
            value = 0
        else:
            span -= bound
            code -= bound
            table[index] = chance - (chance >> 5)
            value = 1
        if span < 1 << 24:
            if at >= size:
                raise DamagedError("lzma: the stream is truncated")
            span <<= 8
            code = code << 8 | body[at]
            at += 1
        return value

    def tree(table, bits, base=0):
        index = 1
        for _ in range(bits):
            index = index << 1 | bit(table, base + index)
        return index - (1 << bits)

    def reverse_tree(table, base, bits):
        index, value = 1, 0
        for place in range(bits):
            one = bit(table, base + index)
            index = index << 1 | one
            value |= one << place
        return value

    def direct(bits):
        nonlocal code, span, at
        value = 0
        for _ in range(bits):
            span >>= 1
            one = code >= span
            if one:
                code -= span
            value = value << 1 | one
            if span < 1 << 24:
                if at >= size:
                    raise DamagedError("lzma: the stream is truncated")
                span <<= 8
                code = code << 8 | body[at]
                at += 1
        return value

    def fresh(count):
        return [1024] * count

    class Lengths:
        def __init__(self):
            self.choice, self.high = fresh(2), fresh(256)
            self.low = [fresh(8) for _ in range(16)]
            self.mid = [fresh(8) for _ in range(16)]

        def read(self, place):
            if not bit(self.choice, 0):
                return tree(self.low[place], 3)
            if not bit(self.choice, 1):
                return 8 + tree(self.mid[place], 3)
            return 16 + tree(self.high, 8)

    literals = fresh(0x300 << lc + lp)
    is_match, is_rep0_long = fresh(192), fresh(192)
    is_rep, is_rep0, is_rep1, is_rep2 = fresh(12), fresh(12), fresh(12), fresh(12)
    slots = [fresh(64) for _ in range(4)]
    special, align = fresh(128), fresh(16)
    match_lengths, rep_lengths = Lengths(), Lengths()
    state, reps = 0, [0, 0, 0, 0]
    while len(out) < end:
        # Positions count the preset dictionary too.
        position = len(out)
        place = position & (1 << pb) - 1
        if not bit(is_match, state * 16 + place):
            before = out[-1] if out else 0
            base = 0x300 * (((position & (1 << lp) - 1) << lc) + (before >> 8 - lc))
            symbol = 1
            if state >= 7:
                if reps[0] >= len(out):
                    raise DamagedError("lzma: a distance is out of range")
                guess = out[-reps[0] - 1]
                while symbol < 0x100:
                    guess_bit = guess >> 7 & 1
                    guess = guess << 1 & 0xFF
                    one = bit(literals, base + (1 + guess_bit << 8) + symbol)
                    symbol = symbol << 1 | one
                    if guess_bit != one:
                        break
            while symbol < 0x100:
                symbol = symbol << 1 | bit(literals, base + symbol)
            out.append(symbol & 0xFF)
            state = 0 if state < 4 else state - 3 if state < 10 else state - 6
            continue
        if bit(is_rep, state):
            if not bit(is_rep0, state):
                if not bit(is_rep0_long, state * 16 + place):
                    state = 9 if state < 7 else 11
                    if reps[0] >= len(out):
                        raise DamagedError("lzma: a distance is out of range")
                    out.append(out[-reps[0] - 1])
                    continue
            else:
                if not bit(is_rep1, state):
                    chosen = 1
                else:
                    chosen = 2 + bit(is_rep2, state)
                reps.insert(0, reps.pop(chosen))
            length = rep_lengths.read(place) + 2
            state = 8 if state < 7 else 11
        else:
            length = match_lengths.read(place) + 2
            state = 7 if state < 7 else 10
            slot = tree(slots[min(length - 2, 3)], 6)
            distance = slot
            if slot >= 4:
                bits = (slot >> 1) - 1
                distance = (2 | slot & 1) << bits
                if slot < 14:
                    distance += reverse_tree(special, distance - slot, bits)
                else:
                    distance += direct(bits - 4) << 4
                    distance += reverse_tree(align, 0, 4)
            reps = [distance, *reps[:3]]
        if reps[0] >= len(out) or len(out) + length > end:
            raise DamagedError("lzma: a match is out of range")
        start, gap = len(out) - reps[0] - 1, reps[0] + 1
        if gap >= length:
            out += out[start:start + length]
        else:
            out += (out[start:] * (length // gap + 1))[:length]
    return bytes(out[len(prefix):])


def _brotli(prefix, stored, plain_len):
    if prefix or stored and stored[0] & 0x7F == 0x11:
        raise UnsupportedError("no Python package decodes this frame: brotli with references or a large window")
    try:
        import brotli
    except ImportError:
        raise UnsupportedError("this frame is brotli: pip install brotli") from None
    try:
        return brotli.decompress(stored)
    except brotli.error as error:
        raise DamagedError(f"brotli: {error}") from None


_DECODERS = {0: _stored, 1: _zstd, 2: _lz4, 3: _lzma, 4: _brotli}
