"""Chooses the reader: the compiled module where a wheel brought it, else the reader in Python.

The environment variable SHALEFS_ENGINE, `native` or `pure`, makes a choice fail that cannot be met.
"""

import os

from ._pure.source import BytesSource, FileSource
from .errors import UnsupportedError

_WANTED = os.environ.get("SHALEFS_ENGINE", "")
native = None
if _WANTED != "pure":
    try:
        from . import _native as native
    except ImportError:
        if _WANTED == "native":
            raise


def open_image(source, expect, cache_bytes):
    """Opens an image: an object with `identity`, `snapshots` and `tree(index)`."""
    if native is None:
        from ._pure.tree import OpenImage
        return OpenImage(source, expect, cache_bytes)
    if expect is not None and not isinstance(expect, str):
        expect = bytes(expect).hex()
    return native.Image(native_source(source), expect, cache_bytes)


def native_source(source):
    """What the module can read by itself, a path, bytes or its own object, else an object that it asks for bytes."""
    if isinstance(source, FileSource):
        return os.fsdecode(source.path)
    return source.data if isinstance(source, BytesSource) else getattr(source, "_decrypted", source)


def needs_native(what):
    """The compiled module; an error that names `what` where there is none."""
    if native is None:
        raise UnsupportedError(f"{what} needs the compiled module of shalefs, which this installation lacks; install a "
                               f"wheel for this platform, or use the command `shale`")
    return native
