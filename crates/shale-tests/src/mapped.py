#!/usr/bin/env python3
"""Compares mapped files and files opened by handle with those of a source, as often as asked.

usage: mapped.py SOURCE COPY AMOUNT SEED

AMOUNT is a number of files, such as 5000, or a time, such as 60s.

The part of the differential stress that Rust could do only with unsafe code: pages of a mapping are
touched in any order, privately and shared, advised on, and left mapped while others are; programs are
mapped by the same means. Handles need root and a file system that gives them; without, they are left
out, which the last line says. Ends with status 1 at the first difference.
"""
import ctypes
import errno
import mmap
import os
import random
import sys
import time

ADVICE = [mmap.MADV_NORMAL, mmap.MADV_RANDOM, mmap.MADV_SEQUENTIAL, mmap.MADV_WILLNEED, mmap.MADV_DONTNEED]
HANDLE_LEN = 128
AT_FDCWD = -100
LIBC = ctypes.CDLL(None, use_errno=True)


class Handle(ctypes.Structure):
    _fields_ = [("len", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_ubyte * HANDLE_LEN)]


class Different(Exception):
    pass


def files(root):
    """Paths below `root` of files that hold something, sorted so that a seed means the same."""
    found = []
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            stat = os.lstat(path)
            if (stat.st_mode & 0o170000) == 0o100000 and 0 < stat.st_size < 1 << 30:
                found.append((os.path.relpath(path, os.fsencode(root)), stat.st_size))
    return sorted(found)


def mapped(path, flags):
    fd = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(fd, 0, flags=flags, prot=mmap.PROT_READ)
    finally:
        os.close(fd)


def compare_mapped(source, copy, size, chance, kept):
    flags = chance.choice([mmap.MAP_PRIVATE, mmap.MAP_SHARED])
    expected, found = mapped(source, flags), mapped(copy, flags)
    if len(expected) != len(found):
        raise Different(f"{len(expected)} bytes in the source, {len(found)} in the copy")
    found.madvise(chance.choice(ADVICE))
    for _ in range(chance.randrange(1, 9)):
        at = chance.randrange(size)
        length = chance.choice([1, 100, 4096, 70_000, 2 << 20])
        if expected[at:at + length] != found[at:at + length]:
            raise Different(f"mapped: {length} bytes at {at} differ")
    # Some stay mapped while others come and go.
    kept.append((expected, found))
    if len(kept) > 20:
        kept.pop(chance.randrange(len(kept)))


def compare_handle(source, copy, size, root_fd, chance):
    """False where there are no handles."""
    handle, mount_id = Handle(len=HANDLE_LEN), ctypes.c_int()
    if LIBC.name_to_handle_at(AT_FDCWD, copy, ctypes.byref(handle), ctypes.byref(mount_id), 0) != 0:
        number = ctypes.get_errno()
        if number in (errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise Different(f"no handle: {os.strerror(number)}")
    fd = LIBC.open_by_handle_at(root_fd, ctypes.byref(handle), os.O_RDONLY)
    if fd < 0:
        number = ctypes.get_errno()
        if number == errno.EPERM:
            return False
        raise Different(f"not opened by its handle: {os.strerror(number)}")
    try:
        at, length = chance.randrange(size), chance.choice([10, 5000, 300_000])
        with open(source, "rb") as expected:
            if os.pread(expected.fileno(), length, at) != os.pread(fd, length, at):
                raise Different(f"by handle: {length} bytes at {at} differ")
    finally:
        os.close(fd)
    return True


def main():
    source, copy, amount, seed = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    chance = random.Random(seed)
    begin = time.monotonic()
    places = files(source)
    root_fd = os.open(copy, os.O_RDONLY | os.O_DIRECTORY)
    kept, mapped_count, handle_count, has_handles = [], 0, 0, True

    def is_done():
        if amount.endswith("s"):
            return time.monotonic() - begin >= float(amount[:-1])
        return mapped_count + handle_count >= int(amount)

    while not is_done():
        path, size = chance.choice(places)
        try:
            pair = (os.path.join(os.fsencode(root), path) for root in (source, copy))
            if has_handles and chance.randrange(4) == 0:
                has_handles = compare_handle(*pair, size, root_fd, chance)
                handle_count += has_handles
            else:
                compare_mapped(*pair, size, chance, kept)
                mapped_count += 1
        except (Different, OSError) as error:
            sys.exit(f"mapped: seed {seed}: {path!r}: {error}")
    handles = f"{handle_count} by handle" if has_handles else "no handles here"
    print(f"seed {seed}: {mapped_count} files mapped, {handles}, no difference")


main()
