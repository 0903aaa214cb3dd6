"""Models of encoders: plain bytes to the deflate stream that zlib, GNU gzip or Chromium's zlib made of them.

This is chapter 9.3 of the specification, word by word, and slow: some 100 KB of plain bytes a second. Nothing here is
tuned, so that it can be compared with the text.
"""

from ..errors import DamagedError, UnsupportedError

_ZLIB, _GZIP, _CHROMIUM = 1, 2, 3
_FILTERED, _HUFFMAN_ONLY, _RUNS, _FIXED = 1, 2, 3, 4
# good, lazy, nice, chain, by level
_EFFORTS = (
    None, (4, 4, 8, 4), (4, 5, 16, 8), (4, 6, 32, 32), (4, 4, 16, 16), (8, 16, 32, 32), (8, 16, 128, 128),
    (8, 32, 128, 256), (32, 128, 258, 1024), (32, 258, 258, 4096),
)
_MATCH_MAX, _MARGIN = 258, 262
_PROBES_MAX = 33_554_432
_END_OF_BLOCK = 256
_LENGTH_EXTRA = (0,) * 8 + (1,) * 4 + (2,) * 4 + (3,) * 4 + (4,) * 4 + (5,) * 4 + (0,)
_DISTANCE_EXTRA = (0, 0, 0, 0) + tuple(n for n in range(1, 14) for _ in range(2))
_CODE_EXTRA = (0,) * 16 + (2, 3, 7)
_CODE_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
_FIXED_LENS = (8,) * 144 + (9,) * 112 + (7,) * 24 + (8,) * 8


def _bases(first, extra):
    bases = []
    for bits in extra:
        bases.append(first)
        first += 1 << bits
    return bases


_LENGTH_BASE = _bases(3, _LENGTH_EXTRA[:-1]) + [258]
_DISTANCE_BASE = _bases(1, _DISTANCE_EXTRA)


def _symbol(bases, value):
    at = len(bases) - 1
    while bases[at] > value:
        at -= 1
    return at


_LENGTH_SYMBOL = [0, 0, 0] + [_symbol(_LENGTH_BASE, n) for n in range(3, 259)]


class Model:
    """An encoder and its settings, by number."""

    def __init__(self, number):
        self.encoder, self.level = number & 255, number >> 8 & 15
        self.memory, self.window_bits, self.strategy = number >> 12 & 15, number >> 16 & 15, number >> 20
        right = (self.encoder in (_ZLIB, _GZIP, _CHROMIUM) and 1 <= self.level <= 9 and 1 <= self.memory <= 9
                 and 9 <= self.window_bits <= 15 and self.strategy <= 4
                 and (self.encoder != _GZIP or (self.memory, self.window_bits, self.strategy) == (8, 15, 0)))
        if not right:
            raise UnsupportedError(f"the encoder model {number:#x} is unknown: the image needs a newer reader")
        self.is_fast = self.level <= 3
        self.window_needed = 65536 if self.is_fast else 32768


class _Bits:
    """Bits, lowest first."""

    def __init__(self, bits, count):
        self.out, self.held, self.count = bytearray(), bits, count

    def put(self, value, count):
        self.held |= value << self.count
        self.count += count
        while self.count >= 8:
            self.out.append(self.held & 255)
            self.held >>= 8
            self.count -= 8

    def align(self):
        if self.count:
            self.put(0, 8 - self.count)


class _Code:
    """A code for symbols that occur as often as `counts` says, and the bits that they take."""

    def __init__(self, counts, len_max, extra):
        counts, forced = list(counts), set()
        while sum(1 for count in counts if count) < 2:
            last = max((symbol for symbol, count in enumerate(counts) if count), default=None)
            symbol = last + 1 if last in (0, 1) else 0
            counts[symbol] = 1
            forced.add(symbol)
        self.last = max(symbol for symbol, count in enumerate(counts) if count)
        self.lens = self._lens(counts, len_max)
        self.codes = canonical(self.lens)
        real = [s for s in range(len(counts)) if counts[s] and s not in forced]
        self.cost = sum(counts[s] * (self.lens[s] + extra(s)) for s in real)

    def _lens(self, counts, len_max):
        symbols = [symbol for symbol, count in enumerate(counts) if count]
        weights, heights = dict((s, counts[s]) for s in symbols), dict((s, 0) for s in symbols)
        heap = [None] + symbols

        def before(a, b):
            return (weights[a], heights[a]) <= (weights[b], heights[b])

        def move_down(at):
            node = heap[at]
            while 2 * at < len(heap):
                child = 2 * at
                if child + 1 < len(heap) and before(heap[child + 1], heap[child]):
                    child += 1
                if before(node, heap[child]):
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = node

        for at in range((len(heap) - 1) // 2, 0, -1):
            move_down(at)
        parents, taken, node = {}, [], len(counts)
        while len(heap) > 2:
            first, last = heap[1], heap.pop()
            if len(heap) > 1:
                heap[1] = last
                move_down(1)
            second = heap[1]
            taken += [first, second]
            weights[node] = weights[first] + weights[second]
            heights[node] = max(heights[first], heights[second]) + 1
            parents[first] = parents[second] = node
            heap[1] = node
            move_down(1)
            node += 1
        depths, too_long = {heap[1]: 0}, 0
        for child in reversed(taken):
            depths[child] = depths[parents[child]] + 1
            too_long += depths[child] > len_max
        lens = [0] * len(counts)
        if not too_long:
            for symbol in symbols:
                lens[symbol] = depths[symbol]
            return lens
        of_len = [0] * (len_max + 1)
        for symbol in symbols:
            of_len[min(depths[symbol], len_max)] += 1
        for _ in range(too_long // 2):
            length = len_max - 1
            while of_len[length] == 0:
                length -= 1
            of_len[length] -= 1
            of_len[length + 1] += 2
            of_len[len_max] -= 1
        rarest_first = iter([child for child in taken if child < len(counts)])
        for length in range(len_max, 0, -1):
            for _ in range(of_len[length]):
                lens[next(rarest_first)] = length
        return lens

    def put(self, bits, symbol):
        bits.put(self.codes[symbol], self.lens[symbol])


class _FixedCode:
    def __init__(self, lens):
        self.lens, self.codes = lens, canonical(lens)

    put = _Code.put


def canonical(lens):
    """Codes from lengths as in RFC 1951, with their first bit lowest."""
    codes, code = [0] * len(lens), 0
    for length in range(1, 16):
        code <<= 1
        for symbol, own in enumerate(lens):
            if own == length:
                codes[symbol] = int(format(code, f"0{length}b")[::-1], 2)
                code += 1
    return codes


_FIXED_LITERALS = _FixedCode(_FIXED_LENS)
_FIXED_DISTANCES = _FixedCode((5,) * 30)


def _runs_of_lens(lens):
    """Symbols, extra bits and how many, for lengths of codes."""
    at, before = 0, None
    while at < len(lens):
        length, is_new = lens[at], lens[at] != before
        most = 138 if length == 0 else 7 if is_new else 6
        n = 1
        while n < most and at + n < len(lens) and lens[at + n] == length:
            n += 1
        if n < (4 if is_new and length else 3):
            yield from [(length, 0, 0)] * n
        elif length == 0:
            yield (17, n - 3, 3) if n <= 10 else (18, n - 11, 7)
        else:
            if is_new:
                yield length, 0, 0
            yield 16, n - (4 if is_new else 3), 2
        at, before = at + n, length


class _Encoder:
    """Rebuilds one chunk. Positions are offsets in `data`, which begins at `base` of the stream."""

    def __init__(self, model, data, base, start, end, carried):
        self.model, self.data, self.base, self.start, self.end = model, data, base, start, end
        self.good, self.lazy_len, self.nice, self.chain = _EFFORTS[model.level]
        self.window = 1 << model.window_bits
        self.farthest = self.window - _MARGIN
        self.front, self.next = {}, {}
        self.hash_bits = model.memory + 7 if model.encoder != _CHROMIUM else max(15, model.memory + 7)
        self.full = (1 << 15 if model.encoder == _GZIP else 1 << model.memory + 6) - 1
        self.probes = 0
        self.bits = _Bits(carried & 255, carried >> 8 & 255)
        self.hand = carried >> 16 & 0xFFFF, carried >> 32
        self._begin(start)

    def _begin(self, start):
        self.block_start, self.tokens, self.matches, self.distance_bits = start, [], 0, 0

    def _kept_from(self, p):
        """K(p), as an offset in `data`."""
        moved = max(0, self.base + p - (2 * self.window - _MARGIN))
        return -(-moved // self.window) * self.window - self.base

    def _beyond(self, p, place):
        """The byte at `place` beyond the end when the encoder has come to `p`."""
        if self._kept_from(p) + self.base <= 0:
            return 0
        return self.data[place - self.window] if self.window <= place < len(self.data) + self.window else 0

    def insert(self, p):
        if p + 3 > len(self.data):
            return None
        a, b, c = self.data[p:p + 3]
        if self.model.encoder == _CHROMIUM:
            d = self.data[p + 3] if p + 3 < len(self.data) else self._beyond(p, p + 3)
            key = (((a | b << 8 | c << 16 | d << 24) * 66521 + 66521) % 2**32 >> 16) % (1 << self.hash_bits)
        else:
            s = -(-self.hash_bits // 3)
            key = (a << 2 * s ^ b << s ^ c) % (1 << self.hash_bits)
        before = self.front.get(key)
        self.next[p] = before
        self.front[key] = None if self.base + p == 0 else p
        return before

    def longest(self, p, first, n):
        """Length and position of the longest match at `p` that is longer than `n`, or `n` and None."""
        data, left = self.data, len(self.data) - p
        beyond = self.model.encoder == _GZIP and left < _MATCH_MAX
        most = _MATCH_MAX if beyond else min(_MATCH_MAX, left)
        if n >= most:
            return n, None
        enough = self.nice if beyond else min(self.nice, most)
        count = self.chain >> 2 if n >= self.good else self.chain
        best, where, candidate = n, None, first
        while True:
            length = 0
            if beyond:
                while length < most and self._zeroed(p, candidate + length) == self._zeroed(p, p + length):
                    length += 1
            elif data[candidate + best] == data[p + best]:
                while length < most and data[candidate + length] == data[p + length]:
                    length += 1
            self.probes += 1 + length // 16
            if length > best:
                best, where = length, candidate
                if length >= enough:
                    break
            candidate, count = self.next.get(candidate), count - 1
            if candidate is None or p - candidate >= self.farthest or count == 0:
                break
        if self.probes > _PROBES_MAX:
            raise DamagedError("a chunk needs too long a search")
        return min(best, left) if where is not None else n, where

    def _zeroed(self, p, place):
        """A byte as GNU gzip sees it: two zeroes after the end, then what was there before."""
        end = len(self.data)
        return self.data[place] if place < end else 0 if place < end + 2 else self._beyond(p, place)

    def near(self, p, first):
        return first is not None and p - first <= self.farthest

    def token(self, length, value, q):
        """Adds a match of a length and distance, or with length 0 a literal. Says whether the block is full."""
        self.tokens.append((length, value))
        if length:
            self.matches += 1
            self.distance_bits += 5 + _DISTANCE_EXTRA[_symbol(_DISTANCE_BASE, value)]
        n = len(self.tokens)
        if n == self.full:
            return True
        if self.model.encoder != _GZIP or self.model.level < 3 or n % 4096:
            return False
        return self.matches < n // 2 and (8 * n + self.distance_bits) // 8 < (q - self.block_start) // 2

    def run(self):
        if self.model.strategy == _HUFFMAN_ONLY:
            self._each(lambda p: (0, 0))
        elif self.model.strategy == _RUNS:
            self._each(self._run_at)
        elif self.model.is_fast:
            self._window_of_fast()
            self._each(self._fast_at)
        else:
            for p in range(max(0, self.start - self.window), self.start):
                self.insert(p)
            self._lazy()
        return bytes(self.bits.out)

    def _each(self, match_at):
        """Takes at each position what `match_at` finds: the length and distance of a match, or zeroes."""
        p = self.start
        while p < len(self.data):
            length, distance = match_at(p)
            full = self.token(length, distance if length else self.data[p], p)
            top, p = p, p + (length or 1)
            if full and self._end_block(p, top):
                return
        self._last_block()

    def _run_at(self, p):
        length = 0
        while p and p + length < len(self.data) and length < _MATCH_MAX and self.data[p + length] == self.data[p - 1]:
            length += 1
        return (length, 1) if length >= 3 else (0, 0)

    def _fast_at(self, p, limit=None):
        first = self.insert(p)
        length, where = self.longest(p, first, 2) if self.near(p, first) else (2, None)
        if where is None:
            return 0, 0
        if length <= self.lazy_len:
            for skipped in range(p + 1, min(p + length, limit or p + length)):
                self.insert(skipped)
        return length, p - where

    def _window_of_fast(self):
        p = 0
        while p < self.start:
            p += self._fast_at(p, self.start)[0] or 1

    def _lazy(self):
        data, p, found, waits = self.data, self.start, (2, None), False
        if self.hand[0]:
            self.insert(p)
            found, p, waits = (self.hand[0], p - self.hand[1]), p + 1, True
        while p < len(data):
            first, before, found = self.insert(p), found, (2, None)
            if self.near(p, first) and before[0] < self.lazy_len:
                length, where = self.longest(p, first, before[0])
                poor = length <= 5 and (self.model.strategy == _FILTERED
                                        or (length == 3 and where is not None and p - where > 4096))
                if length > before[0] and not poor:
                    found = length, where
            if before[0] >= 3 and found[0] <= before[0]:
                q, full = p, self.token(before[0], p - 1 - before[1], p)
                for skipped in range(p + 1, p + before[0] - 1):
                    self.insert(skipped)
                p, found, waits = p + before[0] - 1, (2, None), False
                if full and self._end_block(p, q):
                    return
            else:
                if waits and self.token(0, data[p - 1], p) and self._end_block(p, p):
                    return
                p, waits = p + 1, True
        if waits:
            self.token(0, data[p - 1], p)
        self._last_block()

    def _last_block(self):
        if self.end is not None:
            raise DamagedError("a chunk does not end with a block")
        self._block(len(self.data), len(self.data), True)
        self.bits.align()

    def _end_block(self, p, q):
        """Ends the block at `p`, with K(q). Says whether the chunk ends too."""
        self._block(p, q, False)
        if self.end is not None and p > self.end:
            raise DamagedError("a chunk does not end with a block")
        return p == self.end

    def _block(self, p, q, is_last):
        literals, distances = [0] * 286, [0] * 30
        literals[_END_OF_BLOCK] = 1
        for length, value in self.tokens:
            if length:
                literals[257 + _LENGTH_SYMBOL[length]] += 1
                distances[_symbol(_DISTANCE_BASE, value)] += 1
            else:
                literals[value] += 1
        extra = lambda symbol: _LENGTH_EXTRA[symbol - 257] if symbol > 256 else 0  # noqa: E731
        codes = _Code(literals, 15, extra), _Code(distances, 15, lambda s: _DISTANCE_EXTRA[s])
        written = [run for code in codes for run in _runs_of_lens(code.lens[:code.last + 1])]
        counts = [0] * 19
        for symbol, _, _ in written:
            counts[symbol] += 1
        third = _Code(counts, 7, lambda symbol: _CODE_EXTRA[symbol])
        count = max([i + 1 for i, symbol in enumerate(_CODE_ORDER) if third.lens[symbol]] + [3])
        dynamic = codes[0].cost + codes[1].cost + third.cost + 14 + 3 * count
        fixed = sum(n * (_FIXED_LENS[s] + extra(s)) for s, n in enumerate(literals))
        fixed += sum(n * (5 + _DISTANCE_EXTRA[s]) for s, n in enumerate(distances))
        a, f = (dynamic + 10) // 8, (fixed + 10) // 8
        least = f if f <= a or self.model.strategy == _FIXED else a
        plain_len, bits = p - self.block_start, self.bits
        if plain_len <= 65535 and self.block_start >= self._kept_from(q) and plain_len + 4 <= least:
            bits.put(is_last, 3)
            bits.align()
            bits.put(plain_len | (plain_len ^ 0xFFFF) << 16, 32)
            bits.out += self.data[self.block_start:p]
        elif f == least:
            bits.put(2 | is_last, 3)
            self._put_tokens(_FIXED_LITERALS, _FIXED_DISTANCES)
        else:
            bits.put(4 | is_last, 3)
            bits.put(codes[0].last - 256, 5)
            bits.put(codes[1].last, 5)
            bits.put(count - 4, 4)
            for symbol in _CODE_ORDER[:count]:
                bits.put(third.lens[symbol], 3)
            for symbol, more, width in written:
                third.put(bits, symbol)
                bits.put(more, width)
            self._put_tokens(*codes)
        self._begin(p)

    def _put_tokens(self, literals, distances):
        bits = self.bits
        for length, value in self.tokens:
            if not length:
                literals.put(bits, value)
                continue
            symbol = _LENGTH_SYMBOL[length]
            literals.put(bits, 257 + symbol)
            bits.put(length - _LENGTH_BASE[symbol], _LENGTH_EXTRA[symbol])
            symbol = _symbol(_DISTANCE_BASE, value)
            distances.put(bits, symbol)
            bits.put(value - _DISTANCE_BASE[symbol], _DISTANCE_EXTRA[symbol])
        literals.put(bits, _END_OF_BLOCK)


def rebuild(model, carried, offset, window, plain, after):
    """The bytes of a chunk whose plain bytes begin at `offset` of the stream, from them and what lies around them."""
    hand_len, distance = carried >> 16 & 0xFFFF, carried >> 32 & 0xFFFF
    bits, count = carried & 255, carried >> 8 & 255
    right = (carried >> 48 == 0 and count < 8 and bits >> count == 0 and plain
             and (hand_len in (0, 2) and distance == 0 or 3 <= hand_len <= 258 and 1 <= distance <= len(window))
             and (offset or carried == 0))
    if not right:
        raise DamagedError("what a chunk carried over cannot be")
    data, start = window + plain + after, len(window)
    end = start + len(plain) if after else None
    return _Encoder(model, data, offset - start, start, end, carried).run()
