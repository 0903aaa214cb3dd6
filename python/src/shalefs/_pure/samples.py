"""The filter of samples, undone: residuals back to samples of sound and pictures (chapter 9.4 of the format)."""

from ..errors import DamagedError

_OWN_MAX, _OTHER_MAX = 32, 16


class _Bits:
    """The bits of a payload, the lowest bit of a byte first."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bits(self, count):
        first, last = self.at >> 3, self.at + count + 7 >> 3
        if last > len(self.data):
            raise DamagedError("samples: the payload is truncated")
        value = int.from_bytes(self.data[first:last], "little") >> (self.at & 7)
        self.at += count
        return value & (1 << count) - 1

    def golomb(self, order):
        zeroes = 0
        while not self.bits(1):
            zeroes += 1
        if zeroes > 32:
            raise DamagedError("samples: a number is too long")
        return ((1 << zeroes) - 1 << order) + self.bits(order + zeroes)


def _signed(value):
    return value >> 1 ^ -(value & 1)


def _varint(data, at):
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise DamagedError("samples: a number is truncated or too long")


def _table(bits):
    """For each state: the token's least value, its open bits, the bits of the next state and where they begin."""
    frequencies, before = [], 0
    for _ in range(bits.bits(8) + 1):
        before += _signed(bits.golomb(before.bit_length() // 2))
        if not 0 <= before <= 2048:
            raise DamagedError("samples: a frequency is out of range")
        frequencies.append(before)
    if sum(frequencies) != 2048:
        raise DamagedError("samples: the frequencies are damaged")
    tokens, state = [0] * 2048, 0
    for token, frequency in enumerate(frequencies):
        for _ in range(frequency):
            tokens[state] = token
            state = (state + 1283) % 2048
    numbers, table = list(frequencies), []
    for token in tokens:
        number, numbers[token] = numbers[token], numbers[token] + 1
        taken = 12 - number.bit_length()
        opened = 0 if token < 16 else token // 4 - 2
        least = token if token < 16 else 4 + token % 4 << opened
        table.append((least, opened, taken, (number << taken) - 2048))
    return table


def _predictor(bits, channel, row_len):
    own, other, source, row = bits.bits(6), 0, 0, 0
    if channel:
        other, source = bits.bits(5), bits.bits(4)
    if row_len:
        reach = bits.bits(3)
        row = max(0, 2 * reach - 1)
        if reach > row_len:
            raise DamagedError("samples: a predictor is not defined")
    if own > _OWN_MAX or other > _OTHER_MAX or channel and source >= channel:
        raise DamagedError("samples: a predictor is not defined")
    shift, order = bits.bits(4), bits.bits(4)
    factors = [_signed(bits.golomb(order)) for _ in range(own + other + row)]
    if not all(-32768 <= factor < 32768 for factor in factors):
        raise DamagedError("samples: a factor is out of range")
    bias = _signed(bits.bits(bits.bits(6)))
    return factors[:own], factors[own:own + other], source, factors[own + other:], shift, bias


def split(stored: bytes, plain_len: int):
    """Parts of the stored bytes: header, payload, the codec's bytes, and the lengths of head and samples."""
    if len(stored) < 4:
        raise DamagedError("samples: the header is truncated")
    width, channels, ways, block = stored[:4]
    head, at = _varint(stored, 4)
    groups, at = _varint(stored, at)
    row_len, at = _varint(stored, at)
    payload_len, at = _varint(stored, at)
    length = groups * channels * width
    if (width not in (1, 2, 3, 4, 8) or not 1 <= channels <= 16 or ways > 5 or not 8 <= block <= 16 or groups < 1
            or row_len > groups or head + length > plain_len or payload_len > len(stored) - at):
        raise DamagedError("samples: the header is not defined")
    header = width, channels, ways, 1 << block, groups, row_len
    return header, stored[at:at + payload_len], stored[at + payload_len:], head, length


def undo(header, payload: bytes) -> bytes:
    """The bytes of the samples."""
    width, channels, ways, block_len, groups, row_len = header
    bits = _Bits(payload)
    unused = [bits.bits(6) for _ in range(channels)]
    if max(unused) >= 8 * width:
        raise DamagedError("samples: more bits are unused than there are")
    of_context = []
    for _ in range(bits.bits(5) + 1):
        end = bits.bits(7) + 1
        if end <= len(of_context):
            raise DamagedError("samples: the tables are out of order")
        table = _table(bits)
        of_context += [table] * (end - len(of_context))
    if len(of_context) != 128:
        raise DamagedError("samples: a context has no table")
    states = [bits.bits(11) for _ in range(4)]
    energies, predictors = [0] * channels, [([], [], 0, [], 0, 0)] * channels
    samples = [[] for _ in range(channels)]
    for start in range(0, groups, block_len):
        length = min(block_len, groups - start)
        for channel in range(channels):
            if bits.bits(1):
                predictors[channel] = _predictor(bits, channel, row_len)
            predict = _prediction(predictors[channel], samples, channel, row_len)
            out, top = samples[channel], 1 << 8 * width - unused[channel] - 1
            for first in range(0, length, 8):
                energy = energies[channel]
                context = energy
                if energy > 1:
                    log = energy.bit_length() - 1
                    context = 2 * log + (energy >> log - 1 & 1)
                low, table, total = max(0, context // 2 - 6), of_context[context], 0
                for n in range(min(8, length - first)):
                    least, opened, taken, base = table[states[n & 3]]
                    states[n & 3] = base + bits.bits(taken)
                    if opened + low > 64 or least << low >> 64:
                        raise DamagedError("samples: a residual has too many bits")
                    value = (least << low) + bits.bits(opened + low)
                    total += value + 1 >> 1
                    out.append((predict(len(out)) + _signed(value) + top & 2 * top - 1) - top)
                energies[channel] = min(energy - energy // 4 + total, (1 << 64) - 1)
    left = len(payload) * 8 - bits.at
    if any(states) or left > 7 or bits.bits(left):
        raise DamagedError("samples: the residuals do not end where their bytes end")
    return _join(header, samples, unused)


def _prediction(predictor, samples, channel, row_len):
    """A function that gives the prediction of the sample at a place of a channel."""
    own, other, source, row, shift, bias = predictor
    mine, theirs, reach = samples[channel], samples[source], len(row) // 2
    lags = [(mine, n + 1, factor) for n, factor in enumerate(own)]
    lags += [(theirs, n, factor) for n, factor in enumerate(other)]
    lags += [(mine, row_len + reach - n, factor) for n, factor in enumerate(row)]

    def predict(at):
        total = bias
        for values, lag, factor in lags:
            if lag <= at:
                total += factor * values[at - lag]
        return (total + (1 << 63) & (1 << 64) - 1) - (1 << 63) >> shift

    return predict


def _join(header, samples, unused):
    width, channels, ways, _, groups, _ = header
    out, top, mask = bytearray(groups * channels * width), 1 << 8 * width - 1, (1 << 8 * width) - 1
    order = "big" if ways & 1 else "little"
    for channel, values in enumerate(samples):
        at = channel * width
        for value in values:
            value <<= unused[channel]
            if ways >> 1 == 1:
                value += top
            elif ways >> 1 == 2 and -top < value < 0:
                value = -top - value
            out[at:at + width] = (value & mask).to_bytes(width, order)
            at += channels * width
    return bytes(out)
