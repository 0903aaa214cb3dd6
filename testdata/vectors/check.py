#!/usr/bin/env python3
"""Checks the test vectors in this folder against docs/format.md, with the standard library only.

It shares no code with ShaleFS: every step below is the specification written down again. It has
no decoders for zstd, LZ4 and brotli. Sums and hashes are checked where the packages xxhash and
blake3 are installed.

usage: check.py
"""

import importlib.util
import lzma
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).parent
MASK = (1 << 64) - 1
COUNTS = {}


# Vector files: `key = value` lines, cases apart by blank lines, `#` begins a comment line.


def tokens(text):
    """Values of a line: numbers and hex as they are, quoted strings as bytes."""
    found = []
    for quoted, word in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', text):
        if word:
            found.append(word)
        else:
            found.append(quoted.encode("latin-1").decode("unicode_escape").encode("latin-1"))
    return found


def cases(name):
    case = {}
    for line in (FOLDER / name).read_text().splitlines() + [""]:
        if line.startswith("#"):
            continue
        if line:
            key, value = line.split(" = ", 1)
            case.setdefault(key, []).append(tokens(value))
        elif case:
            COUNTS[name] = COUNTS.get(name, 0) + 1
            yield case
            case = {}


def one(case, key):
    return case[key][0][0]


def data(case, key):
    value = case[key][0][0]
    return value if isinstance(value, bytes) else bytes.fromhex(value)


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {found}, expected {expected}")


def pattern(length):
    """Byte i is the low byte of 7 i + i div 256."""
    return bytes((7 * i + i // 256) & 0xFF for i in range(length))


# Pages (chapter 6).


class Input:
    def __init__(self, page):
        self.page, self.at = page, 0

    def take(self, length):
        if self.at + length > len(self.page):
            raise ValueError("the page ends early")
        self.at += length
        return self.page[self.at - length : self.at]

    def byte(self):
        return self.take(1)[0]

    def varint(self):
        value = 0
        for place in range(10):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        if byte >= 0x80 or value > MASK:
            raise ValueError("the varint is beyond 64 bits")
        return value


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


def packed(packed_bytes, count, width):
    bits = int.from_bytes(packed_bytes, "little")
    return [bits >> i * width & (1 << width) - 1 for i in range(count)]


def integers(page, n, tier):
    tag = page.byte()
    lowest = {0x12: 1, 0x13: 2, 0x14: 2, 0x15: 3, 0x16: 3}.get(tag, 0)
    if tier < lowest:
        raise ValueError("the tag may not be used in this tier")
    if tag >= 0x80:
        return [tag - 0x80] * n
    if 1 <= tag <= 8:
        return [int.from_bytes(page.take(tag), "little")] * n
    if tag == 0x10:
        base, step = page.varint(), unzigzag(page.varint())
        return [base + i * step & MASK for i in range(n)]
    if tag == 0x11:
        low, scale, width = page.varint(), page.varint(), page.byte()
        codes = packed(page.take((n * width + 7) // 8), n, width)
        return [low + scale * code & MASK for code in codes]
    if tag == 0x12:
        m = (n + 63) // 64
        mins, ends = integers(page, m, 0), integers(page, m, 0)
        values = []
        for k in range(m):
            count, width = min(64, n - 64 * k), ends[k] - (ends[k - 1] if k else 0)
            codes = packed(page.take((count * width + 7) // 8), count, width)
            values += [mins[k] + code & MASK for code in codes]
        return values
    if tag == 0x13:
        count = page.varint()
        starts, bases = integers(page, count, 0), integers(page, count, tier - 1)
        steps = integers(page, count, 1)
        values = []
        for k in range(count):
            end = starts[k + 1] if k + 1 < count else n
            values += [bases[k] + steps[k] * i & MASK for i in range(end - starts[k])]
        return values
    if tag == 0x14:
        count = page.varint()
        values, codes = integers(page, count, 0), integers(page, n, tier - 1)
        return [values[code] for code in codes]
    if tag in (0x15, 0x16):
        checkpoints, deltas = integers(page, (n + 63) // 64, 1), integers(page, n, tier - 1)
        values = []
        for i in range(n):
            delta = deltas[i] if tag == 0x15 else unzigzag(deltas[i])
            values.append(values[-1] + delta & MASK if i % 64 else checkpoints[i // 64])
        return values
    raise ValueError(f"unknown tag {tag:#x}")


def pieces(page, n):
    ends = integers(page, n, 3)
    joined = page.take(page.varint())
    return [joined[ends[i - 1] if i else 0 : ends[i]] for i in range(n)]


def strings(page, n, nested=False):
    tag = page.byte()
    if nested and tag > 0x22:
        raise ValueError("the tag may not be nested")
    if tag == 0x20:
        return [page.take(page.varint())] * n
    if tag == 0x21:
        return pieces(page, n)
    if tag == 0x22:
        interval, shared = page.byte(), integers(page, n, 1)
        values = []
        for i, rest in enumerate(pieces(page, n)):
            values.append((values[-1][: shared[i]] if i % interval else b"") + rest)
        return values
    if tag == 0x23:
        count = page.varint()
        values = strings(page, count, True)
        return [values[code] for code in integers(page, n, 4)]
    if tag == 0x24:
        count = page.varint()
        prefixes, suffixes = strings(page, count, True), strings(page, count, True)
        forms = integers(page, count, 0)
        codes, numbers = integers(page, n, 4), integers(page, n, 4)
        return [prefixes[c] + digits(forms[c], x) + suffixes[c] for c, x in zip(codes, numbers)]
    raise ValueError(f"unknown tag {tag:#x}")


def digits(form, x):
    if form == 0:
        return b""
    if form <= 18:
        return b"%0*d" % (form, x)
    text = b""
    if form <= 36:
        for j in range(form - 18, 0, -1):
            r = (10**j - 1) // 9
            text += b"%d" % (x // r)
            x %= r
            if x == 0:
                return text
            x -= 1
        raise ValueError("no digits have this number")
    for place in range(form - 37, -1, -1):
        digit = x // 11**place % 11
        text += b"%d" % (digit - 1) if digit else b""
    return text


def read_page(page, kinds):
    page = Input(page)
    expect("page version", page.byte(), 1)
    expect("column count", page.byte(), len(kinds))
    n = page.varint()
    columns = [integers(page, n, 4) if kind == "integers" else strings(page, n) for kind in kinds]
    expect("end of the page", page.at, len(page.page))
    return columns


# Filters (chapter 9). `sign` is 1 for the writer's direction and -1 for the reader's.


def x86(plain, sign):
    code, r = bytearray(plain), 1 << 24
    places = range(len(code) - 4)
    for p in places if sign > 0 else reversed(places):
        if code[p] in (0xE8, 0xE9):
            d = int.from_bytes(code[p + 1 : p + 5], "little")
            if (d + r) % 2**32 < 2 * r:
                d = ((d + r + sign * p) % (2 * r) - r) % 2**32
                code[p + 1 : p + 5] = d.to_bytes(4, "little")
    return bytes(code)


def words(plain, change):
    code = bytearray(plain)
    for i in range(len(code) // 4):
        word = int.from_bytes(code[4 * i : 4 * i + 4], "little")
        code[4 * i : 4 * i + 4] = change(i, word).to_bytes(4, "little")
    return bytes(code)


def arm64(plain, sign):
    def change(i, word):
        if word >> 26 == 0x94000000 >> 26:
            return word & ~0x3FFFFFF | word + sign * i & 0x3FFFFFF
        if word & 0x9F000000 == 0x90000000:
            d, r = word >> 29 & 3 | (word >> 5 & 0x7FFFF) << 2, 1 << 17
            if (d + r) % 2**21 < 2 * r:
                d = (((d + r) % 2**21 + sign * (i >> 10)) % (2 * r) - r) % 2**21
                return word & 0x9F00001F | (d & 3) << 29 | d >> 2 << 5
        return word

    return words(plain, change)


def arm(plain, sign):
    def change(i, word):
        if word >> 24 != 0xEB:
            return word
        return 0xEB000000 | word + sign * i & 0xFFFFFF

    return words(plain, change)


def undo_lines(form):
    form = Input(form)
    line_count = form.varint()
    text = form.take(form.varint())
    templates = [line.split(b"\0") for line in text.split(b"\n")[:-1]]
    slot_counts = [len(template) - 1 for template in templates]
    order = []
    for _ in range(line_count):
        number = form.varint()
        order.append(number - 1 if number else len(set(order)))
    modes = [list(form.take(count)) for count in slot_counts]
    columns = {}
    for place in range(max(slot_counts, default=0)):
        for template, count in enumerate(slot_counts):
            if place < count:
                column = columns[template, place] = []
                for _ in range(order.count(template)):
                    code = form.varint()
                    column.append((code, form.take(form.varint()) if code == 1 else None))
    expect("end of the lines form", form.at, len(form.page))
    of_slot, of_place, plain = {}, {}, []
    for template in order:
        line = templates[template][0]
        for place, piece in enumerate(templates[template][1:]):
            code, value = columns[template, place].pop(0)
            mode = modes[template][place]
            known = of_place.get(place) if mode & 1 else of_slot.get((template, place))
            if code == 0:
                value = known
            elif code > 1:
                step = -code // 2 if code % 2 == 0 else (code - 1) // 2
                value = b"%0*d" % (1 if mode & 2 else len(known), int(known) + step)
            of_slot[template, place] = of_place[place] = value
            line += value + piece
        plain.append(line)
    return b"\n".join(plain)


def undo_array(stored):
    (width, count, ways), form = stored[:3], stored[3:]
    record, plain = width * count, bytearray(stored[3:])
    whole = len(form) // record * record if ways >> 4 == 1 else len(form) // record // 8 * 8 * record
    n = whole // record
    for at in range(whole if ways >> 4 else 0):
        j, p = at // record, at % record
        if ways >> 4 == 1:
            plain[at] = form[p * n + j]
        else:
            bits = [form[(p * 8 + b) * (n // 8) + j // 8] >> j % 8 & 1 for b in range(8)]
            plain[at] = sum(bit << b for b, bit in enumerate(bits))
    if ways & 15 == 3:
        for at in range(record, len(plain)):
            plain[at] ^= plain[at - record]
    elif ways & 15:
        order = {1: "little", 2: "big"}[ways & 15]
        for at in range(record, len(plain) - width + 1, width):
            pair = [int.from_bytes(plain[i : i + width], order) for i in (at, at - record)]
            plain[at : at + width] = (sum(pair) % 256**width).to_bytes(width, order)
    return bytes(plain)


class Bits:
    def __init__(self, payload):
        self.number, self.left = int.from_bytes(payload, "little"), 8 * len(payload)

    def take(self, count):
        value = self.number & (1 << count) - 1
        self.number, self.left = self.number >> count, self.left - count
        assert self.left >= 0
        return value

    def golomb(self, k):
        zeroes = 0
        while not self.take(1):
            zeroes += 1
        return (2**zeroes - 1) * 2**k + self.take(k + zeroes)


def signed(u):
    return u // 2 if u % 2 == 0 else -(u + 1) // 2


def token_table(bits):
    frequencies = []
    for _ in range(bits.take(8) + 1):
        before = frequencies[-1] if frequencies else 0
        frequencies.append(before + signed(bits.golomb(before.bit_length() // 2)))
    states, at = [None] * 2048, 0
    for token, frequency in enumerate(frequencies):
        for _ in range(frequency):
            states[at] = token
            at = (at + 1283) % 2048
    for at, token in enumerate(states):
        states[at] = (token, frequencies[token])
        frequencies[token] += 1
    return states


def undo_samples(stored):
    width, channels, ways, log = stored[:4]
    at, numbers = 4, []
    for _ in range(4):
        number, shift = 0, 0
        while True:
            number |= (stored[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if stored[at - 1] < 128:
                break
        numbers.append(number)
    head, groups, row_len, payload_len = numbers
    bits, rest = Bits(stored[at : at + payload_len]), stored[at + payload_len :]
    unused = [bits.take(6) for _ in range(channels)]
    tables = []
    for _ in range(bits.take(5) + 1):
        end = bits.take(7)
        table = token_table(bits)
        tables += [table] * (end + 1 - len(tables))
    states = [bits.take(11) for _ in range(4)]
    y = [[] for _ in range(channels)]
    energies, predictors = [0] * channels, [([], 0, 0)] * channels
    for start in range(0, groups, 2**log):
        for c in range(channels):
            if bits.take(1):
                own, other, q = bits.take(6), *((bits.take(5), bits.take(4)) if c else (0, 0))
                row = max(0, 2 * bits.take(3) - 1) if row_len else 0
                shift, k = bits.take(4), bits.take(4)
                terms = [(c, 1 + i) for i in range(own)] + [(q, i) for i in range(other)]
                terms += [(c, row_len + row // 2 - i) for i in range(row)]
                terms = [(*term, signed(bits.golomb(k))) for term in terms]
                predictors[c] = terms, signed(bits.take(bits.take(6))), shift
            terms, bias, shift = predictors[c]
            for first in range(start, min(groups, start + 2**log), 8):
                e, total = energies[c], 0
                x = e if e < 2 else 2 * (e.bit_length() - 1) + (e >> e.bit_length() - 2 & 1)
                m = max(0, x // 2 - 6)
                for n in range(first, min(groups, start + 2**log, first + 8)):
                    token, w = tables[x][states[n % 8 % 4]]
                    g = 12 - w.bit_length()
                    states[n % 8 % 4] = w * 2**g - 2048 + bits.take(g)
                    o = 0 if token < 16 else token // 4 - 2
                    v = token if token < 16 else (4 + token % 4) * 2**o
                    u = v * 2**m + bits.take(o + m)
                    total += (u + 1) // 2
                    p = bias + sum(f * y[d][n - lag] for d, lag, f in terms if lag <= n)
                    p = ((p + 2**63) % 2**64 - 2**63) >> shift
                    half = 2 ** (8 * width - unused[c] - 1)
                    y[c].append((p + signed(u) + half) % (2 * half) - half)
                energies[c] = min(e - e // 4 + total, 2**64 - 1)
    assert states == [0] * 4 and bits.number == 0 and bits.left < 8
    plain, least = bytearray(rest[:head]), -(2 ** (8 * width - 1))
    for n in range(groups):
        for c in range(channels):
            x = y[c][n] << unused[c]
            x = {0: x, 1: x - least, 2: least - x if least < x < 0 else x}[ways >> 1]
            plain += (x % 256**width).to_bytes(width, ("little", "big")[ways & 1])
    return bytes(plain) + rest[head:]


# Parity (appendix C).

CANTOR = [
    *(0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012),
    *(0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E),
]


def multiply(a, b):
    """Product in GF(2)[x] modulo 1002Dh."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = a << 1, b >> 1
        a ^= 0x1002D if a >> 16 else 0
    return product


def invert(a):
    inverse, power = 1, 2**16 - 2
    while power:
        inverse = multiply(inverse, a) if power & 1 else inverse
        a, power = multiply(a, a), power >> 1
    return inverse


def element(coordinates):
    """The field element with these coordinates in the Cantor basis."""
    value = 0
    for i in range(16):
        value ^= CANTOR[i] if coordinates >> i & 1 else 0
    return value


def coordinates_table():
    table = {0: 0}
    for i in range(16):
        table.update({value ^ CANTOR[i]: c | 1 << i for value, c in list(table.items())})
    return table


def symbols(shard):
    found = []
    for start in range(0, len(shard), 64):
        piece = shard[start : start + 64]
        half = len(piece) // 2
        found += [piece[i] | piece[half + i] << 8 for i in range(half)]
    return found


def shard_of(found):
    shard = b""
    for start in range(0, len(found), 32):
        piece = found[start : start + 32]
        shard += bytes(s & 0xFF for s in piece) + bytes(s >> 8 for s in piece)
    return shard


def parity(shards, parity_count):
    m = 1
    while m < parity_count:
        m *= 2
    coordinates = coordinates_table()
    length = len(shards[0]) // 2
    made = [[0] * length for _ in range(parity_count)]
    columns = [[element(symbol) for symbol in symbols(shard)] for shard in shards]
    for k in range(0, (len(shards) + m - 1) // m):
        points = [element((k + 1) * m + i) for i in range(m)]
        for i, column in enumerate(columns[k * m : (k + 1) * m]):
            # The polynomial that is 1 at point i of the block and 0 at the others.
            below = 1
            for other in points[:i] + points[i + 1 :]:
                below = multiply(below, points[i] ^ other)
            for j in range(parity_count):
                factor = invert(below)
                for other in points[:i] + points[i + 1 :]:
                    factor = multiply(factor, element(j) ^ other)
                for at in range(length):
                    made[j][at] ^= multiply(factor, column[at])
    return [shard_of([coordinates[value] for value in row]) for row in made]


def main():
    for case in cases("pages.txt"):
        columns = read_page(data(case, "page"), case["kinds"][0])
        for column, expected in zip(columns, case["column"], strict=True):
            column = column if isinstance(column[0], bytes) else [str(value) for value in column]
            expect(f"page {one(case, 'name')}", column, expected)
    for case in cases("numbers.txt"):
        form = int(one(case, "form"))
        for text, number in zip(case["digits"][0], case["numbers"][0], strict=True):
            expect(f"number {number} in form {form}", digits(form, int(number)), text)
    filters = {"bcj-x86": x86, "bcj-arm64": arm64, "bcj-arm": arm}
    for case in cases("filters.txt"):
        name = one(case, "filter")
        plain, filtered = data(case, "plain"), data(case, "filtered")
        expect(f"{name} applied", filters[name](plain, 1).hex(), filtered.hex())
        expect(f"{name} reversed", filters[name](filtered, -1).hex(), plain.hex())
    for case in cases("lines.txt"):
        expect("lines", undo_lines(data(case, "form")), b"".join(line[0] for line in case["plain"]))
    for case in cases("arrays.txt"):
        expect(one(case, "name"), undo_array(data(case, "stored")).hex(), data(case, "plain").hex())
    for case in cases("samples.txt"):
        expect(one(case, "name"), undo_samples(data(case, "stored")).hex(), data(case, "plain").hex())
    for case in cases("parity.txt"):
        shards = [bytes.fromhex(row[0]) for row in case["data"]]
        made = parity(shards, len(case["parity"]))
        expect("parity", [shard.hex() for shard in made], [row[0] for row in case["parity"]])
    for case in cases("codecs.txt"):
        if one(case, "codec") == "lzma" and not data(case, "prefix"):
            check_lzma(data(case, "stored"), data(case, "plain"))
        elif one(case, "codec") == "stored":
            expect("stored bytes", data(case, "stored"), data(case, "plain"))
    check_sums()
    for name, count in COUNTS.items():
        print(f"{name}: {count} cases agree")


def check_lzma(stored, plain):
    first = stored[0]
    options = {"lc": first % 9, "lp": first // 9 % 5, "pb": first // 45, "dict_size": 4096}
    decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA1, **options}])
    expect("LZMA", decoder.decompress(b"\0" + stored[1:], len(plain)), plain)


def check_sums():
    if not all(importlib.util.find_spec(name) for name in ("blake3", "xxhash")):
        print("sums.txt, identity.txt: not checked, as xxhash and blake3 are not installed")
        return
    import blake3
    import xxhash

    for case in cases("sums.txt"):
        plain = data(case, "input") if "input" in case else pattern(int(one(case, "pattern")))
        expect("XXH3-64", f"{xxhash.xxh3_64_intdigest(plain):016x}", one(case, "xxh3_64"))
        expect("BLAKE3", blake3.blake3(plain).hexdigest(), one(case, "blake3"))
    for case in cases("identity.txt"):
        covered = pattern(int(one(case, "pattern")))
        level = [blake3.blake3(covered[i : i + 65536]).digest() for i in range(0, len(covered), 65536)]
        hashes = list(level)
        while len(level) > 1:
            nodes = [b"".join(level[i : i + 256]) for i in range(0, len(level), 256)]
            level = [blake3.blake3(node).digest() for node in nodes]
            hashes += level
        expect("hashes", len(hashes), int(one(case, "hash_count")))
        expect("hash of all hashes", blake3.blake3(b"".join(hashes)).hexdigest(), one(case, "hashes_blake3"))
        expect("tree root", level[0].hex(), data(case, "head")[32:].hex())
        context = "ShaleFS image identity 1"
        key = blake3.blake3(data(case, "head"), derive_key_context=context).hexdigest()
        expect("identity", key, one(case, "identity"))


main()
