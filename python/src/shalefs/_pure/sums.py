"""XXH3-64 with seed 0 and BLAKE3, by their packages where installed, otherwise in Python.

The Python versions follow the public descriptions of both algorithms. They are correct and slow: some MB a second.
"""

import struct

try:
    from xxhash import xxh3_64_intdigest as _fast_xxh3
except ImportError:
    _fast_xxh3 = None

try:
    from blake3 import blake3 as _fast_blake3
except ImportError:
    _fast_blake3 = None

_M64 = (1 << 64) - 1
_M32 = (1 << 32) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MX1, _MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")



def _word64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def _word32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def _fold(a, b):
    product = a * b
    return (product & _M64) ^ (product >> 64)


def _avalanche3(h):
    h ^= h >> 37
    h = h * _MX1 & _M64
    return h ^ h >> 32


def _avalanche64(h):
    h ^= h >> 33
    h = h * _P64[1] & _M64
    h ^= h >> 29
    h = h * _P64[2] & _M64
    return h ^ h >> 32


def _mix16(data, at, secret_at):
    return _fold(_word64(data, at) ^ _word64(_SECRET, secret_at),
                 _word64(data, at + 8) ^ _word64(_SECRET, secret_at + 8))


def _short(data):
    n = len(data)
    if n == 0:
        return _avalanche64(_word64(_SECRET, 56) ^ _word64(_SECRET, 64))
    if n <= 3:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return _avalanche64(combined ^ _word32(_SECRET, 0) ^ _word32(_SECRET, 4))
    if n <= 8:
        value = _word32(data, n - 4) + (_word32(data, 0) << 32)
        h = value ^ _word64(_SECRET, 8) ^ _word64(_SECRET, 16)
        h ^= ((h << 49 | h >> 15) & _M64) ^ ((h << 24 | h >> 40) & _M64)
        h = h * _MX2 & _M64
        h ^= (h >> 35) + n & _M64
        h = h * _MX2 & _M64
        return h ^ h >> 28
    if n <= 16:
        low = _word64(data, 0) ^ _word64(_SECRET, 24) ^ _word64(_SECRET, 32)
        high = _word64(data, n - 8) ^ _word64(_SECRET, 40) ^ _word64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche3(n + swapped + high + _fold(low, high) & _M64)
    acc = n * _P64[0]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += _mix16(data, 16 * i, 32 * i) + _mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return _avalanche3(acc & _M64)
    for i in range(8):
        acc += _mix16(data, 16 * i, 16 * i)
    acc = _avalanche3(acc & _M64)
    for i in range(8, n // 16):
        acc += _mix16(data, 16 * i, 16 * (i - 8) + 3)
    return _avalanche3(acc + _mix16(data, n - 16, 136 - 17) & _M64)


def _accumulate(acc, words, secret):
    for lane in range(8):
        value = words[lane]
        key = value ^ secret[lane]
        acc[lane ^ 1] = acc[lane ^ 1] + value & _M64
        acc[lane] = acc[lane] + (key & _M32) * (key >> 32) & _M64


def _python_xxh3(data):
    n = len(data)
    if n <= 240:
        return _short(data)
    acc = [_P32_3, *_P64[:3], _P64[3], _P32_2, _P64[4], _P32_1]
    secrets = [struct.unpack_from("<8Q", _SECRET, 8 * i) for i in range(17)]
    scramble = struct.unpack_from("<8Q", _SECRET, 192 - 64)
    stripes = (n - 1) // 64
    for stripe in range(stripes):
        _accumulate(acc, struct.unpack_from("<8Q", data, 64 * stripe), secrets[stripe % 16])
        # Each block is 16 stripes; a block that is the last one whole is scrambled only if stripes follow it.
        if stripe % 16 == 15 and 64 * (stripe + 1) <= n - 1:
            for lane in range(8):
                value = acc[lane]
                acc[lane] = (value ^ value >> 47 ^ scramble[lane]) * _P32_1 & _M64
    _accumulate(acc, struct.unpack_from("<8Q", data, n - 64), struct.unpack_from("<8Q", _SECRET, 192 - 64 - 7))
    result = n * _P64[0]
    for i in range(4):
        result += _fold(acc[2 * i] ^ _word64(_SECRET, 11 + 16 * i), acc[2 * i + 1] ^ _word64(_SECRET, 19 + 16 * i))
    return _avalanche3(result & _M64)


def xxh3_64(data) -> int:
    """The sum of chapter 3: XXH3-64, seed 0."""
    return _fast_xxh3(data) if _fast_xxh3 else _python_xxh3(bytes(data))


_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_PERMUTE = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT, _DERIVE_CONTEXT, _DERIVE_KEY = 1, 2, 4, 8, 32, 64
_ROUNDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
           (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def _compress(key, block, counter, length, flags):
    state = [*key, *_IV[:4], counter & _M32, counter >> 32, length, flags]
    for turn in range(7):
        for i, (a, b, c, d) in enumerate(_ROUNDS):
            for word, left, right in ((block[2 * i], 16, 12), (block[2 * i + 1], 8, 7)):
                state[a] = state[a] + state[b] + word & _M32
                value = state[d] ^ state[a]
                state[d] = (value >> left | value << 32 - left) & _M32
                state[c] = state[c] + state[d] & _M32
                value = state[b] ^ state[c]
                state[b] = (value >> right | value << 32 - right) & _M32
        if turn < 6:
            block = [block[place] for place in _PERMUTE]
    return [state[i] ^ state[i + 8] for i in range(8)]


def _words(data):
    return list(struct.unpack("<16I", data + bytes(64 - len(data))))


def _python_blake3(data, key, flags):
    def chunk(at, index, root):
        chaining, part = key, data[at:at + 1024]
        blocks = max(1, -(-len(part) // 64))
        for i in range(blocks):
            block = part[64 * i:64 * i + 64]
            extra = (_CHUNK_START if i == 0 else 0) | ((_CHUNK_END | root) if i == blocks - 1 else 0)
            chaining = _compress(chaining, _words(block), index, len(block), flags | extra)
        return chaining

    count = max(1, -(-len(data) // 1024))
    if count == 1:
        return struct.pack("<8I", *chunk(0, 0, _ROOT))
    level = [chunk(1024 * i, i, 0) for i in range(count)]
    # Pairs from the left; an odd one goes up as it is: the same tree as the largest power of two on the left.
    while len(level) > 1:
        root = _ROOT if len(level) == 2 else 0
        joined = [_compress(key, level[i] + level[i + 1], 0, 64, flags | _PARENT | root)
                  for i in range(0, len(level) - 1, 2)]
        level = joined + (level[-1:] if len(level) % 2 else [])
    return struct.pack("<8I", *level[0])


def blake3(data) -> bytes:
    """The BLAKE3 hash of some bytes, 32 bytes."""
    if _fast_blake3:
        return _fast_blake3(data).digest()
    return _python_blake3(bytes(data), list(_IV), 0)


def blake3_derive(context: str, data) -> bytes:
    """BLAKE3 in its key derivation mode."""
    if _fast_blake3:
        return _fast_blake3(data, derive_key_context=context).digest()
    key = _python_blake3(context.encode(), list(_IV), _DERIVE_CONTEXT)
    return _python_blake3(bytes(data), list(struct.unpack("<8I", key)), _DERIVE_KEY)
