#!/usr/bin/env python3
"""Packs six arrays with shale and with blosc2 (zstd 9, shuffle and bitshuffle), and compares sizes.

usage: arrays.py SHALE WORK [LEVEL]      needs numpy and blosc2; the same arrays on every machine
"""

import os
import subprocess
import sys

import blosc2
import numpy as np

rng = np.random.default_rng(7)


def smooth(shape, dtype):
    """A field of a few waves, with measurement noise in the lowest digits."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]]
    field = sum(
        rng.normal(0, 40) * np.sin(x / rng.uniform(40, 400) + rng.uniform(0, 6)) * np.cos(y / rng.uniform(40, 400))
        for _ in range(6)
    )
    step = 2.0**-12 if dtype == np.float32 else 2.0**-20
    return (np.round((field + 280 + rng.normal(0, step, shape)) / step) * step).astype(dtype)


def counters(count, dtype):
    steps = rng.integers(0, 12, count)
    steps[rng.random(count) < 0.01] = 300
    return np.cumsum(steps).astype(dtype)


def picture(height, width):
    y, x = np.mgrid[0:height, 0:width]
    planes = [
        127 + 90 * np.sin(x / rng.uniform(60, 300) + c) * np.cos(y / rng.uniform(60, 300)) + rng.normal(0, 2, x.shape)
        for c in range(3)
    ]
    return np.clip(np.stack(planes, 2), 0, 255).astype(np.uint8)


def mesh(count):
    """Vertices of a bumpy sphere in scan order: x, y, z."""
    side = int(count**0.5)
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, side), np.linspace(0.02, np.pi - 0.02, side))
    r = 50 + 2 * np.sin(9 * u) * np.sin(7 * v)
    xyz = np.stack([r * np.cos(u) * np.sin(v), r * np.sin(u) * np.sin(v), r * np.cos(v)], 2)
    return xyz.reshape(-1, 3).astype(np.float32)


ARRAYS = {
    "field-float32": lambda: smooth((1500, 2000), np.float32),
    "field-float64": lambda: smooth((1000, 1500), np.float64),
    "counters-int16": lambda: counters(4_000_000, np.int16),
    "counters-int32": lambda: counters(3_000_000, np.int32),
    "picture-rgb": lambda: picture(1600, 2400),
    "mesh-float32": lambda: mesh(1_000_000),
}


def blosc(array):
    sizes = []
    for filter in (blosc2.Filter.SHUFFLE, blosc2.Filter.BITSHUFFLE):
        cparams = {"codec": blosc2.Codec.ZSTD, "clevel": 9, "filters": [filter], "typesize": array.dtype.itemsize}
        packed = blosc2.asarray(array, cparams=cparams)
        sizes.append(packed.schunk.cbytes)
    return min(sizes)


def main():
    shale, work = sys.argv[1:3]
    level = sys.argv[3] if len(sys.argv) > 3 else "6"
    print("| array | bytes | blosc2 | shale | ratio |\n|---|---|---|---|---|")
    for name, make in ARRAYS.items():
        array = make()
        folder, image = os.path.join(work, name), os.path.join(work, name + ".shale")
        os.makedirs(folder, exist_ok=True)
        np.save(os.path.join(folder, "array.npy"), array)
        subprocess.run([shale, "create", "-q", "-f", "-l", level, folder, "-o", image], check=True)
        theirs, ours = blosc(array), os.path.getsize(image)
        print(f"| {name} | {array.nbytes:,} | {theirs:,} | {ours:,} | {ours / theirs:.3f} |", flush=True)


main()
